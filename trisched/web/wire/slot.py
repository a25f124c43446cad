"""The shapes of slots: the ledger of a job, backfills, and explanations."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from trisched.domain.run import RunStatus


class Slot(Struct, kw_only=True):
    """What became of one slot."""

    slot: str
    local: str
    state: Literal[
        "ran", "running", "waiting", "held", "skipped", "cancelled", "missing", "forgotten", "due", "upcoming"
    ]
    run_id: str | None
    status: RunStatus | None
    reason: str | None
    late: float | None
    origin: str | None
    note: str | None


class SlotList(Struct, kw_only=True):
    """Slots in order; ``next`` is the ``from`` of the page after."""

    slots: list[Slot]
    next: str | None


class BackfillRequest(Struct, kw_only=True, rename={"from_": "from"}):
    """A range of time, its end not in it."""

    from_: str
    to: str
    #: Only counts.
    dry_run: bool | UnsetType = UNSET
    #: How many missing slots the caller means; 409 if there are more or fewer.
    expect: int | UnsetType = UNSET


class Backfill(Struct, kw_only=True):
    """The slots of the range, and the runs that were made."""

    slots: int
    existing: int
    skipped: int
    forgotten: int
    missing: int
    made: int
    runs: list[str]


class Durations(Struct, kw_only=True):
    """Columns of a chart: starts (epoch seconds), durations, statuses (first letters) and ids of the newest runs."""

    t: list[float]
    d: list[float]
    s: str
    ids: list[str]


class Explanation(Struct, kw_only=True):
    """Why something ran as it did, or did not: sentences for people."""

    job: str
    slot: str | None
    run_id: str | None
    state: str
    text: list[str]
