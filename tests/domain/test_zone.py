"""Zones are known by name, and their spans agree with the zone database."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.zone import local_time, parse_zone, span_at
from trisched.errors import Invalid

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Nuuk",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Pacific/Kiritimati",
)
EARLIEST = int(datetime(1971, 1, 1, tzinfo=UTC).timestamp())
LATEST = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
instants = st.integers(EARLIEST, LATEST)


def offset(zone: str, at: int) -> int:
    difference = datetime.fromtimestamp(at, ZoneInfo(zone)).utcoffset()
    assert difference is not None
    return int(difference.total_seconds())


@pytest.mark.parametrize("name", [*ZONES, "Etc/GMT-2", "America/Argentina/Buenos_Aires", "EST5EDT"])
def test_names_of_the_zone_database_are_taken_as_they_are(name: str) -> None:
    assert parse_zone(name, "timezone") == name


@pytest.mark.parametrize(
    "value",
    [
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/passwd",
        "",
        "  ",
        "UTC+25",
        "Europe",
        "localtime",
        "posixrules",
        "right/UTC",
        "posix/UTC",
        "UTC\0",
        "Europe/Berlin\n",
        "\ud800",
        "x" * 10_000,
        None,
        5,
        True,
    ],
)
def test_what_is_no_zone_is_refused_with_its_path(value: object) -> None:
    with pytest.raises(Invalid) as refused:
        parse_zone(value, "job.timezone")
    assert [error.path for error in refused.value.errors] == ["job.timezone"]


@pytest.mark.parametrize("typed", ["europe/berlin", "Europe/Berln", "EUROPE/BERLIN"])
def test_a_misspelt_zone_gets_the_name_that_was_meant(typed: str) -> None:
    with pytest.raises(Invalid, match=r"did you mean Europe/Berlin\?"):
        parse_zone(typed, "timezone")


@given(st.sampled_from(ZONES), instants)
def test_a_span_holds_its_instant_and_tells_its_offset_and_its_neighbours(zone: str, at: int) -> None:
    span = span_at(zone, at)
    assert span.start <= at < span.end
    assert span.offset == offset(zone, at) == offset(zone, span.start) == offset(zone, span.end - 1)
    assert span.before == offset(zone, span.start - 1)
    assert span.after == offset(zone, span.end)


@given(st.sampled_from(ZONES), instants)
def test_spans_follow_one_another_without_a_hole(zone: str, at: int) -> None:
    span = span_at(zone, at)
    following = span_at(zone, span.end)
    assert following.start <= span.end < following.end
    assert following.offset == span.after


@pytest.mark.parametrize("year", [1970, 2026, 9998])
def test_the_first_and_the_last_years_have_spans(year: int) -> None:
    at = int(datetime(year, 12, 31, 23, tzinfo=UTC).timestamp())
    assert span_at("Europe/Berlin", at).offset == 3600
    assert local_time("Europe/Berlin", at).utcoffset() is not None
