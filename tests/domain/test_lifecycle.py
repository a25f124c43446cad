"""The state machine of a run: a closed table, and the move that follows each end of an attempt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.lifecycle import MOVES, Ending, Move, after_failure, after_loss
from trisched.domain.run import ACTIVE, FINISHED, STATUS_GROUPS, Outcome, RunStatus

#: How a run may come into the world.
BORN = {RunStatus.PENDING, RunStatus.QUEUED, RunStatus.SKIPPED}
#: What needs a person's word.
BY_HAND = {Move.REVIVE, Move.RESOLVE, Move.CANCEL}


def _reachable(start: RunStatus, moves: set[Move]) -> set[RunStatus]:
    seen, pending = {start}, [start]
    while pending:
        status = pending.pop()
        for sources, target in (MOVES[move] for move in moves):
            if status in sources and target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _ending(move: Move, **fields: Any) -> Ending:
    values: dict[str, Any] = {"run_id": "run-1", "token": 1, "claim_id": "c", "outcome": Outcome.FAILED} | fields
    return Ending(move=move, **values)


def test_every_move_is_in_the_table() -> None:
    assert MOVES.keys() == set(Move)


def test_every_status_is_reachable_from_birth() -> None:
    assert set.union(*(_reachable(status, set(Move)) for status in BORN)) == set(RunStatus)


@pytest.mark.parametrize("status", RunStatus)
def test_every_run_can_come_to_an_end(status: RunStatus) -> None:
    assert _reachable(status, set(Move)) & FINISHED


@pytest.mark.parametrize("status", sorted(FINISHED))
def test_what_is_over_changes_only_when_a_person_asks(status: RunStatus) -> None:
    leaving = {move for move, (sources, _) in MOVES.items() if status in sources}
    assert leaving <= {Move.REVIVE}
    assert _reachable(status, set(Move) - BY_HAND) == {status}


def test_completed_and_skipped_are_final() -> None:
    final = {status for status in RunStatus if not any(status in sources for sources, _ in MOVES.values())}
    assert final == {RunStatus.COMPLETED, RunStatus.SKIPPED}


def test_only_a_claim_starts_a_run() -> None:
    assert [move for move, (_, target) in MOVES.items() if target is RunStatus.RUNNING] == [Move.CLAIM]
    assert MOVES[Move.CLAIM][0] == {RunStatus.QUEUED}


def test_no_move_leads_where_it_starts() -> None:
    assert not [move for move, (sources, target) in MOVES.items() if target in sources]


def test_a_run_is_active_or_finished_or_held() -> None:
    assert ACTIVE | FINISHED | {RunStatus.HELD} == set(RunStatus)
    assert not ACTIVE & FINISHED
    assert RunStatus.HELD not in ACTIVE | FINISHED


def test_everything_that_is_not_over_can_be_cancelled() -> None:
    assert MOVES[Move.CANCEL][0] == set(RunStatus) - FINISHED


def test_groups_are_made_of_statuses_and_are_none_themselves() -> None:
    for name, group in STATUS_GROUPS.items():
        assert name not in set(RunStatus)
        assert group <= set(RunStatus)


@pytest.mark.parametrize("move", Move)
def test_an_attempt_ends_only_with_a_move_of_what_runs(move: Move) -> None:
    if RunStatus.RUNNING in MOVES[move][0]:
        assert _ending(move).status is MOVES[move][1]
    else:
        with pytest.raises(ValueError, match=move.value):
            _ending(move)


@given(retries=st.integers(0, 50))
def test_retries_come_on_top_of_the_first_attempt(retries: int) -> None:
    moves: list[Move] = []
    failures = 0
    while not moves or moves[-1] is Move.RETRY:
        failures += 1
        ending = after_failure(
            run_id="r", token=1, claim_id="c", outcome=Outcome.FAILED, failures=failures, retries=retries,
            delay=2.5, reason="why",
        )  # fmt: skip
        moves.append(ending.move)
        assert ending.delay == (2.5 if ending.move is Move.RETRY else 0.0)
    assert moves == [Move.RETRY] * retries + [Move.BURY]


def test_an_end_carries_what_it_was_decided_on() -> None:
    ending = after_failure(
        run_id="r", token=7, claim_id="c", outcome=Outcome.TIMED_OUT, failures=1, retries=3, delay=1.0, reason="late"
    )
    assert (ending.run_id, ending.token, ending.claim_id) == ("r", 7, "c")
    assert (ending.outcome, ending.reason, ending.status) == (Outcome.TIMED_OUT, "late", RunStatus.RETRYING)


@pytest.mark.parametrize(
    ("delivery", "crashes", "move"),
    [
        ("retry", 1, Move.LOSE),
        ("retry", 2, Move.LOSE),
        ("retry", 3, Move.BURY),
        ("retry", 4, Move.BURY),
        ("hold", 1, Move.HOLD),
        ("hold", 9, Move.HOLD),
    ],
)
def test_a_lost_run_is_tried_again_held_or_poison(delivery: str, crashes: int, move: Move) -> None:
    found, reason = after_loss(delivery, crashes, 3)
    assert found is move
    assert "lost" in reason
