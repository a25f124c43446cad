"""Schedules as values, and the slots they prescribe; all instants in microseconds since the epoch, UTC."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import attrs

from trisched.domain.cron import compile_cron
from trisched.domain.cron_match import CronFields
from trisched.domain.dst import Fold, Gap, WallClock, next_instant
from trisched.domain.duration import MICROSECONDS

Kind = Literal["cron", "interval", "once"]


@attrs.frozen(kw_only=True)
class Cron:
    """Times of the day, or a rhythm of the wall clock."""

    expression: str
    #: What ``H`` is drawn from; empty where the expression has none.
    key: str = ""
    fields: CronFields = attrs.field(init=False, repr=False, eq=False)

    @fields.default
    def _compile(self) -> CronFields:
        return compile_cron(self.expression, self.key)


@attrs.frozen(kw_only=True)
class Every:
    """An interval: a slot at the anchor and at each whole number of intervals after it."""

    seconds: float
    anchor_us: int

    @property
    def period_us(self) -> int:
        """The interval in microseconds."""
        return round(self.seconds * MICROSECONDS)


@attrs.frozen(kw_only=True)
class At:
    """One instant."""

    at_us: int


@attrs.frozen(kw_only=True)
class Schedule:
    """A rule of time with its zone and its bounds; ``start_us`` and ``end_us`` are themselves within."""

    rule: Cron | Every | At
    timezone: str = "UTC"
    start_us: int | None = None
    end_us: int | None = None
    #: A run starts up to this many seconds after its slot, see :func:`jitter_us`.
    jitter: float = 0.0
    dst_gap: Gap = "next"
    dst_fold: Fold = "first"

    @property
    def kind(self) -> Kind:
        """The word by which lists are filtered."""
        if isinstance(self.rule, Cron):
            return "cron"
        return "interval" if isinstance(self.rule, Every) else "once"

    @property
    def wall_clock(self) -> WallClock:
        """The zone with the policy for its gaps and folds."""
        return WallClock(self.timezone, self.dst_gap, self.dst_fold)


def next_slot(schedule: Schedule, after: int) -> int | None:
    """The first slot strictly after ``after``; None when there is none to come."""
    if schedule.start_us is not None:
        after = max(after, schedule.start_us - 1)
    rule = schedule.rule
    if isinstance(rule, Cron):
        second = next_instant(rule.fields, schedule.wall_clock, after // MICROSECONDS + 1)
        slot = None if second is None else second * MICROSECONDS
    elif isinstance(rule, Every):
        passed = (after - rule.anchor_us) // rule.period_us + 1
        slot = rule.anchor_us + max(passed, 0) * rule.period_us
    else:
        slot = rule.at_us if rule.at_us > after else None
    if slot is None or (schedule.end_us is not None and slot > schedule.end_us):
        return None
    return slot


def slots_between(schedule: Schedule, after: int, until: int, limit: int) -> list[int]:
    """The slots with ``after < slot <= until`` in order, at most ``limit`` of them."""
    slots: list[int] = []
    slot = next_slot(schedule, after) if limit > 0 else None
    while slot is not None and slot <= until:
        slots.append(slot)
        slot = next_slot(schedule, slot) if len(slots) < limit else None
    return slots


def jitter_us(schedule: Schedule, slot: int, key: str) -> int:
    """How long after ``slot`` its run is due: within the jitter, and always the same for one key and slot."""
    most = round(schedule.jitter * MICROSECONDS)
    if not most:
        return 0
    digest = blake2b(f"{slot}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) * (most + 1) >> 64


def due_at(schedule: Schedule, slot: int, key: str) -> int:
    """When the run of ``slot`` is due: the slot and its jitter."""
    return slot + jitter_us(schedule, slot, key)


def same_rule(one: Schedule, other: Schedule) -> bool:
    """Whether both mean the same schedule.

    The anchor of an interval is left out: declaring ``every 5m`` again, later, is no change.
    """
    return _without_anchor(one) == _without_anchor(other)


def _without_anchor(schedule: Schedule) -> Schedule:
    if not isinstance(schedule.rule, Every):
        return schedule
    return attrs.evolve(schedule, rule=attrs.evolve(schedule.rule, anchor_us=schedule.start_us or 0))
