"""A preview shows the next fires in local time, and says where a change of the clock has shaped one."""

from __future__ import annotations

import pytest

from tests.domain.oracle import instant
from trisched.domain.schedule import Fire, parse_schedule, preview

NOW = instant("2026-11-18T08:00:00+00:00")
BEFORE_GAP = instant("2027-03-27T12:00:00+00:00")
BEFORE_FOLD = instant("2027-10-31T00:15:00+00:00")


def fires(rule: dict[str, object], after: int, count: int = 2) -> list[Fire]:
    return preview(parse_schedule({"timezone": "Europe/Berlin", **rule}, now=NOW), after, count)


def test_a_fire_shows_its_instant_in_utc_and_on_the_local_clock() -> None:
    (fire,) = fires({"cron": "0 9 * * *"}, NOW, 1)
    assert fire == Fire(
        slot=instant("2026-11-19T08:00:00+00:00"),
        utc="2026-11-19T08:00:00Z",
        local="2026-11-19T09:00:00+01:00",
        note=None,
    )


def test_a_time_moved_out_of_a_gap_says_so() -> None:
    fire, following = fires({"cron": "30 2 * * *"}, BEFORE_GAP)
    assert fire.local == "2027-03-28T03:00:00+02:00"
    assert fire.note == "02:30 does not exist on 2027-03-28 in Europe/Berlin; runs at 03:00"
    assert following.note is None


def test_a_time_left_out_in_a_gap_is_told_with_the_fire_after_it() -> None:
    fire, following = fires({"cron": "30 2 * * *", "dst_gap": "skip"}, BEFORE_GAP)
    assert fire.local == "2027-03-29T02:30:00+02:00"
    assert fire.note == "02:30 does not exist on 2027-03-28 in Europe/Berlin; skipped"
    assert following.note is None


@pytest.mark.parametrize(
    ("fold", "notes"),
    [
        ("first", ["runs the first time only", None]),
        ("second", ["runs the second time only", None]),
        ("both", ["runs both times, this is the first", "runs both times, this is the second"]),
    ],
)
def test_a_time_that_comes_twice_says_which_one_runs(fold: str, notes: list[str | None]) -> None:
    found = fires({"cron": "30 2 * * *", "dst_fold": fold}, BEFORE_FOLD)
    twice = "02:30 comes twice on 2027-10-31 in Europe/Berlin; "
    assert [fire.note for fire in found] == [note and twice + note for note in notes]


def test_a_rhythm_says_that_it_runs_both_times() -> None:
    first, second, after = fires({"cron": "20 * * * *"}, BEFORE_FOLD, 3)
    assert first.note == "02:20 comes twice on 2027-10-31 in Europe/Berlin; runs both times, this is the first"
    assert second.note == "02:20 comes twice on 2027-10-31 in Europe/Berlin; runs both times, this is the second"
    assert after.note is None


def test_intervals_and_single_moments_need_no_note() -> None:
    assert [fire.note for fire in fires({"every": "30m"}, BEFORE_FOLD, 4)] == [None] * 4
    (fire,) = fires({"at": "2027-10-31T02:30:00+01:00"}, BEFORE_FOLD, 4)
    assert fire == Fire(
        slot=instant("2027-10-31T01:30:00+00:00"),
        utc="2027-10-31T01:30:00Z",
        local="2027-10-31T02:30:00+01:00",
        note=None,
    )


def test_parts_of_a_second_are_shown() -> None:
    (fire,) = fires({"every": 0.5, "anchor": "2026-11-18T08:00:00.250Z"}, NOW, 1)
    assert fire.local == "2026-11-18T09:00:00.250000+01:00"
