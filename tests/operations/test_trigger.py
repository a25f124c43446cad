"""Triggering, cancelling, retrying, resolving: the verbs of people."""

from __future__ import annotations

import pytest
import trio

from tests.operations.stage import claim, finish, opened, run_status, shell
from trisched.domain.lifecycle import Move
from trisched.domain.run import RunStatus
from trisched.errors import Conflict, Invalid, NotFound
from trisched.operations import jobs, run_views, runs
from trisched.operations.run_views import RunFilter
from trisched.operations.runs import Submission, Submitted
from trisched.operations.scope import Scope


async def test_twenty_triggers_at_once_make_one_run(database_url: str) -> None:
    answers: list[Submitted] = []
    # Two programs on Postgres; SQLite serves one.
    async with opened(database_url) as one, opened(database_url) as two:
        await jobs.create(one, shell("backup", parameters={"a": 1}))

        async def trigger(scope: Scope) -> None:
            answers.append(await runs.trigger(scope, "backup"))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(trigger, two if number % 2 and "sqlite" not in database_url else one)
        assert len(answers) == 20
        assert [answer.created for answer in answers].count(True) == 1
        assert len({answer.run_id for answer in answers}) == 1
        assert len((await run_views.list_runs(one, RunFilter())).runs) == 1


async def test_a_trigger_collapses_only_onto_the_same_parameters_while_not_over(scope: Scope) -> None:
    await jobs.create(scope, shell("backup", parameters={"b": 1, "a": 2}))
    first = await runs.trigger(scope, "backup")
    same = await runs.trigger(scope, "backup", {"a": 2})
    other = await runs.trigger(scope, "backup", {"a": 3})
    assert (same.run_id, same.created) == (first.run_id, False)
    assert other.created
    [claimed] = await claim(scope)
    assert claimed.id == first.run_id
    running = await runs.trigger(scope, "backup")
    assert (running.run_id, running.status, running.created) == (first.run_id, RunStatus.RUNNING, False)
    await finish(scope, claimed)
    assert (await runs.trigger(scope, "backup")).created


async def test_a_trigger_with_a_key_is_the_same_run_also_when_it_is_over(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    first = await runs.trigger(scope, "backup", key="k")
    [claimed] = await claim(scope)
    await finish(scope, claimed)
    again = await runs.trigger(scope, "backup", key="k")
    assert (again.run_id, again.status, again.created) == (first.run_id, RunStatus.COMPLETED, False)
    with pytest.raises(Conflict, match="other parameters"):
        await runs.trigger(scope, "backup", {"a": 1}, key="k")


async def test_a_trigger_may_wait_and_may_be_urgent(scope: Scope) -> None:
    job = await jobs.create(scope, shell("backup"))
    made = await runs.trigger(scope, job.id, priority="critical", delay="5m")
    run = (await run_views.get(scope, made.run_id)).run
    assert (made.status, run.priority, run.origin) == (RunStatus.PENDING, 0, "trigger")


async def test_a_trigger_of_nobody_or_of_a_disabled_job_is_refused(scope: Scope) -> None:
    await jobs.create(scope, shell("off", enabled=False))
    with pytest.raises(Conflict, match="disabled"):
        await runs.trigger(scope, "off")
    for name in ("nobody", "a\0b", "a\ud800"):
        with pytest.raises(NotFound):
            await runs.trigger(scope, name) if name == "nobody" else await jobs.enable(scope, name)


async def test_cancelling_ends_what_waits_and_asks_what_runs(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    waiting = await runs.submit(scope, Submission(job="backup", delay=60))
    running = await runs.submit(scope, Submission(job="backup"))
    [claimed] = await claim(scope)
    assert await runs.cancel(scope, waiting.run_id, "no need") is RunStatus.CANCELLED
    assert await runs.cancel(scope, running.run_id) is RunStatus.RUNNING
    asked = (await run_views.get(scope, claimed.id)).run
    assert asked.cancel_requested_at is not None
    assert (await run_views.get(scope, waiting.run_id)).run.reason == "no need"
    with pytest.raises(Conflict, match="cancelled already"):
        await runs.cancel(scope, waiting.run_id)
    with pytest.raises(NotFound):
        await runs.cancel(scope, "run-0")
    with pytest.raises(NotFound):
        await runs.cancel(scope, "run-\0")


async def test_retry_revives_what_failed_and_repeats_what_completed(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    await runs.submit_many(scope, [Submission(job="backup", parameters={"n": n}) for n in range(3)])
    buried, held, done = await claim(scope, most=3)
    await finish(scope, buried, Move.BURY, error="broken")
    await finish(scope, held, Move.HOLD, error="node lost")
    await finish(scope, done)
    for run in (buried, held):
        again = await runs.retry(scope, run.id)
        assert (again.run_id, again.status, again.created) == (run.id, RunStatus.QUEUED, False)
        assert len((await run_views.get(scope, run.id)).attempts) == 1, "its history is kept"
        with pytest.raises(Conflict, match="queued"):
            await runs.retry(scope, run.id)
    fresh = await runs.retry(scope, done.id)
    assert fresh.created
    assert (await run_views.get(scope, fresh.run_id)).run.parameters == '{"n":2}'


async def test_a_run_of_a_deleted_job_is_not_revived(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    made = await runs.trigger(scope, "backup")
    await jobs.delete(scope, "backup")
    assert await run_status(scope, made.run_id) is RunStatus.CANCELLED
    with pytest.raises(Conflict, match="deleted"):
        await runs.retry(scope, made.run_id)


async def test_only_a_held_run_is_resolved(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    made = await runs.trigger(scope, "backup")
    with pytest.raises(Conflict, match="queued"):
        await runs.resolve(scope, made.run_id)
    [claimed] = await claim(scope)
    await finish(scope, claimed, Move.HOLD, error="node lost")
    with pytest.raises(Invalid):
        await runs.resolve(scope, made.run_id, 7)
    assert await runs.resolve(scope, made.run_id, "seen in the ledger") is RunStatus.COMPLETED
    assert (await run_views.get(scope, made.run_id)).run.reason == "seen in the ledger"
