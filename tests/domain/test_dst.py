"""Slots around every change of the clock are those of a search minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, product

import pytest

from tests.domain.oracle import Expression, WallClockTable, clock_changes, instant, microseconds
from trisched.domain.slot import Cron, Schedule, slots_between

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Nuuk", "Africa/Casablanca")
GAPS = ("next", "skip")
FOLDS = ("first", "second", "both")
#: The hours are named, and those at which clocks change are among them.
TIMES_OF_DAY = ("30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "*/20 0,2,22,23 * * *", "59 1 * * 0,6")
RHYTHMS = ("45 * * * *", "*/20 * * * *", "0 */2 * * *", "10 0-23 * * 0,6")


@lru_cache
def changes(zone: str) -> list[datetime]:
    return clock_changes(zone, 2024, 2037)


def slots(zone: str, expression: str, gap: str, fold: str, around: datetime, hours: int) -> list[int]:
    schedule = Schedule(rule=Cron(expression=expression), timezone=zone, dst_gap=gap, dst_fold=fold)  # type: ignore[arg-type]
    reach = timedelta(hours=hours)
    return slots_between(schedule, microseconds(around - reach), microseconds(around + reach), 100_000)


def within(found: list[int], around: datetime, hours: int) -> list[int]:
    reach = timedelta(hours=hours)
    return [slot for slot in found if microseconds(around - reach) < slot <= microseconds(around + reach)]


@pytest.mark.parametrize("zone", ZONES)
def test_every_zone_of_the_table_changes_its_clock_often(zone: str) -> None:
    assert len(changes(zone)) >= 26


@pytest.mark.parametrize("zone", ZONES)
def test_times_of_the_day_follow_the_policy_at_every_change_2024_to_2037(zone: str) -> None:
    for around in changes(zone):
        table = WallClockTable(zone, around, 14)
        for text, gap, fold in product(TIMES_OF_DAY, GAPS, FOLDS):
            expected = within(table.times_of_day(Expression(text), gap, fold), around, 10)
            assert slots(zone, text, gap, fold, around, 10) == expected, (zone, around, text, gap, fold)


@pytest.mark.parametrize("zone", ZONES)
def test_rhythms_go_by_what_the_clock_shows_at_every_change_2024_to_2037(zone: str) -> None:
    for around in changes(zone):
        table = WallClockTable(zone, around, 12)
        for text in RHYTHMS:
            expected = within(table.rhythm(Expression(text)), around, 10)
            for fold in FOLDS:
                assert slots(zone, text, "next", fold, around, 10) == expected, (zone, around, text, fold)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia"])
def test_zones_without_changes_have_the_same_local_times_every_day(zone: str) -> None:
    assert changes(zone) == []
    found = slots(zone, "30 2 * * *", "next", "both", datetime(2030, 6, 1, tzinfo=UTC), 24 * 300)
    assert {later - earlier for earlier, later in pairwise(found)} == {86_400_000_000}


def test_the_day_that_samoa_left_out_runs_at_its_end_or_not_at_all() -> None:
    skipped_day = datetime(2011, 12, 30, 10, tzinfo=UTC)
    table = WallClockTable("Pacific/Apia", skipped_day, 60)
    for text, gap, fold in product(("0 9 * * *", "0 0 * * *", "0 9 30 12 *"), GAPS, FOLDS):
        expected = within(table.times_of_day(Expression(text), gap, fold), skipped_day, 40)
        assert slots("Pacific/Apia", text, gap, fold, skipped_day, 40) == expected
    assert slots("Pacific/Apia", "0 9 30 12 *", "next", "first", skipped_day, 40) == [microseconds(skipped_day)]
    assert slots("Pacific/Apia", "0 9 30 12 *", "skip", "first", skipped_day, 40) == []


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", ["2027-10-31T02:30:00+02:00"]),
        ("second", ["2027-10-31T02:30:00+01:00"]),
        ("both", ["2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"]),
    ],
)
def test_a_time_that_comes_twice_runs_once_or_twice(fold: str, expected: list[str]) -> None:
    around = datetime(2027, 10, 31, 1, tzinfo=UTC)
    assert slots("Europe/Berlin", "30 2 * * *", "next", fold, around, 6) == [instant(text) for text in expected]


def test_several_times_in_one_gap_run_once_at_its_end() -> None:
    around = datetime(2027, 3, 28, 1, tzinfo=UTC)
    found = slots("Europe/Berlin", "*/10 2,3 * * *", "next", "first", around, 1)
    assert found[0] == instant("2027-03-28T03:00:00+02:00")
    assert {later - earlier for earlier, later in pairwise(found)} == {600_000_000}


def test_the_half_hour_fold_of_lord_howe_loses_no_hour() -> None:
    around = next(at for at in changes("Australia/Lord_Howe") if at.month == 4)
    found = slots("Australia/Lord_Howe", "45 * * * *", "next", "first", around, 3)
    # 01:45 comes twice, half an hour apart; all else is an hour apart.
    assert [(later - earlier) // 60_000_000 for earlier, later in pairwise(found)].count(30) == 1
    assert max(later - earlier for earlier, later in pairwise(found)) == 3_600_000_000


def test_a_rhythm_of_half_hours_is_even_through_gap_and_fold() -> None:
    for around in changes("Europe/Berlin"):
        found = slots("Europe/Berlin", "*/30 * * * *", "skip", "first", around, 5)
        assert {later - earlier for earlier, later in pairwise(found)} == {1_800_000_000}
