"""Says a schedule in plain English: ``at 09:00 every weekday, Europe/Berlin``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from trisched.domain.cron_match import CronFields, DayRule
from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.slot import At, Cron, Every, Schedule
from trisched.domain.zone import local_time

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
#: More times of the day than this are no longer read one by one.
_MOST_TIMES = 8
_EVERY_DAY = "every day"


def describe(schedule: Schedule) -> str:
    """The schedule in words, with its zone where that matters and its bounds where it has them."""
    rule = schedule.rule
    if isinstance(rule, At):
        moment = local_time(schedule.timezone, rule.at_us // MICROSECONDS)
        return f"once at {moment:%Y-%m-%d %H:%M:%S}, {schedule.timezone}"
    text = f"every {_length(rule.seconds)}" if isinstance(rule, Every) else _cron(rule, schedule.timezone)
    if schedule.start_us is not None:
        text += f", from {format_instant(schedule.start_us)}"
    if schedule.end_us is not None:
        text += f", until {format_instant(schedule.end_us)}"
    return text


def _length(seconds: float) -> str:
    """``5 minutes``, ``minute``, ``1 hour 30 minutes``: a single one needs no number."""
    rest = round(seconds * MICROSECONDS)
    parts = []
    for name, size in _UNITS[:-1]:
        count, rest = divmod(rest, size * MICROSECONDS)
        if count:
            parts.append(_count(count, name))
    if rest:
        parts.append(_count(rest / MICROSECONDS, "second"))
    return parts[0].removeprefix("1 ") if len(parts) == 1 else " ".join(parts)


def _count(number: float, name: str) -> str:
    return f"{number:g} {name}{'' if number == 1 else 's'}"


def _cron(rule: Cron, zone: str) -> str:
    fields = rule.fields
    time, days = _time(fields), _days(fields.days)
    if days == _EVERY_DAY and len(fields.hours) == 24:
        # A rhythm around the clock is the same in all zones, and nobody doubts that it has every day.
        return time
    # Two phrases that each begin with "every" need a pause between them.
    return f"{time}{' ' if time.startswith('at ') else ', '}{days}, {zone}"


def _time(fields: CronFields) -> str:
    """The columns for the time of day."""
    hours, minutes, seconds = fields.hours, fields.minutes, fields.seconds
    if len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        return "at " + _join(_clock(h, m, s) for h in hours for m in minutes for s in seconds)
    if len(seconds) == 1:
        return _minutes_and_hours(minutes, hours) + (f" at second {seconds[0]}" if seconds[0] else "")
    text = _rhythm(seconds, 60, "second")
    if len(minutes) < 60:
        text += f", {_rhythm(minutes, 60, 'minute')} of the hour"
    return text + _within_hours(hours)


def _minutes_and_hours(minutes: tuple[int, ...], hours: tuple[int, ...]) -> str:
    if len(minutes) > 1:
        each = " of every hour" if len(hours) == 24 and not _goes_round(minutes, 60) else ""
        return _rhythm(minutes, 60, "minute") + each + _within_hours(hours)
    past = f" at :{minutes[0]:02}" if minutes[0] else ""
    if 1 < len(hours) < 24 and _step(hours) == 1:
        return f"every hour{past} from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[0])}"
    return _rhythm(hours, 24, "hour") + past


def _rhythm(values: tuple[int, ...], cycle: int, unit: str) -> str:
    """``every 5 minutes``, ``every 7 minutes from minute 3 to 59``, ``at minutes 1 and 9``."""
    step = _step(values)
    if len(values) == 1:
        return f"at {unit} {values[0]}"
    if _goes_round(values, cycle):
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"
    if step is None or len(values) == 2:
        return f"at {unit}s {_join(map(str, values))}"
    every = f"every {unit}" if step == 1 else f"every {step} {unit}s"
    return f"{every} from {unit} {values[0]} to {values[-1]}"


def _goes_round(values: tuple[int, ...], cycle: int) -> bool:
    """Whether the values go on evenly over the end of the cycle: 0, 20, 40 do, and 0, 25, 50 do not."""
    step = _step(values)
    return step is not None and values[0] == 0 and values[-1] + step == cycle


def _step(values: tuple[int, ...]) -> int | None:
    """The distance between neighbours where it is the same everywhere."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _within_hours(hours: tuple[int, ...]) -> str:
    if len(hours) == 24:
        return ""
    if len(hours) == 1 or _step(hours) == 1:
        return f" from {hours[0]:02}:00 to {hours[-1]:02}:59"
    return f", {_rhythm(hours, 24, 'hour')}"


def _days(rule: DayRule) -> str:
    """The columns for days and months."""
    by_month, by_week = _days_of_month(rule), _days_of_week(rule)
    if by_month and by_week:
        text = f"{by_month}, but only {by_week}" if rule.both else f"{by_month} or {by_week}"
    elif rule.both:
        text = by_month or by_week or _EVERY_DAY
    else:
        # Either may match, and the one without words always does.
        text = _EVERY_DAY
    if len(rule.months) == 12:
        return text
    return f"{text} in {_join(_MONTHS[month - 1] for month in rule.months)}"


def _days_of_month(rule: DayRule) -> str:
    """Empty where every day will do."""
    if len(rule.days) == 31:
        return ""
    days = tuple(sorted(rule.days))
    step = _step(days)
    if step and len(days) > 3 and not (rule.last_day or rule.last_weekday):
        every = _EVERY_DAY if step == 1 else f"every {step} days"
        return f"{every} from the {_nth_day(days[0])} to the {_nth_day(days[-1])} of the month"
    parts = [_nth_day(day) for day in days]
    parts += ["last day"] * rule.last_day + ["last weekday"] * rule.last_weekday
    return f"on the {_join(parts)} of the month"


def _days_of_week(rule: DayRule) -> str:
    """Empty where every day will do."""
    if len(rule.weekdays) == 7:
        return ""
    parts = []
    if rule.weekdays == {1, 2, 3, 4, 5}:
        parts.append("every weekday")
    elif rule.weekdays:
        # The week begins on Monday for reading, whatever cron's numbers say.
        ordered = sorted(rule.weekdays, key=lambda day: day or 7)
        parts.append("every " + _join(_WEEKDAYS[day] for day in ordered))
    nth = [f"{_ORDINALS[n]} {_WEEKDAYS[day]}" for day, n in sorted(rule.nth)]
    if nth:
        parts.append(f"on the {_join(nth)} of the month")
    return " and ".join(parts)


def _nth_day(day: int) -> str:
    ending = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _join(parts: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
