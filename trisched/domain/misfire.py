"""Decides what becomes of slots that came due: which run, which are made up for, which are skipped."""

from __future__ import annotations

from typing import Literal

import attrs

from trisched.domain.duration import MICROSECONDS
from trisched.domain.slot import Every, Schedule, slots_between
from trisched.domain.slot import next_slot as slot_after

Misfire = Literal["skip", "catch_up_one", "catch_up_all"]

#: Skipped slots that get a row; of a long outage the latest are the ones that people look for.
MOST_SKIPPED = 100
#: Slots of a cron schedule are counted one by one up to here, and estimated beyond.
_COUNTED = 2000


@attrs.frozen(kw_only=True)
class SlotPlan:
    """What to do with every slot that is due. No slot is in two of the lists; each list is in slot order."""

    #: On time: run them.
    run: tuple[int, ...]
    #: Missed, and run now by the misfire policy.
    made_up: tuple[int, ...]
    #: Missed and not run: each gets a row with its reason.
    skipped: tuple[int, ...]
    #: How many older slots were missed and get no row. Exact for intervals, and for cron up to 2,000;
    #: beyond, an estimate from the spacing of the oldest 2,000.
    unrecorded: int
    #: The first slot to come.
    next: int | None


def plan_slots(
    schedule: Schedule, *, next_slot: int, now: int, policy: Misfire, max_catch_up: int, grace_us: int
) -> SlotPlan:
    """The plan for the slots from ``next_slot``, the earliest not handled yet, up to ``now``.

    A slot is on time within ``grace_us``. At most ``max_catch_up`` on-time slots run, the latest ones; older
    ones count as missed. The cost is bounded by what is returned, not by the length of the outage.
    """
    run = _latest(schedule, max(next_slot, now - grace_us), now, max(max_catch_up, 1))
    missed_until = run[0] - 1 if run else now
    wanted = {"skip": 0, "catch_up_one": 1, "catch_up_all": max(max_catch_up, 0)}[policy]
    missed = _latest(schedule, next_slot, missed_until, wanted + MOST_SKIPPED)
    cut = max(len(missed) - wanted, 0)
    return SlotPlan(
        run=tuple(run),
        made_up=tuple(missed[cut:]),
        skipped=tuple(missed[:cut]),
        unrecorded=_count(schedule, next_slot, missed[0] - 1) if missed else 0,
        next=slot_after(schedule, max(now, next_slot - 1)),
    )


def _latest(schedule: Schedule, first: int, last: int, count: int) -> list[int]:
    """The last ``count`` slots with ``first <= slot <= last``.

    Slots can only be walked forwards. So look for a window, ending at ``last``, that holds enough of them but
    not many more: widen it by doubling until it does, and where that was too far, halve the difference.
    """
    whole = last - first + 1
    too_narrow, too_wide, width = 0, 0, MICROSECONDS
    while whole > 0:
        width = min(width, whole)
        found = slots_between(schedule, last - width, last, 2 * count + 1)
        if len(found) > 2 * count:
            too_wide = width
        elif len(found) >= count or width == whole:
            return found[-count:]
        else:
            too_narrow = width
        width = (too_narrow + too_wide) // 2 if too_wide else 2 * width
    return []


def _count(schedule: Schedule, first: int, last: int) -> int:
    """How many slots have ``first <= slot <= last``: see :attr:`SlotPlan.unrecorded` for how exactly."""
    if isinstance(schedule.rule, Every):
        return _count_intervals(schedule, schedule.rule, first, last)
    slots = slots_between(schedule, first - 1, last, _COUNTED + 1)
    if len(slots) <= _COUNTED:
        return len(slots)
    return round(_COUNTED * (last - first) / (slots[-1] - first))


def _count_intervals(schedule: Schedule, rule: Every, first: int, last: int) -> int:
    start = slot_after(schedule, first - 1)
    until = last if schedule.end_us is None else min(last, schedule.end_us)
    return 0 if start is None or start > until else (until - start) // rule.period_us + 1
