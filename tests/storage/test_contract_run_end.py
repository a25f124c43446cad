"""The ends of attempts: which the database accepts, and what each makes of the run."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.storage.stage import (
    SECOND,
    add_job,
    add_runs,
    claim,
    claimed_run,
    ending,
    new_run,
    now,
    register,
    run_in,
    stored_run,
    write,
)
from trisched.domain.lifecycle import MOVES, Move
from trisched.domain.run import FINISHED, Run, RunStatus
from trisched.storage.database import Database, Tx
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.run import Claimed
from trisched.storage.wakeup import DUE

ENDS = [move for move, (sources, _) in MOVES.items() if RunStatus.RUNNING in sources]
#: What each end adds to attempt, failures and crashes of a run in its second attempt.
COUNTS = {
    Move.COMPLETE: (2, 0, 0),
    Move.RETRY: (2, 1, 0),
    Move.BURY: (2, 1, 0),
    Move.RELEASE: (1, 0, 0),
    Move.LOSE: (2, 0, 1),
    Move.HOLD: (2, 0, 1),
    Move.CANCEL: (2, 0, 0),
}


async def _second_attempt(database: Database) -> Claimed:
    """A run with one attempt behind it that left no count but its own."""
    first = await claimed_run(database)
    await write(database, run_table.end_attempt, ending(first, Move.RETRY, delay=-1.0))
    await write(database, run_table.promote, 10)
    [held] = await claim(database)
    return held


@pytest.mark.parametrize("move", ENDS)
async def test_each_end_sets_status_counters_and_times(database: Database, move: Move) -> None:
    held = await _second_attempt(database)
    before, stamp = await stored_run(database, held.id), await now(database)
    end = ending(held, move, delay=120.0 if move is Move.RETRY else 0.0, reason="why")
    assert await write(database, run_table.end_attempt, end)
    run, later = await stored_run(database, held.id), await now(database)
    assert (run.status, run.claim_id, run.token, run.reason) == (MOVES[move][1], None, 2, "why")
    attempts, failures, crashes = COUNTS[move]
    assert (run.attempt, run.failures, run.crashes) == (attempts, before.failures + failures, crashes)
    if run.status in FINISHED:
        assert run.finished_at is not None
        assert stamp <= run.finished_at <= later
    else:
        assert run.finished_at is None
    if move is Move.RETRY:
        assert stamp + 120 * SECOND <= run.due_at <= later + 120 * SECOND
    else:
        assert run.due_at == before.due_at


async def test_a_wait_may_be_a_whole_day(database: Database) -> None:
    held, stamp = await claimed_run(database), await now(database)
    await write(database, run_table.end_attempt, ending(held, Move.RETRY, delay=86_400.25))
    wait = (await stored_run(database, held.id)).due_at - stamp
    assert 86_400.25 * SECOND <= wait < 86_520 * SECOND


@pytest.mark.parametrize("move", ENDS)
@pytest.mark.parametrize("stale", [{"token": 1}, {"token": 3}, {"claim_id": "claim-of-another"}, {"run_id": "run-no"}])
async def test_an_end_of_who_does_not_hold_the_run_changes_nothing(
    database: Database, move: Move, stale: dict[str, Any]
) -> None:
    held = await _second_attempt(database)
    run = await stored_run(database, held.id)
    assert not await write(database, run_table.end_attempt, ending(held, move, **stale))
    assert await write(database, run_table.complete, [ending(held, Move.COMPLETE, **stale)]) == set()
    assert await stored_run(database, held.id) == run


@pytest.mark.parametrize("status", [status for status in RunStatus if status is not RunStatus.RUNNING])
async def test_a_run_that_does_not_run_cannot_end(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status)
    for move in ENDS:
        end = attrs.evolve(ending(_as_claimed(run), move), claim_id="claim-1")
        assert not await write(database, run_table.end_attempt, end)
        assert await write(database, run_table.complete, [end]) == set()
    assert await stored_run(database, run.id) == run


def _as_claimed(run: Run) -> Claimed:
    return Claimed(
        id=run.id, job_id=run.job_id, parameters="{}", overrides=None, retries=3, attempt=1, failures=0,
        token=run.token, claim_id="claim-1", slot_at=None, key=None, started_at=0, rank=0,
    )  # fmt: skip


async def test_an_end_is_accepted_once(database: Database) -> None:
    held = await claimed_run(database)
    assert await write(database, run_table.complete, [ending(held, Move.COMPLETE)]) == {held.id}
    run = await stored_run(database, held.id)
    assert await write(database, run_table.complete, [ending(held, Move.COMPLETE)]) == set()
    assert not await write(database, run_table.end_attempt, ending(held, Move.RETRY))
    assert await stored_run(database, held.id) == run


async def test_a_batch_completes_exactly_what_is_still_held(database: Database) -> None:
    await register(database)
    await add_runs(database, [new_run() for _ in range(5)])
    again, fine, lost, taken, more = await claim(database)
    for held in (again, lost, taken):
        await write(database, run_table.end_attempt, ending(held, Move.LOSE))
    second, still_lost, retaken = await claim(database)
    assert [run.id for run in (second, still_lost, retaken)] == [again.id, lost.id, taken.id]
    batch = [ending(held, Move.COMPLETE) for held in (second, fine, lost, more, taken)]
    assert await write(database, run_table.complete, batch) == {again.id, fine.id, more.id}
    statuses = {run_id: (await stored_run(database, run_id)).status for run_id in (fine.id, lost.id, taken.id)}
    assert statuses == {
        fine.id: RunStatus.COMPLETED,
        lost.id: RunStatus.RUNNING,
        taken.id: RunStatus.RUNNING,
    }


async def test_a_completed_run_has_an_end_and_no_holder(database: Database) -> None:
    held, stamp = await claimed_run(database), await now(database)
    await write(database, run_table.complete, [ending(held, Move.COMPLETE)])
    run = await stored_run(database, held.id)
    assert (run.status, run.claim_id, run.node_id, run.attempt) == (RunStatus.COMPLETED, None, "node-a", 1)
    assert run.finished_at is not None
    assert stamp <= run.finished_at <= await now(database)


async def test_completing_nothing_is_nothing(database: Database) -> None:
    assert await write(database, run_table.complete, []) == set()


@pytest.mark.parametrize("move", [Move.RETRY, Move.RELEASE, Move.LOSE])
async def test_a_run_that_is_to_stop_is_cancelled_instead_of_queued_again(database: Database, move: Move) -> None:
    held = await claimed_run(database)
    await write(database, run_table.cancel, held.id, "why")
    assert await write(database, run_table.end_attempt, ending(held, move, delay=5.0))
    run = await stored_run(database, held.id)
    assert run.status is RunStatus.CANCELLED
    assert run.finished_at is not None


@pytest.mark.parametrize("move", [Move.COMPLETE, Move.BURY, Move.HOLD, Move.CANCEL])
async def test_a_run_that_is_to_stop_may_come_to_its_own_end_first(database: Database, move: Move) -> None:
    held = await claimed_run(database)
    await write(database, run_table.cancel, held.id, "why")
    assert await write(database, run_table.end_attempt, ending(held, move))
    assert (await stored_run(database, held.id)).status is MOVES[move][1]


async def test_who_must_look_is_woken(database: Database) -> None:
    told: list[str] = []
    with database.wakeups.listening(told.append):
        first = await claimed_run(database, queue="a")
        told.clear()
        await write(database, run_table.end_attempt, ending(first, Move.LOSE))
        assert told == ["queue:a"]
        [second] = await claim(database, queue="a")
        await write(database, run_table.end_attempt, ending(second, Move.RETRY, delay=60.0))
        assert told == ["queue:a", DUE]
        await write(database, run_table.end_attempt, ending(second, Move.RETRY))
        assert told == ["queue:a", DUE], "a refused end tells nobody"


async def test_the_rescue_sees_what_an_incarnation_holds(database: Database) -> None:
    job = await add_job(database)
    await register(database)
    await register(database, "node-b", "b-1")
    ids = await add_runs(database, [new_run(job.id) for _ in range(4)])
    mine = await claim(database, most=3)
    await claim(database, node_id="node-b", incarnation="b-1")
    await write(database, run_table.complete, [ending(mine[1], Move.COMPLETE)])

    def held_by(tx: Tx, incarnation: str, most: int) -> list[str]:
        return [row[0] for row in tx.rows(run_table.SQL.claimed_by, incarnation=incarnation, most=most)]

    assert await write(database, held_by, "a-1", 10) == [ids[0], ids[2]]
    assert await write(database, held_by, "a-1", 1) == [ids[0]]
    assert await write(database, run_lookup.claimed_counts) == {"a-1": 2, "b-1": 1}
