"""Reading: lists with filters, pages that miss nothing, detail, output, figures."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.operations.stage import claim, finish, shell
from trisched.domain.lifecycle import Move
from trisched.domain.run import Outcome, RunStatus
from trisched.errors import Invalid, NotFound
from trisched.operations import job_views, jobs, run_views, runs, schedules, system
from trisched.operations.job_views import JobFilter
from trisched.operations.run_views import RunFilter
from trisched.operations.runs import Submission
from trisched.operations.scope import Scope
from trisched.storage.database import Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables.attempt import Chunk


async def names(scope: Scope, **wanted: Any) -> list[str]:
    page = await job_views.list_jobs(scope, JobFilter(**wanted))
    assert page.total == len(page.jobs)
    return [detail.job.spec.name for detail in page.jobs]


async def test_jobs_are_found_by_each_of_their_traits(scope: Scope) -> None:
    await jobs.create(scope, shell("Alpha_100%", tags=["x", "y"], schedule="0 9 * * *"))
    await jobs.create(scope, shell("beta", queue="night", schedule="every 1h", tags=["y"]))
    await jobs.create(scope, {"name": "gamma", "type": "python", "function": "noop", "enabled": False})
    assert await names(scope) == ["Alpha_100%", "beta", "gamma"]
    assert await names(scope, tag="y") == ["Alpha_100%", "beta"]
    assert await names(scope, tag="' OR 1=1--") == []
    assert await names(scope, schedule="interval") == ["beta"]
    assert await names(scope, schedule="none") == ["gamma"]
    assert await names(scope, type="python") == ["gamma"]
    assert await names(scope, queue="night") == ["beta"]
    assert await names(scope, enabled=False) == ["gamma"]
    assert await names(scope, enabled=True) == ["Alpha_100%", "beta"]
    assert await names(scope, search="ALPHA") == ["Alpha_100%"]
    assert await names(scope, search="_") == ["Alpha_100%"]
    assert await names(scope, search="0%") == ["Alpha_100%"]
    assert await names(scope, search="!") == []
    assert await names(scope, tag="y", queue="default") == ["Alpha_100%"]


async def test_jobs_are_found_by_the_status_of_their_newest_run(scope: Scope) -> None:
    for name in ("bad", "good", "idle", "waits"):
        await jobs.create(scope, shell(name))
    await runs.submit_many(scope, [Submission(job="bad"), Submission(job="good")])
    bad, good = await claim(scope, most=2)
    await finish(scope, bad, Move.BURY, error="broken")
    await finish(scope, good)
    await runs.submit(scope, Submission(job="waits"))
    assert await names(scope, status="dead") == ["bad"]
    assert await names(scope, status="failed") == ["bad"]
    assert await names(scope, status="completed") == ["good"]
    assert await names(scope, status="queued") == ["waits"]
    assert await names(scope, status="finished") == ["bad", "good"]
    await runs.submit(scope, Submission(job="bad"))
    assert await names(scope, status="dead") == []
    counts = (await job_views.list_jobs(scope, JobFilter())).counts
    assert (counts.total, counts.running) == (4, 0)
    assert counts.by_last == {"completed": 1, "queued": 2}


@pytest.mark.parametrize(
    ("wanted", "page", "path"),
    [
        ({"status": "broken"}, {}, "status"),
        ({"schedule": "weekly"}, {}, "schedule"),
        ({"type": "x"}, {}, "type"),
        ({"tag": "a\0"}, {}, "tag"),
        ({}, {"sort": "name; drop table runs"}, "sort"),
        ({}, {"limit": 0}, "limit"),
        ({}, {"limit": 1001}, "limit"),
        ({}, {"offset": -1}, "offset"),
    ],
)
async def test_a_filter_that_means_nothing_is_refused(
    scope: Scope, wanted: dict[str, Any], page: dict[str, Any], path: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await job_views.list_jobs(scope, JobFilter(**wanted), **page)
    assert [error.path for error in refused.value.errors] == [path]


@pytest.mark.parametrize("sort", job_views.SORTS)
async def test_pages_of_jobs_miss_nothing_in_any_order(scope: Scope, sort: str) -> None:
    for number in range(7):
        await jobs.create(scope, shell(f"job {number}", **({"schedule": "every 1h"} if number % 2 else {})))
    seen: list[str] = []
    for offset in range(0, 10, 3):
        page = await job_views.list_jobs(scope, JobFilter(), sort=sort, limit=3, offset=offset)
        assert page.total == 7
        seen += [detail.job.spec.name for detail in page.jobs]
    assert sorted(seen) == [f"job {number}" for number in range(7)]


async def test_a_walk_over_runs_meets_each_once_while_others_are_added(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    made = await runs.submit_many(scope, [Submission(job="one") for _ in range(10)])
    seen: list[str] = []
    cursor = None
    while True:
        page = await run_views.list_runs(scope, RunFilter(), limit=3, cursor=cursor)
        seen += [run.id for run in page.runs]
        await runs.submit(scope, Submission(job="one"))
        cursor = page.next
        if cursor is None:
            break
    assert seen == [each.run_id for each in reversed(made)]


@pytest.mark.parametrize("cursor", ["", "AAAA", "é", "!!", "cnVuczpydW4tMQ", "am9iczpydW4t", "A" * 5000])
async def test_a_cursor_of_somewhere_else_is_refused(scope: Scope, cursor: str) -> None:
    with pytest.raises(Invalid) as refused:
        await run_views.list_runs(scope, RunFilter(), cursor=cursor)
    assert [error.path for error in refused.value.errors] == ["cursor"]


async def test_runs_are_found_by_each_of_their_traits(scope: Scope) -> None:
    job = await jobs.create(scope, shell("one"))
    await jobs.create(scope, shell("two", queue="night"))
    made = await runs.submit_many(
        scope, [Submission(job="one"), Submission(job="two"), Submission(job="one", delay="1h")]
    )
    [claimed] = await claim(scope, "night")
    ids = [each.run_id for each in made]

    async def found(**wanted: Any) -> list[int]:
        page = await run_views.list_runs(scope, RunFilter(**wanted))
        return [ids.index(run.id) for run in page.runs]

    created = (await run_views.get(scope, claimed.id)).run.created_at
    assert await found() == [2, 1, 0]
    assert await found(status="queued") == [0]
    assert await found(status="active") == [2, 1, 0]
    assert await found(status="finished") == []
    assert await found(job="one") == [2, 0]
    assert await found(job=job.id) == [2, 0]
    assert await found(job="nobody") == []
    assert await found(queue="night") == [1]
    assert await found(worker="node-1") == [1]
    assert await found(since=created) == [2, 1, 0]
    assert await found(since=created + 1) == []
    assert await found(until=created) == []
    assert await found(until=created + 1, since=created) == [2, 1, 0]


async def test_a_run_is_shown_with_its_attempts_and_the_output_of_the_last(scope: Scope) -> None:
    await jobs.create(scope, shell("one", retries=3))
    made = await runs.trigger(scope, "one")
    [first] = await claim(scope)

    def write(token: int, *lines: tuple[int, str]) -> Any:
        text = msgspec.json.encode([[number, 1_000_000, "stdout", line] for number, line in lines]).decode()

        def work(tx: Tx) -> None:
            attempt_table.add_output(tx, [Chunk(made.run_id, token, lines[0][0], text)])

        return work

    await scope.database.write(write(first.token, (1, "first"), (2, "try")))
    await finish(scope, first, Move.RELEASE, error="node stopped")
    [second] = await claim(scope)
    await scope.database.write(write(second.token, (1, "second"), (2, "line")))
    await scope.database.write(write(second.token, (3, "end")))
    running = await run_views.get(scope, made.run_id, with_output=True)
    assert running.output == "second\nline\nend"
    assert [attempt.outcome for attempt in running.attempts] == [Outcome.FAILED]
    await finish(scope, second, result='"done"')
    assert [attempt.result for attempt in (await run_views.get(scope, made.run_id)).attempts] == [None, '"done"']
    assert [line.text for line in await run_views.output(scope, made.run_id, after=1)] == ["line", "end"]
    assert len(await run_views.output(scope, made.run_id, attempt=1)) == 3, "the later of two with one number"
    with pytest.raises(NotFound):
        await run_views.output(scope, made.run_id, attempt=9)
    with pytest.raises(NotFound):
        await run_views.output(scope, "run-0")


async def test_figures_and_history_tell_of_the_newest_runs(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    assert (await job_views.figures(scope, "one")).success_rate is None
    await runs.submit_many(scope, [Submission(job="one") for _ in range(4)])
    dead, done, running = await claim(scope, most=3)
    await finish(scope, dead, Move.BURY, error="broken")
    await finish(scope, done)
    figures = await job_views.figures(scope, "one")
    assert (figures.runs, figures.success_rate) == (4, 0.5)
    assert figures.by_status == {
        RunStatus.DEAD: 1,
        RunStatus.COMPLETED: 1,
        RunStatus.RUNNING: 1,
        RunStatus.QUEUED: 1,
    }
    assert figures.average_duration is not None
    history = await job_views.history(scope, "one")
    assert {each.run.id for each in history} == {running.id, dead.id, done.id}
    assert history[0].run.id == running.id
    assert history[0].attempt is None


async def test_the_state_of_the_whole(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    await runs.submit_many(scope, [Submission(job="one") for _ in range(3)])
    first, second = await claim(scope, most=2)
    await finish(scope, first)
    [node] = await system.workers(scope)
    assert (node.node.id, node.alive, node.leader, node.active_runs) == ("node-1", True, False, 1)
    [queue] = await system.queues(scope)
    assert (queue.name, queue.by_status) == ("default", {RunStatus.QUEUED: 1, RunStatus.RUNNING: 1})
    scheduler = await system.scheduler(scope)
    assert (scheduler.running, scheduler.finished) == (1, {RunStatus.COMPLETED: 1})
    state = await system.state(scope)
    assert (state.database_kind, state.leader.alive, state.alarms) == (scope.database.kind, False, [])
    await system.answers(scope)
    assert second.token == 1


async def test_a_schedule_is_tried_without_being_stored(scope: Scope) -> None:
    shown = await schedules.show(scope, "30 2 * * *", path="cron", timezone="Europe/Berlin", after=0, count=2)
    assert [fire.utc for fire in shown.fires] == ["1970-01-01T01:30:00Z", "1970-01-02T01:30:00Z"]
    with pytest.raises(Invalid) as refused:
        await schedules.show(scope, "0 0 31 2 *", path="cron")
    assert [error.path for error in refused.value.errors] == ["cron"]
