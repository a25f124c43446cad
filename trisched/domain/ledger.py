"""The slot ledger: for every slot that a schedule prescribed, what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import attrs

from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.preview import fire
from trisched.domain.run import RunStatus
from trisched.domain.slot import Schedule, slots_between

State = Literal["ran", "running", "waiting", "held", "skipped", "cancelled", "missing", "forgotten", "due", "upcoming"]
STATES: Final[tuple[State, ...]] = (
    "ran", "running", "waiting", "held", "skipped", "cancelled", "missing", "forgotten", "due", "upcoming",
)  # fmt: skip
_OF_STATUS: Final[dict[RunStatus, State]] = {
    RunStatus.RUNNING: "running",
    RunStatus.PENDING: "waiting",
    RunStatus.QUEUED: "waiting",
    RunStatus.RETRYING: "waiting",
    RunStatus.HELD: "held",
    RunStatus.SKIPPED: "skipped",
    RunStatus.COMPLETED: "ran",
    RunStatus.DEAD: "ran",
    RunStatus.CANCELLED: "cancelled",
}
_MISSING: Final = "no run and no record of it: it was missed in an outage with more slots than are recorded"
_FORGOTTEN: Final = "finished runs of that time are not kept any more: it may have run"
_DUE: Final = "the scheduler has not come to it yet"


@attrs.frozen(kw_only=True)
class Span:
    """A time in which a job had a schedule: after ``since`` and up to ``until``; None: it still has it."""

    since: int
    until: int | None
    schedule: Schedule

    def slots(self, first: int, last: int, limit: int) -> list[int]:
        """The slots that it prescribed with ``first <= slot <= last``, at most ``limit``."""
        until = last if self.until is None else min(last, self.until)
        return slots_between(self.schedule, max(first - 1, self.since), until, limit)


@attrs.frozen(kw_only=True)
class SlotRun:
    """The run that a slot made, as far as the ledger tells of it."""

    id: str
    slot_at: int
    status: RunStatus
    reason: str | None
    origin: str
    #: When its first attempt began.
    started_at: int | None


@attrs.frozen(kw_only=True)
class Entry:
    """What became of one slot."""

    slot: int
    #: RFC 3339 with the offset of the schedule's zone.
    local: str
    state: State
    run: SlotRun | None
    reason: str | None
    #: Seconds from the slot to the first start.
    late: float | None
    #: Set where a change of the clock moved, left out or doubled something.
    note: str | None


@attrs.frozen(kw_only=True)
class Horizon:
    """The moments that tell slots without a run apart."""

    now: int
    #: The first slot that the scheduler has not handled; None: there is none to come.
    next_slot_at: int | None
    #: Runs that ended before this may have been removed.
    kept_since: int


def ledger(
    spans: Sequence[Span], runs: Iterable[SlotRun], first: int, last: int, horizon: Horizon, limit: int
) -> list[Entry]:
    """The slots with ``first <= slot <= last`` in order, at most ``limit``: the prescribed and those with a run."""
    by_slot = {run.slot_at: run for run in runs if first <= run.slot_at <= last}
    rules: dict[int, Schedule | None] = dict.fromkeys(by_slot)
    for span in spans:
        rules |= dict.fromkeys(span.slots(first, last, limit), span.schedule)
    return [_entry(slot, rules[slot], by_slot.get(slot), horizon) for slot in sorted(rules)[:limit]]


def _entry(slot: int, schedule: Schedule | None, run: SlotRun | None, horizon: Horizon) -> Entry:
    shown = None if schedule is None else fire(schedule, slot - 1, slot)
    state, reason = _without_run(slot, horizon) if run is None else (_state(run), run.reason)
    late = None if run is None or run.started_at is None else max(run.started_at - slot, 0) / MICROSECONDS
    return Entry(
        slot=slot,
        local=format_instant(slot) if shown is None else shown.local,
        state=state,
        run=run,
        reason=reason,
        late=late,
        note=None if shown is None else shown.note,
    )


def _state(run: SlotRun) -> State:
    if run.status is RunStatus.CANCELLED and run.started_at is not None:
        return "ran"
    return _OF_STATUS[run.status]


def _without_run(slot: int, horizon: Horizon) -> tuple[State, str | None]:
    if slot > horizon.now:
        return "upcoming", None
    if horizon.next_slot_at is not None and slot >= horizon.next_slot_at:
        return "due", _DUE
    return ("forgotten", _FORGOTTEN) if slot < horizon.kept_since else ("missing", _MISSING)
