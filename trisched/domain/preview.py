"""Shows when a schedule fires next, in the words of its own time zone."""

from __future__ import annotations

import attrs

from trisched.domain.dst import note_on, note_on_skipped
from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.slot import Cron, Schedule, next_slot
from trisched.domain.zone import local_time


@attrs.frozen(kw_only=True)
class Fire:
    """One slot as a person reads it."""

    slot: int
    #: RFC 3339 in UTC.
    utc: str
    #: RFC 3339 with the zone's offset at that moment.
    local: str
    #: Set where a change of the clock moved, left out or doubled something.
    note: str | None


def preview(schedule: Schedule, after: int, count: int) -> list[Fire]:
    """The next ``count`` slots after ``after``, fewer where the schedule ends."""
    fires: list[Fire] = []
    slot = next_slot(schedule, after)
    while slot is not None and len(fires) < count:
        fires.append(fire(schedule, after, slot))
        after, slot = slot, next_slot(schedule, slot)
    return fires


def fire(schedule: Schedule, after: int, slot: int) -> Fire:
    """``slot`` as a person reads it; ``after`` is the slot before it, or a moment between the two."""
    seconds, micro = divmod(slot, MICROSECONDS)
    local = local_time(schedule.timezone, seconds).replace(microsecond=micro)
    note = _note(schedule, after, slot)
    return Fire(slot=slot, utc=format_instant(slot), local=local.isoformat(), note=note)


def _note(schedule: Schedule, after: int, slot: int) -> str | None:
    """The note on ``slot`` itself, else on what was left out between ``after`` and it."""
    if not isinstance(schedule.rule, Cron):
        return None
    fields, clock = schedule.rule.fields, schedule.wall_clock
    note = note_on(fields, clock, slot // MICROSECONDS)
    if note is not None or schedule.dst_gap == "next" or not fields.fixed_hours:
        return note
    moved = next_slot(attrs.evolve(schedule, dst_gap="next"), after)
    if moved is None or moved == slot:
        return None
    return note_on_skipped(fields, clock, moved // MICROSECONDS)
