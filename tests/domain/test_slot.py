"""Slots come one after the other, each once, within their bounds."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import clock_changes, instant, microseconds
from trisched.domain.slot import At, Cron, Every, Schedule, due_at, jitter_us, next_slot, same_rule, slots_between

SECOND = 1_000_000
HOUR = 3600 * SECOND
FOLDING = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Nuuk", "Africa/Casablanca")
NOW = instant("2026-11-18T08:00:00+00:00")
EARLIEST, LATEST = instant("2011-01-01T00:00:00+00:00"), instant("2037-12-31T00:00:00+00:00")

zones = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Nuuk",
        "Pacific/Apia",
        "Africa/Casablanca",
        "Africa/Cairo",
    ]
)
expressions = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * * *",
        "30 2 * * *",
        "0,30 0-3 * * *",
        "45 * * * *",
        "0 */3 * * *",
        "59 23 L * *",
        "0 1 * * SUN",
        "15 22,23 * * SAT",
        "0 0 29 2 *",
        "0 0 13 * 5",
    ]
)
crons = st.builds(
    Schedule,
    rule=expressions.map(lambda text: Cron(expression=text)),
    timezone=zones,
    dst_gap=st.sampled_from(["next", "skip"]),
    dst_fold=st.sampled_from(["first", "second", "both"]),
)
intervals = st.builds(
    Schedule,
    rule=st.builds(Every, seconds=st.integers(1, 10**7).map(lambda n: n / 10), anchor_us=st.integers(EARLIEST, LATEST)),
    timezone=zones,
)
onces = st.builds(Schedule, rule=st.builds(At, at_us=st.integers(EARLIEST, LATEST)))
instants = st.integers(EARLIEST, LATEST)


def clock(zone: str, slot: int) -> datetime:
    """What the zone's clock shows at the slot."""
    return datetime.fromtimestamp(slot // SECOND, ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def offset(zone: str, at: int) -> timedelta:
    """How far the zone's clock is ahead of UTC."""
    return clock(zone, at) - clock("UTC", at)


@cache
def changes_of(zone: str) -> list[int]:
    """When the zone changes its clock; for those that do not, some instant."""
    return [microseconds(at) for at in clock_changes(zone, 2024, 2037)] or [NOW]


@given(crons | intervals | onces, instants)
def test_slots_strictly_increase_and_come_after_the_instant_asked_for(schedule: Schedule, after: int) -> None:
    found = slots_between(schedule, after, LATEST * 2, 20)
    assert all(earlier < later for earlier, later in pairwise([after, *found]))


@given(crons | intervals, instants, st.integers(0, 10**6))
def test_the_next_slot_does_not_depend_on_where_one_asks_from(schedule: Schedule, after: int, permille: int) -> None:
    slot = next_slot(schedule, after)
    assert slot is not None
    between = after + (slot - 1 - after) * permille // 10**6
    assert next_slot(schedule, between) == slot


@given(crons, instants, st.sampled_from(["first", "second"]))
def test_a_local_time_of_the_day_never_runs_twice(schedule: Schedule, after: int, fold: str) -> None:
    assert isinstance(schedule.rule, Cron)
    once = attrs.evolve(schedule, dst_fold=fold, dst_gap="skip")  # type: ignore[arg-type]
    shown = [clock(once.timezone, slot) for slot in slots_between(once, after, LATEST, 40)]
    assert not schedule.rule.fields.fixed_hours or len(set(shown)) == len(shown)


@given(crons, st.integers(0, 10**6), st.integers(-30 * 3600, 3 * 3600))
def test_once_and_twice_differ_only_by_the_times_that_come_twice(
    schedule: Schedule, number: int, distance: int
) -> None:
    changes = changes_of(schedule.timezone)
    after = changes[number % len(changes)] + distance * SECOND
    found = {
        fold: slots_between(attrs.evolve(schedule, dst_fold=fold), after, after + 2 * HOUR, 10**4)
        for fold in ("first", "second", "both")
    }
    assert set(found["both"]) == set(found["first"]) | set(found["second"])


@given(st.sampled_from(FOLDING), st.integers(0, 10**6), st.integers(0, 59))
def test_a_time_within_a_fold_runs_once_once_or_twice(zone: str, number: int, permille: int) -> None:
    folds = [at for at in changes_of(zone) if offset(zone, at) < offset(zone, at - SECOND)]
    change = folds[number % len(folds)]
    width = offset(zone, change - SECOND) - offset(zone, change)
    shown = clock(zone, change) + width * permille / 60
    rule = Cron(expression=f"{shown.minute} {shown.hour} {shown.day} {shown.month} *")
    counts = {}
    for fold in ("first", "second", "both"):
        schedule = Schedule(rule=rule, timezone=zone, dst_fold=fold)
        counts[fold] = len(slots_between(schedule, change - 12 * HOUR, change + 12 * HOUR, 10))
    assert counts == {"first": 1, "second": 1, "both": 2}


@given(intervals, instants)
def test_slots_of_an_interval_are_whole_intervals_after_the_anchor(schedule: Schedule, after: int) -> None:
    rule = schedule.rule
    assert isinstance(rule, Every)
    slot = next_slot(schedule, after)
    assert slot is not None
    assert slot >= rule.anchor_us
    assert (slot - rule.anchor_us) % rule.period_us == 0
    assert slot - rule.period_us <= after or slot == rule.anchor_us


@given(crons | intervals | onces, instants, instants, instants)
def test_no_slot_is_out_of_bounds(schedule: Schedule, after: int, start: int, end: int) -> None:
    bounded = attrs.evolve(schedule, start_us=start, end_us=end)
    free = slots_between(schedule, after, LATEST, 10)
    assert all(start <= slot <= end for slot in slots_between(bounded, after, LATEST, 10))
    assert [slot for slot in free if start <= slot <= end] == [
        slot for slot in slots_between(bounded, after, LATEST, 10**2) if slot in free
    ]


def test_start_and_end_are_themselves_within() -> None:
    schedule = Schedule(rule=Cron(expression="0 * * * *"), start_us=NOW, end_us=NOW + 3600 * SECOND)
    assert slots_between(schedule, 0, LATEST, 10) == [NOW, NOW + 3600 * SECOND]


def test_between_leaves_out_its_first_instant_and_takes_in_its_last() -> None:
    schedule = Schedule(rule=Every(seconds=1, anchor_us=NOW))
    assert slots_between(schedule, NOW, NOW + 3 * SECOND, 10) == [NOW + n * SECOND for n in (1, 2, 3)]
    assert slots_between(schedule, NOW, NOW + 3 * SECOND, 2) == [NOW + SECOND, NOW + 2 * SECOND]
    assert slots_between(schedule, NOW, NOW + 3 * SECOND, 0) == []


def test_one_instant_has_one_slot() -> None:
    schedule = Schedule(rule=At(at_us=NOW))
    assert next_slot(schedule, NOW - 1) == NOW
    assert next_slot(schedule, NOW) is None


def test_a_schedule_ends_with_the_calendar() -> None:
    schedule = Schedule(rule=Cron(expression="0 0 1 1 *"), timezone="Asia/Tokyo")
    assert next_slot(schedule, instant("9998-06-01T00:00:00+00:00")) is None
    assert next_slot(schedule, instant("9999-06-01T00:00:00+00:00")) is None


@given(instants, st.text(max_size=20), st.integers(0, 600))
def test_jitter_keeps_within_its_bound_and_is_the_same_every_time(slot: int, key: str, seconds: int) -> None:
    schedule = Schedule(rule=Every(seconds=3600, anchor_us=NOW), jitter=float(seconds))
    jitter = jitter_us(schedule, slot, key)
    assert 0 <= jitter <= seconds * SECOND
    assert jitter_us(attrs.evolve(schedule), slot, key) == jitter
    assert due_at(schedule, slot, key) == slot + jitter


def test_jitter_spreads_keys_and_slots() -> None:
    schedule = Schedule(rule=Every(seconds=3600, anchor_us=NOW), jitter=60.0)
    by_key = {jitter_us(schedule, NOW, f"job {n}") // SECOND for n in range(500)}
    by_slot = {jitter_us(schedule, NOW + n, "job") // SECOND for n in range(500)}
    assert len(by_key) > 50
    assert len(by_slot) > 50


def test_declaring_an_interval_again_later_is_no_change() -> None:
    one = Schedule(rule=Every(seconds=60, anchor_us=NOW))
    assert same_rule(one, Schedule(rule=Every(seconds=60, anchor_us=NOW + 5)))
    assert not same_rule(one, Schedule(rule=Every(seconds=61, anchor_us=NOW)))
    assert not same_rule(one, Schedule(rule=Cron(expression="* * * * *")))
    assert not same_rule(one, attrs.evolve(one, timezone="Europe/Berlin"))


@pytest.mark.parametrize(
    ("rule", "kind"),
    [(Cron(expression="@daily"), "cron"), (Every(seconds=1, anchor_us=0), "interval"), (At(at_us=0), "once")],
)
def test_each_rule_has_the_kind_that_lists_filter_by(rule: Cron | Every | At, kind: str) -> None:
    assert Schedule(rule=rule).kind == kind
