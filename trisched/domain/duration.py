"""Reads and writes durations and instants the way people write them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from trisched.errors import Invalid

MICROSECONDS = 1_000_000

#: Longer than any sensible wait; catches milliseconds given as seconds before they are stored.
MOST_SECONDS = 3660 * 86_400.0

_UNITS = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86_400.0, "day": 86_400.0, "days": 86_400.0,
    "w": 604_800.0, "week": 604_800.0, "weeks": 604_800.0,
}  # fmt: skip
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PLAIN = re.compile(_NUMBER)
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*")
_HOW = 'write seconds as a number, or text such as "90s", "5m", "1h30m", "1d"'
_LONGEST_TEXT = 64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A year of room below the calendar's last, so that no zone's offset can push a time over it.
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,18}))?)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
)


def parse_duration(value: object, path: str, *, least: float = 0.0, most: float = MOST_SECONDS) -> float:
    """Seconds, from a number of seconds, a timedelta, or text such as ``"1h30m"`` or ``"2 days"``."""
    seconds = _seconds(value, path)
    if math.isnan(seconds):
        raise Invalid.at(path, f"is not a number; {_HOW}")
    if seconds < 0:
        raise Invalid.at(path, "must not be negative")
    if seconds < least:
        raise Invalid.at(path, f"must be at least {format_duration(least)}")
    if seconds > most:
        raise Invalid.at(path, f"must be at most {format_duration(most)}")
    return seconds


def _seconds(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta):
        raise Invalid.at(path, f"is not a duration; {_HOW}")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _seconds_in_text(value, path)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _seconds_in_text(value: str, path: str) -> float:
    text = value.strip().lower()
    if text.startswith("-"):
        raise Invalid.at(path, "must not be negative")
    if len(text) > _LONGEST_TEXT:
        raise Invalid.at(path, f"is too long for a duration; {_HOW}")
    if _PLAIN.fullmatch(text):
        return float(text)
    total, at = 0.0, 0
    while part := _PART.match(text, at):
        number, unit = part.groups()
        if unit not in _UNITS:
            raise Invalid.at(path, f"{unit!r} is not a unit of time; use ms, s, m, h, d or w")
        total, at = total + float(number) * _UNITS[unit], part.end()
    if at == 0 or at < len(text):
        raise Invalid.at(path, f"{value!r} is not a duration; {_HOW}")
    return total


def format_duration(seconds: float) -> str:
    """The shortest text that :func:`parse_duration` reads as the same duration, to the microsecond."""
    if not math.isfinite(seconds):
        return str(seconds)
    if seconds < 0:
        return "-" + format_duration(-seconds)
    rest = round(seconds * MICROSECONDS)
    text = ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, rest = divmod(rest, size * MICROSECONDS)
        text += f"{count}{unit}" if count else ""
    if not text and 0 < rest < MICROSECONDS:
        return f"{_decimal(rest, 3)}ms"
    return text + f"{_decimal(rest, 6)}s" if rest or not text else text


def _decimal(count: int, digits: int) -> str:
    whole, fraction = divmod(count, 10**digits)
    return f"{whole}.{fraction:0{digits}d}".rstrip("0").rstrip(".") if fraction else str(whole)


def parse_instant(value: object, path: str) -> int:
    """Microseconds since the epoch, from RFC 3339 text or an aware datetime."""
    moment = value if isinstance(value, datetime) else _moment_in_text(value, path)
    if moment.utcoffset() is None:
        raise Invalid.at(path, "has no time zone; add Z or an offset such as +02:00")
    at = (moment - _EPOCH) // timedelta(microseconds=1)
    if not _FIRST_US <= at <= _LAST_US:
        raise Invalid.at(path, f"is outside the years {_FIRST_YEAR}–{_LAST_YEAR}")
    return at


def _moment_in_text(value: object, path: str) -> datetime:
    match = _INSTANT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise Invalid.at(path, "is not a moment; write it like 2027-01-31T09:00:00Z")
    *parts, fraction, zone = match.groups()
    if zone is None:
        raise Invalid.at(path, "has no time zone; add Z or an offset such as +02:00")
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    micro = int((fraction or "")[:6].ljust(6, "0"))
    try:
        offset = datetime.strptime("+00:00" if zone in "Zz" else zone, "%z").tzinfo
        return datetime(year, month, day, hour, minute, second, micro, tzinfo=offset)
    except ValueError as error:
        raise Invalid.at(path, f"is not a moment that exists: {error}") from None


def format_instant(us: int) -> str:
    """RFC 3339 in UTC, with three or six digits of a second where they are not all zero."""
    moment = _EPOCH + timedelta(microseconds=us)
    digits = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=digits if moment.microsecond else "seconds") + "Z"


_FIRST_US = (datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime(_LAST_YEAR + 1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) - 1
