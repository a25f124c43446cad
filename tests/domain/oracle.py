"""Slow and obvious answers to compare the schedules with: every minute is looked at, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MINUTE = timedelta(minutes=1)


def microseconds(moment: datetime) -> int:
    """Microseconds since the epoch of an aware moment."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def instant(text: str) -> int:
    """Microseconds since the epoch of ISO text with an offset."""
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo is not None
    return microseconds(moment)


def _values(text: str, low: int, high: int) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        if body == "*":
            first, last = low, high
        elif "-" in body:
            first, last = (int(end) for end in body.split("-"))
        else:
            first = int(body)
            last = high if step else first
        values |= {value for value in range(first, last + 1) if (value - first) % int(step or 1) == 0}
    return values


class Expression:
    """Five plain columns (numbers, ranges, steps, lists), matched the way Vixie cron does."""

    def __init__(self, text: str) -> None:
        columns = text.split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            _values(column, *limits) for column, limits in zip(columns, LIMITS, strict=True)
        )
        self.weekdays = {weekday % 7 for weekday in weekdays}
        self.star = columns[2].startswith("*") or columns[4].startswith("*")

    def matches_day(self, day: date) -> bool:
        by_month = day.day in self.days
        by_week = day.isoweekday() % 7 in self.weekdays
        either = (by_month and by_week) if self.star else (by_month or by_week)
        return day.month in self.months and either

    def matches(self, moment: datetime) -> bool:
        in_day = moment.minute in self.minutes and moment.hour in self.hours
        return in_day and self.matches_day(moment.date())

    def fires(self, after: datetime, days: int) -> Iterator[datetime]:
        """Every match in the ``days`` after ``after``, without any zone."""
        for number in range(days):
            day = after.date() + timedelta(days=number)
            if not self.matches_day(day):
                continue
            for hour in range(24):
                for minute in range(60):
                    moment = datetime(day.year, day.month, day.day, hour, minute, tzinfo=after.tzinfo)
                    if hour in self.hours and minute in self.minutes and moment > after:
                        yield moment


class WallClockTable:
    """What the clock of a zone shows in each minute of some hours around an instant."""

    def __init__(self, zone: str, around: datetime, hours: int) -> None:
        self.start = around - timedelta(hours=hours)
        self.instants: dict[datetime, list[datetime]] = {}
        tz = ZoneInfo(zone)
        for number in range(hours * 120):
            at = self.start + number * MINUTE
            self.instants.setdefault(at.astimezone(tz).replace(tzinfo=None, fold=0), []).append(at)
        self.first, self.last = min(self.instants), max(self.instants)

    def rhythm(self, expression: Expression) -> list[int]:
        """Every instant at which the clock shows a match."""
        found = (at for shown, ats in self.instants.items() if expression.matches(shown) for at in ats)
        return sorted(map(microseconds, found))

    def times_of_day(self, expression: Expression, gap: str, fold: str) -> list[int]:
        """Each matching local time, shown or not, carried to instants by policy."""
        found: set[int] = set()
        shown = self.first
        while shown <= self.last:
            if expression.matches(shown):
                found |= set(map(microseconds, self._instants_of(shown, gap, fold)))
            shown += MINUTE
        return sorted(found)

    def _instants_of(self, shown: datetime, gap: str, fold: str) -> list[datetime]:
        ats = self.instants.get(shown, [])
        if not ats:
            while gap == "next" and shown not in self.instants:
                shown += MINUTE
            return self.instants.get(shown, [])[:1]
        return {"first": ats[:1], "second": ats[-1:], "both": ats}[fold]


def clock_changes(zone: str, first_year: int, last_year: int) -> list[datetime]:
    """The instants, to the minute, at which the zone's offset changes."""
    tz = ZoneInfo(zone)
    changes = []
    day = datetime(first_year, 1, 1, tzinfo=UTC)
    while day.year <= last_year:
        following = day + timedelta(days=1)
        if day.astimezone(tz).utcoffset() != following.astimezone(tz).utcoffset():
            at = day
            while at.astimezone(tz).utcoffset() == day.astimezone(tz).utcoffset():
                at += MINUTE
            changes.append(at)
        day = following
    return changes
