"""Removing runs that are over for long, with all that belongs to them, and nothing else."""

from __future__ import annotations

from tests.storage.stage import HOUR, SECOND, add_runs, attempt_of, claim, execute, new_run, register, rows, write
from trisched.domain.run import FINISHED, RunStatus
from trisched.storage.database import Database
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import run_history
from trisched.storage.tables.attempt import Chunk

MADE = 1_700_000_000 * SECOND


def _id(age_us: int = 0) -> str:
    return f"run-{MADE - age_us:014x}000000000000"


async def _ids(database: Database) -> set[str]:
    return {row[0] for row in await rows(database, "SELECT id FROM run")}


async def _finish_all(database: Database, at: int = MADE) -> None:
    await execute(database, "UPDATE run SET finished_at = :at WHERE finished_at IS NOT NULL", at=at)


async def test_only_what_is_over_is_removed(database: Database) -> None:
    made = {}
    for number, status in enumerate(status for status in RunStatus if status is not RunStatus.RUNNING):
        [made[status]] = await add_runs(database, [new_run(id=_id(number))])
        await execute(
            database,
            "UPDATE run SET status = :status, finished_at = :at WHERE id = :id",
            status=status.value,
            at=MADE if status in FINISHED else None,
            id=made[status],
        )
    removed = await write(database, run_history.remove, completed_before=MADE + 1, others_before=MADE + 1, most=100)
    assert removed == len(FINISHED)
    assert await _ids(database) == {run_id for status, run_id in made.items() if status not in FINISHED}


async def test_completed_runs_and_others_are_kept_for_their_own_time(database: Database) -> None:
    completed, skipped = await add_runs(
        database,
        [new_run(id=_id(1), status=RunStatus.COMPLETED), new_run(id=_id(2), status=RunStatus.SKIPPED)],
    )
    await _finish_all(database)
    assert await write(database, run_history.remove, completed_before=MADE, others_before=MADE, most=9) == 0
    assert await write(database, run_history.remove, completed_before=MADE + 1, others_before=MADE, most=9) == 1
    assert await _ids(database) == {skipped}
    assert completed != skipped


async def test_a_run_made_long_ago_that_ended_lately_stays(database: Database) -> None:
    [run_id] = await add_runs(database, [new_run(id=_id(100 * HOUR), status=RunStatus.COMPLETED)])
    await _finish_all(database)
    assert await write(database, run_history.remove, completed_before=MADE, others_before=MADE, most=9) == 0
    assert await _ids(database) == {run_id}


async def test_the_oldest_go_first_and_no_more_than_asked(database: Database) -> None:
    ids = await add_runs(database, [new_run(id=_id(age), status=RunStatus.COMPLETED) for age in (1, 3, 2)])
    await _finish_all(database)
    bounds = {"completed_before": MADE + 1, "others_before": MADE + 1}
    assert await write(database, run_history.remove, **bounds, most=2) == 2
    assert await _ids(database) == {ids[0]}
    assert await write(database, run_history.remove, **bounds, most=2) == 1
    assert await write(database, run_history.remove, **bounds, most=2) == 0


async def test_attempts_and_output_go_with_their_run(database: Database) -> None:
    await register(database)
    old, kept = await add_runs(database, [new_run(id=_id(1)), new_run(id=_id())])
    for held in await claim(database):
        await write(database, attempt_table.add, [attempt_of(held)])
        await write(database, attempt_table.add_output, [Chunk(held.id, held.token, 0, "[]")])
    await execute(
        database,
        "UPDATE run SET status = 'completed', claim_id = NULL, finished_at = :at WHERE id = :id",
        at=MADE,
        id=old,
    )
    await write(database, run_history.remove, completed_before=MADE + 1, others_before=MADE + 1, most=9)
    assert await rows(database, "SELECT run_id FROM attempt") == [(kept,)]
    assert await rows(database, "SELECT run_id FROM output") == [(kept,)]
