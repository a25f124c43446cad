"""Cron expressions mean what Vixie cron means, and a wrong one is refused by the name of its field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.domain.oracle import LIMITS, Expression
from trisched.domain.cron import ALIASES, compile_cron, impossible_date, parse_cron, uses_hash
from trisched.domain.cron_match import CronFields, next_local
from trisched.errors import Invalid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 11, 18, 8, 0, tzinfo=UTC)
moments = st.datetimes(datetime(2024, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


def fires(fields: CronFields, after: datetime, count: int) -> list[datetime]:
    """The next matches, on a clock without zones."""
    found: list[datetime] = []
    at = int((after - EPOCH).total_seconds())
    while len(found) < count and (match := next_local(fields, at + 1)) is not None:
        found.append(EPOCH + timedelta(seconds=match))
        at = match
    return found


def text_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def column(low: int, high: int) -> st.SearchStrategy[str]:
    """One column: stars, numbers, ranges (also of one value), steps, lists."""
    number = st.integers(low, high)
    step = st.integers(1, high - low).map(lambda n: f"/{n}") | st.just("")
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    single = number.map(lambda n: f"{n}-{n}")
    item = st.one_of(
        number.map(str),
        st.tuples(span | single | st.just("*"), step).map("".join),
        number.map(lambda n: f"{n}/3"),
    )
    return st.just("*") | item | st.lists(item, min_size=2, max_size=3).map(",".join)


expressions = st.tuples(*(column(low, high) for low, high in LIMITS)).map(" ".join)


@given(expressions, moments)
def test_the_next_fires_are_those_of_a_search_minute_by_minute(expression: str, after: datetime) -> None:
    days = 800
    expected = list(islice(Expression(expression).fires(after, days), 4))
    end = (after + timedelta(days=days)).replace(hour=0, minute=0, second=0)
    found = [fire for fire in fires(compile_cron(expression), after, 4) if fire < end]
    assert found[: len(expected)] == expected
    assert all(fire >= end - timedelta(days=1) for fire in found[len(expected) :])


day_columns = st.sampled_from(["*", "L", "LW", "1,L", "13", "*/3", "10-20", "31"])
weekday_columns = st.sampled_from(["*", "5L", "2#1", "MON-FRI", "0", "7", "1#5", "sat", "3,5L", "*/2", "4#2,1#1"])
month_columns = st.sampled_from(["*", "2", "JAN,jul", "6-9", "*/5"])


@given(column(0, 59), day_columns, month_columns, weekday_columns, moments)
def test_last_days_and_nth_weekdays_agree_with_another_implementation(
    second: str, day: str, month: str, weekday: str, after: datetime
) -> None:
    # The other one reads a-a/n as a/n.
    assume("-" not in second)
    expression = f"{second} 30 4 {day} {month} {weekday}"
    assume(not (day == "31" and month == "2"))
    expected = list(islice(CronSim(expression, after.replace(tzinfo=None)), 4))
    assert [fire.replace(tzinfo=None) for fire in fires(compile_cron(expression), after, 4)] == expected


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 9 * * *", "2026-11-18 09:00:00"),
        ("*/5 * * * *", "2026-11-18 08:05:00"),
        ("30 */5 * * * *", "2026-11-18 08:00:30"),
        ("0 0 29 2 *", "2028-02-29 00:00:00"),
        ("0 0 L 2 *", "2027-02-28 00:00:00"),
        ("0 0 LW * *", "2026-11-30 00:00:00"),
        ("0 0 * * FRIL", "2026-11-27 00:00:00"),
        ("0 0 * * mon#2", "2026-12-14 00:00:00"),
        ("0 0 1 JAN *", "2027-01-01 00:00:00"),
        ("0 0 * * 7", "2026-11-22 00:00:00"),
        ("0 6-6 * * *", "2026-11-19 06:00:00"),
        ("0 18-18/3 * * *", "2026-11-18 18:00:00"),
        ("0 0 */2 * FRI", "2026-11-27 00:00:00"),
        ("@hourly", "2026-11-18 09:00:00"),
        ("@Weekly", "2026-11-22 00:00:00"),
    ],
)
def test_the_first_fire(expression: str, first: str) -> None:
    (fire,) = fires(compile_cron(expression), START, 1)
    assert text_of(fire) == first


def test_a_range_of_one_value_with_a_step_is_that_value() -> None:
    assert compile_cron("30-30/7 18-18/3 * * *").hours == (18,)
    assert compile_cron("30-30/7 18-18/3 * * *").minutes == (30,)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("61 * * * *", "minute: 61 is not within 0–59"),
        ("* 24 * * *", "hour: 24 is not within 0–23"),
        ("* * 0 * *", "day of month: 0 is not within 1–31"),
        ("* * * 13 *", "month: 13 is not within 1–12"),
        ("* * * * 8", "day of week: 8 is not within 0–7"),
        ("60 * * * * *", "second: 60 is not within 0–59"),
        ("a b c d e", "minute: 'A' is not a number"),
        ("* * * FOO *", "month: 'FOO' is not a number or one of JAN, FEB"),
        ("*/0 * * * *", "minute: the step 0 is not within 1–60"),
        ("*/99999999999999999999 * * * *", "is not within 1–60"),
        ("*/x * * * *", "minute: the step 'X' is not a number"),
        ("*/ * * * *", "minute: the step '' is not a number"),
        ("5-1 * * * *", "minute: 5-1 runs backwards; write 5-59,0-1"),
        ("* * * * FRI-SUN", "day of week: FRI-SUN runs backwards; write FRI-7"),
        ("1,,2 * * * *", "minute: a number is missing"),
        ("-5 * * * *", "minute: a number is missing"),
        ("0 0 L, * *", "day of month: a number"),
        ("0 0 * * 5L,", "day of week: a number"),
        ("0 0 * * L", "day of week: 'L' is not a number"),
        ("0 0 * * 1#6", "day of week: '6' after # is not within 1–5"),
        ("0 0 * * 9#1", "day of week: 9 is not within 0–7"),
        ("٣ * * * *", "minute: '٣' is not a number"),
        ("9" * 300 + " * * * *", "minute: 9999"),
        ("* * *", "has 3 fields"),
        ("*", "has 1 field;"),
        ("* * * * * * *", "has 7 fields"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("@never", "'@never' is not known; there are @yearly"),
        ("* " * 300, "longer than 400"),
        ("H(5-1) * * * *", "minute: H(5-1) runs backwards"),
        ("H(0-99) * * * *", "minute: 99 is not within 0–59"),
        ("H/0 * * * *", "minute: the step 0"),
    ],
)
def test_a_wrong_expression_is_refused_by_the_name_of_its_field(expression: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_cron(expression, "schedule.cron", key="job")
    (error,) = refused.value.errors
    assert error.path == "schedule.cron"
    assert message in error.message


@pytest.mark.parametrize("value", [None, 5, ["* * * * *"], True])
def test_what_is_no_text_is_no_expression(value: object) -> None:
    with pytest.raises(Invalid, match="must be text"):
        parse_cron(value, "schedule.cron")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        fields = parse_cron(text, "cron", key="k")
    except Invalid:
        return
    found = next_local(fields, 0)
    assert found is None or found >= 0


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_an_alias_means_its_expression(alias: str) -> None:
    assert compile_cron(alias) == compile_cron(ALIASES[alias])


@given(st.text(min_size=1, max_size=20))
def test_h_draws_the_same_values_for_the_same_key_and_they_exist_every_month(key: str) -> None:
    one = parse_cron("H H H H H", "cron", key=key)
    assert one == compile_cron.__wrapped__("H H H H H", key)
    assert len(one.minutes) == len(one.hours) == len(one.days.weekdays) == 1
    assert max(one.days.days) <= 28


def test_h_spreads_jobs_over_the_hour() -> None:
    minutes = {parse_cron("H * * * *", "cron", key=f"job {n}").minutes for n in range(200)}
    assert len(minutes) > 40


@given(st.text(min_size=1, max_size=20))
def test_h_keeps_to_its_range_and_its_step(key: str) -> None:
    fields = parse_cron("H/15 H(9-17) * * *", "cron", key=key)
    assert 9 <= fields.hours[0] <= 17
    assert len(fields.minutes) == 4
    assert {later - earlier for earlier, later in zip(fields.minutes, fields.minutes[1:], strict=False)} == {15}


def test_h_needs_a_key() -> None:
    with pytest.raises(Invalid, match="minute: H is drawn from the job's name"):
        parse_cron("H * * * *", "cron")


@pytest.mark.parametrize(
    ("expression", "does"),
    [("H * * * *", True), ("0 h/2 * * *", True), ("0 0 * * THU", False), ("@hourly", False)],
)
def test_it_is_known_whether_an_expression_depends_on_the_key(expression: str, does: bool) -> None:
    assert uses_hash(expression) is does


@pytest.mark.parametrize(
    ("expression", "reason"), [("0 0 31 2 *", "Feb never has a day 31"), ("0 0 31 4,6 *", "Apr, Jun")]
)
def test_dates_that_no_year_has_are_known(expression: str, reason: str) -> None:
    fields = compile_cron(expression)
    assert reason in (impossible_date(fields) or "")
    assert next_local(fields, 0) is None


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "0 0 31 2 1", "0 0 31,L 2 *", "0 0 31 1,2 *"])
def test_dates_that_some_year_has_are_not_called_impossible(expression: str) -> None:
    assert impossible_date(compile_cron(expression)) is None
    assert next_local(compile_cron(expression), 0) is not None
