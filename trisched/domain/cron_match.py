"""Finds the next local time that a cron expression's fields match.

A local time is counted in seconds from 1970-01-01 00:00 on the wall clock, as if there were no zones.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from datetime import date
from functools import lru_cache

import attrs

_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
#: Longer than the calendar needs to repeat any weekday of 29 February.
_HORIZON_YEARS = 50


@attrs.frozen(kw_only=True, cache_hash=True)
class DayRule:
    """Which days match. Weekdays count from Sunday = 0."""

    months: tuple[int, ...]
    days: frozenset[int]
    last_day: bool
    last_weekday: bool
    weekdays: frozenset[int]
    #: (weekday, n): the n-th one of a month; n = -1 is the last one.
    nth: frozenset[tuple[int, int]]
    #: cron's star rule: day of month and day of week must both match, else one is enough.
    both: bool


@attrs.frozen(kw_only=True, cache_hash=True)
class CronFields:
    """An expression, read: sorted values for the time of day, and the rule for the days."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: DayRule
    #: The six columns as text, aliases and H replaced.
    tokens: tuple[str, ...]

    @property
    def fixed_hours(self) -> bool:
        """Whether the hours are named one by one: such a schedule means times of the day, others a rhythm."""
        return not ("*" in self.tokens[2] or "/" in self.tokens[2] or len(self.hours) == 24)


def next_local(fields: CronFields, at: int) -> int | None:
    """The first matching local second that is not before ``at``; None when 50 years have none."""
    day, time = divmod(at, _DAY)
    today = date.fromordinal(day + _EPOCH_ORDINAL)
    year, month = today.year, today.month
    days = matching_days(fields.days, year, month)
    index = bisect_left(days, today.day)
    if index < len(days) and days[index] == today.day:
        found = _next_time(fields, time)
        if found is not None:
            return day * _DAY + found
        index += 1
    last_year = min(year + _HORIZON_YEARS, date.max.year - 1)
    while index == len(days):
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        if year > last_year:
            return None
        days, index = matching_days(fields.days, year, month), 0
    first = (fields.hours[0] * 60 + fields.minutes[0]) * 60 + fields.seconds[0]
    return (date(year, month, days[index]).toordinal() - _EPOCH_ORDINAL) * _DAY + first


def _next_time(fields: CronFields, time: int) -> int | None:
    """The first matching second of a day that is not before ``time``."""
    seconds, minutes, hours = fields.seconds, fields.minutes, fields.hours
    hour, rest = divmod(time, 3600)
    minute, second = divmod(rest, 60)
    index = bisect_left(seconds, second)
    if index == len(seconds):
        minute, index = minute + 1, 0
    second = seconds[index]
    index = bisect_left(minutes, minute)
    if index == len(minutes):
        hour, index = hour + 1, 0
    if minutes[index] != minute:
        minute, second = minutes[index], seconds[0]
    index = bisect_left(hours, hour)
    if index == len(hours):
        return None
    if hours[index] != hour:
        hour, minute, second = hours[index], minutes[0], seconds[0]
    return (hour * 60 + minute) * 60 + second


@lru_cache(maxsize=65_536)
def matching_days(rule: DayRule, year: int, month: int) -> tuple[int, ...]:
    """The days of one month that match."""
    if month not in rule.months:
        return ()
    first_weekday, length = monthrange(year, month)
    matched = []
    for day in range(1, length + 1):
        weekday = (first_weekday + day) % 7
        by_month = _day_of_month_matches(rule, day, weekday, length)
        by_week = weekday in rule.weekdays or _nth_matches(rule, day, weekday, length)
        if (by_month and by_week) if rule.both else (by_month or by_week):
            matched.append(day)
    return tuple(matched)


def _day_of_month_matches(rule: DayRule, day: int, weekday: int, length: int) -> bool:
    if day in rule.days or (rule.last_day and day == length):
        return True
    if not rule.last_weekday or weekday in (0, 6):
        return False
    return day == length or (weekday == 5 and length - day < 3)


def _nth_matches(rule: DayRule, day: int, weekday: int, length: int) -> bool:
    if not rule.nth:
        return False
    return (weekday, (day + 6) // 7) in rule.nth or ((weekday, -1) in rule.nth and day + 7 > length)
