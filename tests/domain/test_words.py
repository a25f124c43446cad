"""Schedules are said in words that a person would use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import instant
from trisched.domain.schedule import Cron, Schedule, parse_schedule
from trisched.domain.words import describe

NOW = instant("2026-11-18T08:00:00+00:00")
HERE = ", Europe/Berlin"


def words(value: object) -> str:
    return describe(parse_schedule(value, timezone="Europe/Berlin", key="job", now=NOW))


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("*/7 * * * *", "every 7 minutes from minute 0 to 56 of every hour"),
        ("5,10 * * * *", "at minutes 5 and 10 of every hour"),
        ("0 * * * *", "every hour"),
        ("15 * * * *", "every hour at :15"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("5 * * * * *", "every minute at second 5"),
        ("* 5 * * * *", "every second, at minute 5 of the hour"),
        ("0 */2 * * *", "every 2 hours, every day" + HERE),
        ("0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day" + HERE),
        ("@daily", "at 00:00 every day" + HERE),
        ("0 9 * * 1-5", "at 09:00 every weekday" + HERE),
        ("30 5 6 * * *", "at 06:05:30 every day" + HERE),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day" + HERE),
        ("0 9-17 * * MON-FRI", "every hour from 09:00 to 17:00, every weekday" + HERE),
        ("*/15 9-17 * * *", "every 15 minutes from 09:00 to 17:59, every day" + HERE),
        ("* * * * 1", "every minute, every Monday" + HERE),
        ("0 0 * * 0,6", "at 00:00 every Saturday and Sunday" + HERE),
        ("0 0 1 * *", "at 00:00 on the 1st of the month" + HERE),
        ("0 0 2,13,23 * *", "at 00:00 on the 2nd, 13th and 23rd of the month" + HERE),
        ("0 0 1-7 * *", "at 00:00 every day from the 1st to the 7th of the month" + HERE),
        ("0 0 1,15,L * *", "at 00:00 on the 1st, 15th and last day of the month" + HERE),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month" + HERE),
        ("0 0 * * 5L", "at 00:00 on the last Friday of the month" + HERE),
        ("0 0 * * 2#2", "at 00:00 on the second Tuesday of the month" + HERE),
        ("0 0 * * 1,3#2", "at 00:00 every Monday and on the second Wednesday of the month" + HERE),
        ("0 0 13 * 5", "at 00:00 on the 13th of the month or every Friday" + HERE),
        ("0 0 1-31 * 5", "at 00:00 every day" + HERE),
        (
            "0 0 */2 * 5",
            "at 00:00 every 2 days from the 1st to the 31st of the month, but only every Friday" + HERE,
        ),
        ("0 12 * 6-8 *", "at 12:00 every day in June, July and August" + HERE),
        ("0 0 1 1 *", "at 00:00 on the 1st of the month in January" + HERE),
    ],
)
def test_cron_is_said_in_words(cron: str, text: str) -> None:
    assert words(cron) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("every 5m", "every 5 minutes"),
        ("every 1h", "every hour"),
        ("every 1d", "every day"),
        ("every 2w", "every 2 weeks"),
        ("every 90s", "every 1 minute 30 seconds"),
        ("every 500ms", "every 0.5 seconds"),
        ("2027-01-01T09:00:00Z", "once at 2027-01-01 10:00:00" + HERE),
        (
            {"every": "1h", "start": "2027-01-01T00:00:00Z", "end": "2028-01-01T00:00:00Z"},
            "every hour, from 2027-01-01T00:00:00Z, until 2028-01-01T00:00:00Z",
        ),
    ],
)
def test_intervals_and_moments_are_said_in_words(value: object, text: str) -> None:
    assert words(value) == text


columns = st.tuples(
    st.sampled_from(["0", "*", "*/7", "3,4", "10-20/5"]),
    st.sampled_from(["0", "*", "*/7", "1,5,6", "30-45"]),
    st.sampled_from(["*", "3", "*/7", "1,2,13", "8-18", "H"]),
    st.sampled_from(["*", "1", "L", "*/9", "1,2,9,LW"]),
    st.sampled_from(["*", "1", "2,7"]),
    st.sampled_from(["*", "1", "FRI#2", "6L,2", "1-7"]),
)


@given(columns)
def test_every_expression_has_one_line_of_words(parts: tuple[str, ...]) -> None:
    schedule = Schedule(rule=Cron(expression=" ".join(parts), key="job"), timezone="Europe/Berlin")
    text = describe(schedule)
    assert text.startswith(("at ", "every "))
    assert "\n" not in text
    assert "  " not in text
