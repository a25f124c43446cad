"""THE state machine of a run: which moves exist, and which move follows which end of an attempt.

    pending ─▶ queued ─▶ running ─▶ completed
       ▲         ▲         │ ├────▶ retrying ─▶ queued      failed, attempts left
       │         └─────────┤ ├────▶ dead  ─(revive)▶ queued  failed, none left
       └ due/deps met      │ ├────▶ held  ─(revive)▶ queued  node lost, delivery = hold
                           │ └────▶ cancelled
                           └ released by a stopping node, or lost and delivery = retry

A transition that is not in MOVES cannot be built, and storage applies a transition only while the row still
has the status, token and claim id it was decided on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from trisched.domain.run import Outcome, RunStatus

_S = RunStatus


class Move(StrEnum):
    """The verbs that change a run's status."""

    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"
    LOSE = "lose"
    HOLD = "hold"
    PROMOTE = "promote"
    CANCEL = "cancel"
    REVIVE = "revive"
    SKIP = "skip"
    RESOLVE = "resolve"


MOVES: Final[dict[Move, tuple[frozenset[RunStatus], RunStatus]]] = {
    Move.CLAIM: (frozenset({_S.QUEUED}), _S.RUNNING),
    Move.COMPLETE: (frozenset({_S.RUNNING}), _S.COMPLETED),
    Move.RETRY: (frozenset({_S.RUNNING}), _S.RETRYING),
    Move.BURY: (frozenset({_S.RUNNING}), _S.DEAD),
    Move.RELEASE: (frozenset({_S.RUNNING}), _S.QUEUED),
    Move.LOSE: (frozenset({_S.RUNNING}), _S.QUEUED),
    Move.HOLD: (frozenset({_S.RUNNING}), _S.HELD),
    Move.PROMOTE: (frozenset({_S.PENDING, _S.RETRYING}), _S.QUEUED),
    Move.CANCEL: (frozenset({_S.PENDING, _S.QUEUED, _S.RETRYING, _S.RUNNING, _S.HELD}), _S.CANCELLED),
    Move.REVIVE: (frozenset({_S.DEAD, _S.CANCELLED, _S.HELD}), _S.QUEUED),
    Move.SKIP: (frozenset({_S.PENDING, _S.QUEUED}), _S.SKIPPED),
    Move.RESOLVE: (frozenset({_S.HELD}), _S.COMPLETED),
}


@attrs.frozen(kw_only=True)
class Ending:
    """How the attempt that holds a run ended, and the move that follows from it."""

    run_id: str
    token: int
    claim_id: str
    move: Move
    outcome: Outcome
    #: Seconds until a retry is due; 0 for every other move.
    delay: float = 0.0
    #: One line for people: why the run is dead, cancelled or back in the queue.
    reason: str | None = None

    def __attrs_post_init__(self) -> None:
        sources, _ = MOVES[self.move]
        if _S.RUNNING not in sources:
            raise ValueError(f"an attempt cannot end with {self.move}")

    @property
    def status(self) -> RunStatus:
        """The status the run gets."""
        return MOVES[self.move][1]


def after_failure(
    *, run_id: str, token: int, claim_id: str, outcome: Outcome, failures: int, retries: int, delay: float, reason: str
) -> Ending:
    """Retry while retries remain, else bury. ``failures`` counts this one too."""
    move = Move.RETRY if failures <= retries else Move.BURY
    wait = delay if move is Move.RETRY else 0.0
    return Ending(run_id=run_id, token=token, claim_id=claim_id, move=move, outcome=outcome, delay=wait, reason=reason)


def after_loss(delivery: str, crashes: int, max_crashes: int) -> tuple[Move, str]:
    """What becomes of a run whose node is gone. ``crashes`` counts this one too."""
    if delivery == "hold":
        return Move.HOLD, "its node was lost while it ran; delivery is hold, so a person decides"
    if crashes >= max_crashes:
        return Move.BURY, f"poison: its node was lost under it {crashes} times"
    return Move.LOSE, "its node was lost while it ran"
