"""Schedules are read from what people write, refused with a path and a reason, and written back unchanged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import instant
from trisched.domain.schedule import At, Cron, Every, Schedule, next_slot, parse_schedule, schedule_fields
from trisched.errors import Invalid

NOW = instant("2026-11-18T08:00:00+00:00")
FIRST = instant("2027-01-01T00:00:00+00:00")


def errors(value: object, *, timezone: str = "UTC", path: str = "schedule") -> dict[str, str]:
    """What is wrong with a schedule, by path."""
    with pytest.raises(Invalid) as refused:
        parse_schedule(value, path=path, timezone=timezone, now=NOW)
    return {error.path: error.message for error in refused.value.errors}


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0 9 * * *", Cron(expression="0 9 * * *")),
        (" @daily ", Cron(expression="@daily")),
        ({"cron": "0 9 * * *"}, Cron(expression="0 9 * * *")),
        ("every 5m", Every(seconds=300, anchor_us=NOW)),
        ("Every  90 seconds", Every(seconds=90, anchor_us=NOW)),
        ({"every": 0.1}, Every(seconds=0.1, anchor_us=NOW)),
        ({"every": "1h", "start": "2027-01-01T00:00:00Z"}, Every(seconds=3600, anchor_us=FIRST)),
        ({"every": "1h", "anchor": "2027-01-01T00:00:00Z"}, Every(seconds=3600, anchor_us=FIRST)),
        ({"every": "1h", "at": None}, Every(seconds=3600, anchor_us=NOW)),
        (timedelta(hours=1), Every(seconds=3600, anchor_us=NOW)),
        ("2027-01-01T01:00:00+01:00", At(at_us=FIRST)),
        ({"at": "2027-01-01T00:00:00Z"}, At(at_us=FIRST)),
        (datetime(2027, 1, 1, tzinfo=UTC), At(at_us=FIRST)),
    ],
)
def test_every_form_of_the_contract_is_read(value: object, rule: object) -> None:
    assert parse_schedule(value, now=NOW).rule == rule


def test_an_object_sets_all_that_a_schedule_has() -> None:
    value = {
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "start": "2027-01-01T00:00:00Z",
        "end": "2028-01-01T00:00:00Z",
        "jitter": "30s",
        "dst_gap": "skip",
        "dst_fold": "both",
    }
    assert parse_schedule(value, timezone="America/New_York", now=NOW) == Schedule(
        rule=Cron(expression="30 2 * * *"),
        timezone="Europe/Berlin",
        start_us=FIRST,
        end_us=instant("2028-01-01T00:00:00+00:00"),
        jitter=30.0,
        dst_gap="skip",
        dst_fold="both",
    )


def test_the_zone_of_the_job_holds_where_the_schedule_names_none() -> None:
    assert parse_schedule("0 9 * * *", timezone="Europe/Berlin", now=NOW).timezone == "Europe/Berlin"
    assert parse_schedule({"every": 60}, timezone="Europe/Berlin", now=NOW).timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ("61 * * * *", "schedule", "minute: 61 is not within 0–59"),
        ("* * *", "schedule", "has 3 fields"),
        ("a b c d e", "schedule", "minute: 'A' is not a number"),
        ("", "schedule", "is empty"),
        ("@never", "schedule", "'@never' is not known"),
        ("*/0 * * * *", "schedule", "the step 0"),
        ("5-1 * * * *", "schedule", "runs backwards"),
        ("*/99999999999999999999 * * * *", "schedule", "is not within 1–60"),
        ("0 0 31 2 *", "schedule", "never fires within 5 years: Feb never has a day 31"),
        ("0 0 29 2 */6", "schedule", "never fires within 5 years"),
        ("every 0s", "schedule", "at least 100ms"),
        ("every -5m", "schedule", "negative"),
        ("every 1x", "schedule", "'x' is not a unit"),
        ("every 1e400s", "schedule", "'e' is not a unit"),
        ("every 10y", "schedule", "'y' is not a unit"),
        ("every 367d", "schedule", "at most 366d"),
        ("2020-01-01T00:00:00Z", "schedule", "2020-01-01T00:00:00Z is in the past"),
        ("2026-11-18T08:00:00Z", "schedule", "is in the past"),
        ("2026-02-30T00:00:00Z", "schedule", "day is out of range"),
        ("2027-01-01T09:00:00", "schedule", "add Z or an offset"),
        (5, "schedule", "is not a schedule"),
        (True, "schedule", "is not a schedule"),
        ([], "schedule", "is not a schedule"),
        ({}, "schedule", "exactly one of cron, every, at"),
        ({"cron": None}, "schedule", "exactly one of cron, every, at"),
        ({"cron": "* * * * *", "every": 5}, "schedule", "exactly one of cron, every, at"),
        ({"cron": 5}, "schedule.cron", "must be text"),
        ({"cron": "61 * * * *"}, "schedule.cron", "minute: 61"),
        ({"every": True}, "schedule.every", "not a duration"),
        ({"at": 5}, "schedule.at", "is not a moment"),
        ({"cron": "* * * * *", "foo": 1}, "schedule.foo", "is not a field of a schedule"),
        ({"cron": "* * * * *", "timezon": "UTC"}, "schedule.timezon", "did you mean timezone?"),
        ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "schedule.timezone", "is not a time zone"),
        ({"cron": "* * * * *", "start": "soon"}, "schedule.start", "is not a moment"),
        ({"cron": "* * * * *", "jitter": "2d"}, "schedule.jitter", "at most 1d"),
        ({"every": 60, "jitter": 61}, "schedule.jitter", "longer than the interval, 1m"),
        ({"cron": "* * * * *", "dst_gap": "both"}, "schedule.dst_gap", "must be one of next, skip"),
        ({"cron": "* * * * *", "dst_fold": 1}, "schedule.dst_fold", "must be one of first, second, both"),
        (
            {"cron": "0 0 1 1 *", "end": "2026-12-01T00:00:00Z"},
            "schedule.cron",
            "its first slot, 2027-01-01T00:00:00Z, is after its end, 2026-12-01T00:00:00Z",
        ),
        ({"every": 60, "end": "2026-01-01T00:00:00Z"}, "schedule.every", "is after its end"),
        (
            {"every": 60, "start": "2027-02-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"},
            "schedule.end",
            "is before the start",
        ),
        (
            {"at": "2027-01-01T00:00:00Z", "start": "2027-02-01T00:00:00Z"},
            "schedule.at",
            "its moment is before its start",
        ),
        ("H * * * *", "schedule", "H is drawn from the job's name"),
    ],
)
def test_what_is_wrong_is_refused_with_path_and_reason(value: object, path: str, message: str) -> None:
    found = errors(value)
    assert list(found) == [path]
    assert message in found[path]


def test_all_that_is_wrong_is_told_at_once() -> None:
    value = {"cron": "61 * * * *", "timezone": "Mars/Olympus", "end": 5, "foo": 1, "bar": 2}
    assert set(errors(value)) == {
        "schedule.cron",
        "schedule.timezone",
        "schedule.end",
        "schedule.foo",
        "schedule.bar",
    }


def test_a_wrong_zone_of_the_job_is_told_at_the_field_of_the_job() -> None:
    assert list(errors("0 9 * * *", timezone="UTC+25")) == ["timezone"]
    assert list(errors("0 9 * * *", timezone="", path="jobs[2].schedule")) == ["jobs[2].timezone"]


@pytest.mark.parametrize(
    "value",
    [
        "2020-01-01T00:00:00Z",
        {"every": 60, "end": "2026-01-01T00:00:00Z"},
        {"cron": "0 9 * * *", "end": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_was_stored_may_be_over_by_now(value: object) -> None:
    schedule = parse_schedule(value, now=NOW, allow_past=True)
    assert next_slot(schedule, NOW) is None


def test_a_start_far_ahead_is_no_reason_to_refuse() -> None:
    value = {"cron": "0 9 * * *", "start": "2040-01-01T00:00:00Z"}
    assert next_slot(parse_schedule(value, now=NOW), NOW) == instant("2040-01-01T09:00:00+00:00")


def test_renaming_a_job_does_not_move_its_hashed_times() -> None:
    schedule = parse_schedule("H H * * *", key="nightly", now=NOW)
    stored = schedule_fields(schedule)
    assert stored["cron"] == "H H * * *"
    assert parse_schedule(stored, key="renamed", now=NOW) == schedule
    assert "key" not in schedule_fields(parse_schedule("0 0 * * *", key="nightly", now=NOW))


objects = st.fixed_dictionaries(
    {},
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
        "start": st.sampled_from(["2027-01-01T00:00:00Z", "2026-01-01T00:00:00.000250+01:00"]),
        "end": st.sampled_from(["2030-01-01T00:00:00Z", "2031-05-05T05:05:05.5Z"]),
        "jitter": st.sampled_from([0, "1s", 0.25]),
        "dst_gap": st.sampled_from(["next", "skip"]),
        "dst_fold": st.sampled_from(["first", "second", "both"]),
    },
)
rules = st.sampled_from(
    [
        {"cron": "30 2 * * *"},
        {"cron": "H H(1-3) * * *"},
        {"every": "7.5m"},
        {"every": 1 / 3 + 1},
        {"at": "2029-01-01T00:00:00.125Z"},
    ]
)


@given(objects, rules, st.integers(0, 10**6))
def test_what_is_written_back_is_read_as_the_same_schedule(
    shared: dict[str, object], rule: dict[str, object], later: int
) -> None:
    schedule = parse_schedule(shared | rule, key="job", now=NOW)
    again = parse_schedule(schedule_fields(schedule), now=NOW + later, allow_past=True)
    slots = [(next_slot(each, NOW), next_slot(each, FIRST)) for each in (schedule, again)]
    assert slots[0] == slots[1]
    assert schedule_fields(again) == schedule_fields(schedule)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.dictionaries(
        st.sampled_from(["cron", "every", "at", "timezone", "start", "end", "jitter", "dst_gap", "key", "anchor", "x"]),
        inner,
        max_size=4,
    ),
    max_leaves=6,
)


@given(values)
def test_any_value_is_read_or_refused_as_invalid(value: object) -> None:
    try:
        schedule = parse_schedule(value, key="job", now=NOW)
    except Invalid as error:
        refused = error
    else:
        assert next_slot(schedule, NOW) is not None
        return
    assert refused.errors
    assert all(error.path.split(".")[0] == "schedule" for error in refused.errors)
