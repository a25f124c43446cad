"""Time zones: checks their names and cuts time into spans of one UTC offset."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import attrs

from trisched.errors import Invalid

DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
#: Spans of a year reach this far into its neighbours: no fold or gap is cut in two by New Year.
_MARGIN = 2 * DAY

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")
#: In the database's directory, yet not places: the host's own setting, copies, clocks with leap seconds.
_NOT_PLACES = re.compile(r"(localtime|posixrules|Factory)|(posix|right)/.*", re.IGNORECASE)


@attrs.frozen
class Span:
    """A stretch of time with one UTC offset; all in seconds, ``start`` and ``end`` since the epoch in UTC.

    ``before`` and ``after`` are the offsets of the neighbours. ``before < offset`` is a gap: the local times
    from ``start + before`` to ``start + offset`` do not exist. ``before > offset`` is a fold: those between
    come twice.
    """

    start: int
    end: int
    offset: int
    before: int
    after: int


def parse_zone(value: object, path: str) -> str:
    """The name of a time zone that this host knows."""
    if not isinstance(value, str) or not value.strip():
        raise Invalid.at(path, "must be the name of a time zone such as UTC or Europe/Berlin")
    if not _known(value):
        raise Invalid.at(path, f"{value[:80]!r} is not a time zone{_suggestion(value)}")
    return value


def _known(name: str) -> bool:
    if not _NAME.fullmatch(name) or _NOT_PLACES.fullmatch(name):
        return False
    try:
        _zone(name)
    except (OSError, ValueError, KeyError):
        return False
    return True


def _suggestion(name: str) -> str:
    """Names that are spelt alike, or what a name looks like."""
    lowered = {known.lower(): known for known in _all_names()}
    near = difflib.get_close_matches(name[:80].lower(), lowered, n=1, cutoff=0.75)
    if near:
        return f"; did you mean {lowered[near[0]]}?"
    return "; use a name such as UTC, Europe/Berlin or Etc/GMT-2"


@cache
def _all_names() -> frozenset[str]:
    return frozenset(name for name in available_timezones() if not _NOT_PLACES.fullmatch(name))


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def local_time(zone: str, at: int) -> datetime:
    """What a clock in ``zone`` shows at ``at`` (seconds since the epoch)."""
    return datetime.fromtimestamp(at, _zone(zone))


def span_at(zone: str, at: int) -> Span:
    """The span that holds ``at`` (seconds since the epoch)."""
    starts, spans = _spans(zone, date.fromordinal(at // DAY + _EPOCH_ORDINAL).year)
    return spans[bisect_right(starts, at) - 1]


@lru_cache(maxsize=4096)
def _spans(zone: str, year: int) -> tuple[tuple[int, ...], tuple[Span, ...]]:
    """The starts of the spans over ``year``, and the spans."""
    first = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) - _MARGIN
    last = int(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp()) + _MARGIN
    bounds = [first, *_changes(zone, first, last), last]
    spans = tuple(
        Span(start, end, _offset(zone, start), _offset(zone, start - 1), _offset(zone, end))
        for start, end in pairwise(bounds)
    )
    return tuple(bounds[:-1]), spans


def _changes(zone: str, first: int, last: int) -> list[int]:
    """Each instant in ``first < instant < last`` from which on another offset holds.

    The standard library tells offsets, not where they change: so look once a day, and closer where needed.
    """
    found = []
    before = _offset(zone, first)
    for day in range(first + DAY, last + 1, DAY):
        offset = _offset(zone, day)
        if offset != before and (change := _change_within(zone, day - DAY, day)) < last:
            found.append(change)
        before = offset
    return found


def _change_within(zone: str, low: int, high: int) -> int:
    """The first second with the offset of ``high``, where ``low`` still has another."""
    target = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == target:
            high = middle
        else:
            low = middle
    return high


def _offset(zone: str, at: int) -> int:
    offset = datetime.fromtimestamp(at, _zone(zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
