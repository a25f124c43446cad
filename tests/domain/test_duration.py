"""Durations and instants are read as people write them, and refused with a reason."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import instant
from trisched.domain.duration import format_duration, format_instant, parse_duration, parse_instant
from trisched.errors import Invalid


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5.0),
        (0.25, 0.25),
        ("90", 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("1d", 86_400.0),
        ("2w", 1_209_600.0),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("1h 30 min", 5400.0),
        ("2 days", 172_800.0),
        (" 1.5 Hours ", 5400.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_durations_are_read_in_seconds(value: object, seconds: float) -> None:
    assert parse_duration(value, "timeout") == seconds


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (True, "not a duration"),
        (None, "not a duration"),
        ([], "not a duration"),
        ("", "not a duration"),
        ("soon", "not a duration"),
        ("5m later", "not a duration"),
        ("٥m", "not a duration"),
        (math.nan, "not a number"),
        (math.inf, "at most"),
        (10**400, "at most"),
        (-(10**400), "negative"),
        (-1, "negative"),
        ("-5m", "negative"),
        ("1x", "'x' is not a unit"),
        ("10y", "'y' is not a unit"),
        ("1e400s", "'e' is not a unit"),
        ("9" * 40 + "s", "at most"),
        ("9" * 5000, "too long"),
    ],
)
def test_what_is_no_duration_is_refused_with_its_path(value: object, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_duration(value, "timeout")
    (error,) = refused.value.errors
    assert error.path == "timeout"
    assert reason in error.message


def test_bounds_are_named_in_the_refusal() -> None:
    with pytest.raises(Invalid, match="at least 100ms"):
        parse_duration("50ms", "every", least=0.1)
    with pytest.raises(Invalid, match="at most 1h30m"):
        parse_duration("2h", "every", most=5400)
    assert parse_duration(5400, "every", least=5400, most=5400) == 5400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (0.00025, "0.25ms"),
        (1.5, "1.5s"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (86_400, "1d"),
        (90_061.001, "1d1h1m1.001s"),
        (-5, "-5s"),
        (math.inf, "inf"),
    ],
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**14))
def test_a_written_duration_is_read_back_to_the_microsecond(microseconds: int) -> None:
    text = format_duration(microseconds / 1e6)
    assert round(parse_duration(text, "d") * 1e6) == microseconds


@pytest.mark.parametrize(
    ("value", "same"),
    [
        ("2027-01-01T09:00:00Z", "2027-01-01T09:00:00+00:00"),
        ("2027-01-01t09:00z", "2027-01-01T09:00:00+00:00"),
        ("2027-01-01 09:00:00.25+02:00", "2027-01-01T07:00:00.250000+00:00"),
        ("2027-01-01T09:00:00.1234567-05:30", "2027-01-01T14:30:00.123456+00:00"),
        (datetime(2027, 1, 1, 9, tzinfo=timezone(timedelta(hours=1))), "2027-01-01T08:00:00+00:00"),
    ],
)
def test_instants_are_read_with_their_offset(value: object, same: str) -> None:
    assert parse_instant(value, "at") == instant(same)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2027-01-01T09:00:00", "add Z or an offset"),
        (datetime(2027, 1, 1), "add Z or an offset"),  # noqa: DTZ001 - the naive one is what is refused
        ("2026-02-30T00:00:00Z", "day is out of range"),
        ("2026-01-01T24:00:00Z", "hour must be in"),
        ("2026-01-01T00:00:00+25:00", "is not a moment"),
        ("2026-01-01", "is not a moment"),
        ("tomorrow", "is not a moment"),
        (1_767_225_600, "is not a moment"),
        (None, "is not a moment"),
        ("0001-01-01T00:00:00+14:00", "outside the years"),
        ("1969-12-31T23:59:59Z", "outside the years"),
        ("9999-12-31T23:59:59-12:00", "outside the years"),
    ],
)
def test_what_is_no_instant_is_refused_with_its_path(value: object, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_instant(value, "schedule.at")
    (error,) = refused.value.errors
    assert error.path == "schedule.at"
    assert reason in error.message


@pytest.mark.parametrize(
    ("micro", "text"),
    [(0, "1970-01-01T00:00:00Z"), (250_000, "1970-01-01T00:00:00.250Z"), (1, "1970-01-01T00:00:00.000001Z")],
)
def test_instants_show_parts_of_a_second_only_where_there_are_some(micro: int, text: str) -> None:
    assert format_instant(micro) == text


@given(st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_written_instant_is_read_back_exactly(moment: datetime) -> None:
    at = parse_instant(moment, "at")
    assert parse_instant(format_instant(at), "at") == at
