"""Runs that wait for their time or for an earlier run, and what people do to runs."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from tests.storage.stage import (
    HOUR,
    SECOND,
    add_run,
    add_runs,
    claim,
    claimed_run,
    ending,
    held_open,
    new_run,
    now,
    register,
    rows,
    run_in,
    stored_run,
    wait_for_lock,
    write,
)
from trisched.domain.lifecycle import MOVES, Move
from trisched.domain.run import FINISHED, WAITS_OVERLAP, RunStatus
from trisched.storage.database import Database
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.tables import run as run_table
from trisched.storage.wakeup import CANCEL, DUE, run_topic


async def test_what_is_due_is_queued_and_what_is_not_stays(database: Database) -> None:
    stamp = await now(database)
    due = await add_run(database, status=RunStatus.PENDING, due_at=stamp - SECOND, queue="a")
    early = await add_run(database, status=RunStatus.PENDING, due_at=stamp + HOUR)
    told: list[str] = []
    with database.wakeups.listening(told.append):
        assert await write(database, run_table.promote, 10) == 1
    assert told == ["queue:a"]
    assert (await stored_run(database, due)).status is RunStatus.QUEUED
    assert (await stored_run(database, early)).status is RunStatus.PENDING
    assert await write(database, run_table.next_due) == stamp + HOUR


async def test_a_retry_whose_time_has_come_is_queued(database: Database) -> None:
    held = await claimed_run(database)
    await write(database, run_table.end_attempt, ending(held, Move.RETRY, delay=-1.0))
    assert await write(database, run_table.promote, 10) == 1
    assert (await stored_run(database, held.id)).status is RunStatus.QUEUED


async def test_aging_counts_from_the_moment_a_run_was_due(database: Database) -> None:
    due = await now(database) - 5 * SECOND
    await add_run(database, status=RunStatus.PENDING, due_at=due, priority=3)
    await write(database, run_table.promote, 10)
    assert await rows(database, "SELECT rank FROM run") == [(due + 3 * HOUR,)]


async def test_promotion_takes_the_longest_due_first_and_no_more_than_asked(database: Database) -> None:
    stamp = await now(database)
    ids = await add_runs(
        database, [new_run(status=RunStatus.PENDING, due_at=stamp - age * SECOND) for age in (1, 3, 2)]
    )
    assert await write(database, run_table.promote, 2) == 2
    assert (await stored_run(database, ids[0])).status is RunStatus.PENDING
    assert await write(database, run_table.promote, 2) == 1
    assert await write(database, run_table.promote, 2) == 0
    assert await write(database, run_table.next_due) is None


async def test_a_run_that_waits_for_another_is_not_queued_by_time(database: Database) -> None:
    await add_run(database, status=RunStatus.PENDING, due_at=1, waits=WAITS_OVERLAP)
    assert await write(database, run_table.promote, 10) == 0
    assert await write(database, run_table.next_due) is None


async def test_runs_that_wait_go_one_after_another_in_the_order_of_their_slots(database: Database) -> None:
    await register(database)
    waiting = {"status": RunStatus.PENDING, "waits": WAITS_OVERLAP}
    third, first, second = await add_runs(database, [new_run(slot_at=slot, **waiting) for slot in (30, 10, 20)])
    order = []
    for left in (1, 1, 1):
        assert await write(database, run_table.free_waiting) == left
        assert await write(database, run_table.free_waiting) in (0, 1), "nothing more while one is under way"
        [held] = await claim(database)
        order.append(held.id)
        await write(database, run_table.complete, [ending(held, Move.COMPLETE)])
    assert order == [first, second, third]
    assert await write(database, run_table.free_waiting) == 0


async def test_each_job_has_a_line_of_its_own(database: Database) -> None:
    waiting = {"status": RunStatus.PENDING, "waits": WAITS_OVERLAP}
    await add_runs(database, [new_run(job, slot_at=1, queue=job, **waiting) for job in ("job-1", "job-2")])
    told: set[str] = set()
    with database.wakeups.listening(told.add):
        assert await write(database, run_table.free_waiting) == 2
    assert told == {"queue:job-1", "queue:job-2"}


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.RETRYING])
async def test_a_run_waits_while_another_of_its_job_is_under_way(database: Database, status: RunStatus) -> None:
    await run_in(database, status)
    waiting = await add_run(database, status=RunStatus.PENDING, slot_at=1, waits=WAITS_OVERLAP)
    await write(database, run_table.free_waiting)
    assert (await stored_run(database, waiting)).status is RunStatus.PENDING


@pytest.mark.parametrize("status", [*FINISHED, RunStatus.HELD])
async def test_a_run_goes_on_when_the_others_are_over_or_wait_for_a_person(
    database: Database, status: RunStatus
) -> None:
    await run_in(database, status)
    stamp = await now(database)
    waiting = await add_run(database, status=RunStatus.PENDING, slot_at=1, due_at=5, waits=WAITS_OVERLAP)
    await write(database, run_table.free_waiting)
    run = await stored_run(database, waiting)
    assert (run.status, run.waits) == (RunStatus.QUEUED, None)
    assert run.due_at >= stamp


@pytest.mark.parametrize("status", RunStatus)
async def test_a_cancel_ends_what_waits_and_asks_what_runs(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status)
    told: set[str] = set()
    with database.wakeups.listening(told.add):
        answer = await write(database, run_table.cancel, run.id, "no longer needed")
    after = await stored_run(database, run.id)
    if status in FINISHED:
        assert (answer, after, told) == (None, run, set())
    elif status is RunStatus.RUNNING:
        assert (answer, after.status, after.reason, told) == (status, status, None, {CANCEL})
        assert after.finished_at is None
        assert after.cancel_requested_at is not None
        assert await write(database, run_table.cancels_of, "a-1") == [run.id]
    else:
        assert (answer, after.status, after.reason) == (RunStatus.CANCELLED, RunStatus.CANCELLED, "no longer needed")
        assert after.finished_at is not None
        assert told == {run_topic(run.id), DUE}


async def test_a_second_cancel_keeps_the_time_of_the_first(database: Database) -> None:
    run = await run_in(database, RunStatus.RUNNING)
    await write(database, run_table.cancel, run.id, "why")
    first = await stored_run(database, run.id)
    assert await write(database, run_table.cancel, run.id, "again") is RunStatus.RUNNING
    assert await stored_run(database, run.id) == first


async def test_an_unknown_run_cannot_be_cancelled(database: Database) -> None:
    assert await write(database, run_table.cancel, "run-nowhere", "why") is None


async def test_a_cancel_waits_for_a_change_under_way_and_sees_its_outcome(postgres: PostgresDatabase) -> None:
    """The run goes from running to retrying while the cancel looks at it: it must not slip through."""
    held = await claimed_run(postgres)
    answers = []

    async def cancel() -> None:
        answers.append(await write(postgres, run_table.cancel, held.id, "why"))

    retry = partial(run_table.end_attempt, ending=ending(held, Move.RETRY, delay=60.0))
    async with trio.open_nursery() as nursery, held_open(postgres, retry):
        nursery.start_soon(cancel)
        await wait_for_lock(postgres)
    assert answers == [RunStatus.CANCELLED]
    assert (await stored_run(postgres, held.id)).status is RunStatus.CANCELLED


async def test_a_removed_job_leaves_no_run_in_line(database: Database) -> None:
    made = {status: await run_in(database, status) for status in RunStatus}
    other = await run_in(database, RunStatus.QUEUED, job_id="job-2")
    told: set[str] = set()
    with database.wakeups.listening(told.add):
        await write(database, run_table.cancel_job, "job-1", "the job was deleted")
    after = {status: await stored_run(database, run.id) for status, run in made.items()}
    for status, run in made.items():
        if status in FINISHED:
            assert after[status] == run
        elif status is not RunStatus.RUNNING:
            assert (after[status].status, after[status].reason) == (RunStatus.CANCELLED, "the job was deleted")
            assert run_topic(run.id) in told
    assert after[RunStatus.RUNNING].status is RunStatus.RUNNING
    assert after[RunStatus.RUNNING].cancel_requested_at is not None
    assert {CANCEL, DUE} <= told
    assert await stored_run(database, other.id) == other


@pytest.mark.parametrize("status", RunStatus)
async def test_a_dead_cancelled_or_held_run_is_put_back_in_line(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status, slot_at=4)
    stamp = await now(database)
    told: list[str] = []
    with database.wakeups.listening(told.append):
        revived = await write(database, run_table.revive, run.id)
    after = await stored_run(database, run.id)
    assert revived is (status in MOVES[Move.REVIVE][0])
    if not revived:
        assert (after, told) == (run, [])
        return
    assert told == [f"queue:{run.queue}"]
    assert (after.status, after.failures, after.crashes, after.reason) == (RunStatus.QUEUED, 0, 0, None)
    assert (after.cancel_requested_at, after.finished_at, after.waits) == (None, None, None)
    assert (after.attempt, after.token, after.slot_at) == (run.attempt, run.token, 4)
    assert after.due_at >= stamp


async def test_a_revived_run_is_fenced_from_the_attempt_that_was_lost(database: Database) -> None:
    held = await claimed_run(database)
    await write(database, run_table.end_attempt, ending(held, Move.HOLD))
    await write(database, run_table.revive, held.id)
    [again] = await claim(database)
    assert again.token == held.token + 1
    assert await write(database, run_table.complete, [ending(held, Move.COMPLETE)]) == set()


@pytest.mark.parametrize("status", RunStatus)
async def test_a_person_resolves_a_held_run_and_no_other(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status)
    resolved = await write(database, run_table.resolve, run.id, "seen on the printer")
    after = await stored_run(database, run.id)
    assert resolved is (status is RunStatus.HELD)
    if resolved:
        assert (after.status, after.reason) == (RunStatus.COMPLETED, "seen on the printer")
        assert after.finished_at is not None
    else:
        assert after == run
