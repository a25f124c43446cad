"""Recording: every end of an attempt is stored once, however often the answer gets lost, and counts only if it may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import Link, Stage, real_stage
from trisched.domain.lifecycle import Ending, Move
from trisched.domain.run import Attempt, Outcome, RunStatus
from trisched.errors import StoreUnavailable
from trisched.storage.tables import run as run_table
from trisched.storage.tables.attempt import Chunk
from trisched.storage.tables.run import Claimed
from trisched.worker.record import Finished, record

S = RunStatus


async def claimed(stage: Stage) -> Claimed:
    """A run held by a living node."""
    await stage.job("job")
    await stage.submit("job")
    incarnation = await stage.register("node-a")
    [run] = await stage.database.write(
        lambda tx: run_table.claim(
            tx, queue="default", node_id="node-a", incarnation=incarnation, claim_id="claim", most=1, excluded=[]
        )
    )
    return run


def finished(run: Claimed, move: Move, outcome: Outcome, text: str = "line") -> Finished:
    ending = Ending(run_id=run.id, token=run.token, claim_id=run.claim_id, move=move, outcome=outcome, reason="why")
    attempt = Attempt(
        run_id=run.id,
        token=run.token,
        claim_id=run.claim_id,
        number=run.attempt,
        node_id="node-a",
        started_at=run.started_at,
        ended_at=run.started_at + 1,
        outcome=outcome,
        effective=True,
    )
    return Finished(
        "job", ending, attempt, [Chunk(run.id, run.token, 0, f'[[1, 0, "log", "{text}"]]')], frees_others=False
    )


@pytest.mark.parametrize(
    ("move", "outcome", "status"),
    [
        (Move.COMPLETE, Outcome.COMPLETED, S.COMPLETED),
        (Move.RETRY, Outcome.FAILED, S.RETRYING),
        (Move.BURY, Outcome.TIMED_OUT, S.DEAD),
        (Move.RELEASE, Outcome.RELEASED, S.QUEUED),
        (Move.RELEASE, Outcome.LOST, S.QUEUED),
        (Move.CANCEL, Outcome.CANCELLED, S.CANCELLED),
    ],
)
async def test_recording_the_same_end_twice_changes_nothing(
    database_url: str, move: Move, outcome: Outcome, status: RunStatus
) -> None:
    async with real_stage(database_url) as stage:
        run = await claimed(stage)
        end = finished(run, move, outcome)
        await stage.database.write(lambda tx: record(tx, [end]))
        first = (await stage.run(run.id), await stage.attempts(run.id), await stage.output(run.id))
        await stage.database.write(lambda tx: record(tx, [end]))
        assert (await stage.run(run.id), await stage.attempts(run.id), await stage.output(run.id)) == first
        assert first[0].status is status
        assert [(attempt.outcome, attempt.effective) for attempt in first[1]] == [(outcome, True)]
        assert first[2] == ["line"]


async def test_a_result_that_comes_after_the_run_was_given_to_another_is_kept_without_effect(
    database_url: str,
) -> None:
    async with real_stage(database_url) as stage:
        run = await claimed(stage)
        loss = Ending(
            run_id=run.id, token=run.token, claim_id=run.claim_id, move=Move.LOSE, outcome=Outcome.LOST, reason="gone"
        )
        await stage.database.write(lambda tx: run_table.end_attempt(tx, loss))
        for _ in range(2):
            await stage.database.write(lambda tx: record(tx, [finished(run, Move.COMPLETE, Outcome.COMPLETED)]))
        stored = await stage.run(run.id)
        assert (stored.status, stored.reason, stored.finished_at) == (S.QUEUED, "gone", None)
        assert [(attempt.outcome, attempt.effective) for attempt in await stage.attempts(run.id)] == [
            (Outcome.COMPLETED, False)
        ]


@pytest.mark.parametrize("commit", [True, False])
async def test_results_are_stored_once_when_the_database_answers_again(
    stage: Stage, commit: bool, autojump_clock: MockClock
) -> None:
    done = 0

    async def work() -> None:
        nonlocal done
        await trio.sleep(5)
        done += 1

    async def cut(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        if commit:
            await call()
        raise StoreUnavailable("cut")

    stage.tasks.register("work", work, None)
    job = await stage.job("job")
    link = Link(stage.database)
    async with stage.working(database=link, concurrency=10):
        for _ in range(10):
            await stage.submit("job")
        await trio.sleep(4)
        whole, link.fault = link.fault, cut
        await trio.sleep(60)
        assert done == 10
        link.fault = whole
        await trio.sleep(5)
        runs = await stage.runs(job)
        assert {(run.status, run.attempt, run.token) for run in runs} == {(S.COMPLETED, 1, 1)}
        for run in runs:
            [attempt] = await stage.attempts(run.id)
            assert (attempt.outcome, attempt.effective) == (Outcome.COMPLETED, True)
    assert done == 10


async def test_a_worker_takes_no_more_than_its_capacity_while_results_wait(
    stage: Stage, autojump_clock: MockClock
) -> None:
    started = 0

    async def work() -> None:
        nonlocal started
        started += 1

    async def only_claims(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        # Results are written by the recorder alone, after something has started.
        if kind == "write" and started and held:
            raise StoreUnavailable("cut")
        return await call()

    held = True
    stage.tasks.register("work", work, None)
    job = await stage.job("job")
    for _ in range(9):
        await stage.submit("job")
    link = Link(stage.database)
    link.fault = only_claims
    async with stage.working(database=link, concurrency=4):
        await trio.sleep(30)
        assert started == 4
        held = False
        await trio.sleep(30)
    assert started == 9
    assert {run.status for run in await stage.runs(job)} == {S.COMPLETED}


async def test_who_waits_for_a_run_is_told_when_it_is_recorded(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    async with stage.working():
        run_id = await stage.submit("job", delay="1h")
        with stage.database.wakeups.waiting(f"run:{run_id}") as told:
            await stage.execute("UPDATE run SET status = 'queued' WHERE id = :id", id=run_id)
            with trio.fail_after(2):
                await told.wait()
        assert (await stage.run(run_id)).status is S.COMPLETED
