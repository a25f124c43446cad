"""Attempts and output: history is written once, and again only by who was not heard."""

from __future__ import annotations

import attrs
import pytest

from tests.storage.stage import attempt_of, claimed_run, rows, write
from trisched.domain.run import Outcome
from trisched.storage.database import Database
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables.attempt import Chunk


async def test_an_attempt_is_stored_as_it_was(database: Database) -> None:
    held = await claimed_run(database)
    full = attempt_of(
        held, outcome=Outcome.FAILED, effective=False, exit_code=-9, error_type="ValueError", error="ü'\"\\\n",
        traceback="a\nb", result='{"a":null}',
    )  # fmt: skip
    await write(database, attempt_table.add, [full])
    assert await write(database, attempt_table.of_run, held.id) == [full]
    assert await write(database, attempt_table.of_run, "run-nowhere") == []


@pytest.mark.parametrize("outcome", Outcome)
async def test_every_outcome_can_be_stored(database: Database, outcome: Outcome) -> None:
    held = await claimed_run(database)
    await write(database, attempt_table.add, [attempt_of(held, outcome=outcome)])
    [stored] = await write(database, attempt_table.of_run, held.id)
    assert stored.outcome is outcome


async def test_attempts_come_in_their_order(database: Database) -> None:
    held = await claimed_run(database)
    attempts = [attempt_of(held, token=token, number=token) for token in (3, 1, 2)]
    await write(database, attempt_table.add, attempts)
    stored = await write(database, attempt_table.of_run, held.id)
    assert [attempt.token for attempt in stored] == [1, 2, 3]


async def test_what_is_stored_already_stays_and_the_rest_is_added(database: Database) -> None:
    held = await claimed_run(database)
    first, second = attempt_of(held), attempt_of(held, token=2, number=2)
    await write(database, attempt_table.add, [first])
    await write(database, attempt_table.add, [attrs.evolve(first, outcome=Outcome.LOST), second])
    assert await write(database, attempt_table.of_run, held.id) == [first, second]


async def test_two_attempts_with_one_token_are_told_apart_by_their_claims(database: Database) -> None:
    """A failover that forgets a commit hands the same token out again."""
    held = await claimed_run(database)
    attempts = [attempt_of(held), attempt_of(held, claim_id="claim-other", effective=False)]
    await write(database, attempt_table.add, attempts)
    assert len(await write(database, attempt_table.of_run, held.id)) == 2


async def test_an_end_that_was_stored_before_is_recognised(database: Database) -> None:
    held = await claimed_run(database)
    failed = attempt_of(held, outcome=Outcome.FAILED)
    await write(database, attempt_table.add, [failed, attempt_of(held, token=2, effective=False)])

    async def outcome(token: int, claim_id: str = held.claim_id) -> Outcome | None:
        return await write(database, attempt_table.effective_outcome, held.id, token, claim_id)

    assert await outcome(1) is Outcome.FAILED
    assert await outcome(2) is None, "it had no effect"
    assert await outcome(3) is None
    assert await outcome(1, "claim-other") is None


async def test_a_lost_attempt_may_still_come_to_its_own_end(database: Database) -> None:
    held = await claimed_run(database)
    lost = attempt_of(held, outcome=Outcome.LOST)
    late = attempt_of(held, effective=False, ended_at=lost.ended_at + 1)
    await write(database, attempt_table.add, [lost])
    await write(database, attempt_table.add, [late])
    assert await write(database, attempt_table.of_run, held.id) == [lost, late]


async def test_attempts_of_several_runs_come_the_latest_first(database: Database) -> None:
    first, second = await claimed_run(database), await claimed_run(database)
    attempts = [
        attempt_of(first, started_at=1),
        attempt_of(second, started_at=2),
        attempt_of(first, token=2, started_at=3),
    ]
    await write(database, attempt_table.add, attempts)
    assert await write(database, attempt_table.of_runs, [first.id, second.id]) == attempts[::-1]
    assert await write(database, attempt_table.of_runs, [second.id]) == [attempts[1]]
    assert await write(database, attempt_table.of_runs, []) == []


async def test_output_comes_back_in_order_and_is_stored_once(database: Database) -> None:
    chunks = [Chunk("run-1", 1, number, f'["line {number} ü"]') for number in (2, 0, 1)]
    await write(database, attempt_table.add_output, chunks)
    await write(database, attempt_table.add_output, [Chunk("run-1", 1, 1, '["again"]'), Chunk("run-1", 2, 0, "[]")])
    stored = await write(database, attempt_table.output_of, "run-1", 1)
    assert stored == [f'["line {number} ü"]' for number in range(3)]
    assert await write(database, attempt_table.output_of, "run-1", 2) == ["[]"]
    assert await write(database, attempt_table.output_of, "run-2", 1) == []


async def test_no_output_is_no_row(database: Database) -> None:
    await write(database, attempt_table.add_output, [])
    assert await rows(database, "SELECT count(*) FROM output") == [(0,)]
