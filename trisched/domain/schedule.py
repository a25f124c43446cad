"""Reads schedules as people write them and writes them back; the one import for all about schedules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar, cast

import attrs

from trisched.domain.cron import impossible_date, parse_cron, uses_hash
from trisched.domain.dst import Fold, Gap
from trisched.domain.duration import MICROSECONDS, format_duration, format_instant, parse_duration, parse_instant
from trisched.domain.preview import Fire, preview
from trisched.domain.slot import At, Cron, Every, Kind, Schedule, due_at, jitter_us, next_slot, same_rule, slots_between
from trisched.domain.text import parse_choice, parse_text
from trisched.domain.zone import parse_zone
from trisched.errors import FieldError, Invalid

__all__ = [
    "At",
    "Cron",
    "Every",
    "Fire",
    "Kind",
    "Schedule",
    "due_at",
    "jitter_us",
    "next_slot",
    "parse_schedule",
    "preview",
    "same_rule",
    "schedule_fields",
    "slots_between",
]

#: Below this, starting a run costs more than the interval.
LEAST_EVERY = 0.1
MOST_EVERY = 366 * 86_400.0
MOST_JITTER = 86_400.0
#: A schedule whose first slot is farther away is taken for a mistake.
HORIZON_YEARS = 5

_HORIZON_US = HORIZON_YEARS * 366 * 86_400 * MICROSECONDS
_RULES = ("cron", "every", "at")
_KEYS = (*_RULES, "timezone", "start", "end", "jitter", "dst_gap", "dst_fold", "anchor", "key")
_EVERY = re.compile(r"every\s+(.*)", re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"\s*[0-9]{4}-")
_HOW = 'write cron ("0 9 * * 1-5"), an interval ("every 5m") or a moment ("2027-01-31T09:00:00Z")'

T = TypeVar("T")
D = TypeVar("D")


def parse_schedule(
    value: object,
    *,
    path: str = "schedule",
    timezone: str = "UTC",
    key: str = "",
    now: int,
    allow_past: bool = False,
) -> Schedule:
    """The schedule that a text or an object describes; every broken rule is reported at once.

    ``timezone`` holds where the object names none, ``key`` is what ``H`` is drawn from, ``now`` anchors an
    interval without a start. ``allow_past`` is for what was stored: it may be over by now.
    """
    source = _Source(value, path)
    start = source.read("start", parse_instant, None)
    schedule = Schedule(
        timezone=source.read_zone(timezone),
        start_us=start,
        end_us=source.read("end", parse_instant, None),
        jitter=source.read("jitter", _jitter, 0.0),
        dst_gap=source.read("dst_gap", _gap, "next"),
        dst_fold=source.read("dst_fold", _fold, "first"),
        rule=source.read_rule(key, now if start is None else start),
    )
    _check_bounds(schedule, path)
    if not allow_past:
        _check_fires(schedule, source.rule_path, now)
    return schedule


class _Source:
    """What was written, field by field, with all that is wrong about it."""

    def __init__(self, value: object, path: str) -> None:
        self.path = path
        self.fields = _spread(value, path)
        self.errors = [FieldError(f"{path}.{name}", _unknown(name)) for name in self.fields if name not in _KEYS]
        self.rules = [name for name in _RULES if name in self.fields]
        if len(self.rules) != 1:
            self.errors.append(FieldError(path, "needs exactly one of cron, every, at"))
        # A text is its own rule: there is no field to point at.
        self.rule_path = f"{path}.{self.rules[0]}" if isinstance(value, Mapping) and self.rules else path

    def read(self, name: str, parse: Callable[[object, str], T], default: D, path: str = "") -> T | D:
        if name not in self.fields:
            return default
        try:
            return parse(self.fields[name], path or f"{self.path}.{name}")
        except Invalid as error:
            self.errors += error.errors
            return default

    def read_zone(self, default: str) -> str:
        if "timezone" in self.fields:
            return self.read("timezone", parse_zone, default)
        self.fields["timezone"] = default
        # The zone came from the field beside the schedule, so that one is at fault.
        return self.read("timezone", parse_zone, default, ".".join([*self.path.split(".")[:-1], "timezone"]))

    def read_rule(self, key: str, anchor: int) -> Cron | Every | At:
        """The rule; read last, since it raises all that is wrong with any field."""
        key = self.read("key", parse_text, key)
        anchor = self.read("anchor", parse_instant, anchor)
        parsers: dict[str, Callable[[object, str], Cron | Every | At]] = {
            "cron": lambda value, path: _cron(value, path, key),
            "every": lambda value, path: Every(seconds=_interval(value, path), anchor_us=anchor),
            "at": lambda value, path: At(at_us=parse_instant(value, path)),
        }
        name = self.rules[0] if self.rules else ""
        rule = self.read(name, parsers[name], None, self.rule_path) if name else None
        if rule is None or self.errors:
            raise Invalid(self.errors)
        return rule


def _spread(value: object, path: str) -> dict[str, object]:
    """The fields of an object; a text becomes its one field. Null is the same as absent."""
    if isinstance(value, Mapping):
        return {str(name): field for name, field in value.items() if field is not None}
    if isinstance(value, datetime):
        return {"at": value}
    if isinstance(value, timedelta):
        return {"every": value}
    if not isinstance(value, str):
        raise Invalid.at(path, f"is not a schedule; {_HOW}")
    if not value.strip():
        raise Invalid.at(path, f"is empty; {_HOW}")
    if interval := _EVERY.fullmatch(value.strip()):
        return {"every": interval[1]}
    return {"at" if _DATE.match(value) else "cron": value}


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _KEYS, n=1)
    return "is not a field of a schedule" + (f"; did you mean {near[0]}?" if near else "")


def _cron(value: object, path: str, key: str) -> Cron:
    parse_cron(value, path, key=key)
    expression = cast("str", value).strip()
    # The key stays with the schedule: renaming a job must not move its times.
    return Cron(expression=expression, key=key if uses_hash(expression) else "")


def _interval(value: object, path: str) -> float:
    return parse_duration(value, path, least=LEAST_EVERY, most=MOST_EVERY)


def _jitter(value: object, path: str) -> float:
    return parse_duration(value, path, most=MOST_JITTER)


def _gap(value: object, path: str) -> Gap:
    return cast("Gap", parse_choice(value, path, ("next", "skip")))


def _fold(value: object, path: str) -> Fold:
    return cast("Fold", parse_choice(value, path, ("first", "second", "both")))


def _check_bounds(schedule: Schedule, path: str) -> None:
    start, end, rule = schedule.start_us, schedule.end_us, schedule.rule
    if start is not None and end is not None and end < start:
        raise Invalid.at(f"{path}.end", f"is before the start, {format_instant(start)}")
    if isinstance(rule, Every) and schedule.jitter > rule.seconds:
        # A longer jitter would let a slot start after the next one.
        longest = format_duration(rule.seconds)
        raise Invalid.at(f"{path}.jitter", f"must not be longer than the interval, {longest}")


def _check_fires(schedule: Schedule, path: str, now: int) -> None:
    """Refuses what can never run, with the reason."""
    rule, end = schedule.rule, schedule.end_us
    if isinstance(rule, At) and rule.at_us <= now:
        raise Invalid.at(path, f"{format_instant(rule.at_us)} is in the past; it would never run")
    after = max(now, (schedule.start_us or 0) - 1)
    slot = next_slot(schedule, after)
    if slot is not None and slot - after <= _HORIZON_US:
        return
    unbounded = next_slot(attrs.evolve(schedule, end_us=None), after)
    if end is not None and unbounded is not None:
        first, last = format_instant(unbounded), format_instant(end)
        reason = f"never fires: its first slot, {first}, is after its end, {last}"
    elif isinstance(rule, At):
        reason = "never fires: its moment is before its start"
    else:
        impossible = impossible_date(rule.fields) if isinstance(rule, Cron) else None
        reason = f"never fires within {HORIZON_YEARS} years" + (f": {impossible}" if impossible else "")
    raise Invalid.at(path, reason)


def schedule_fields(schedule: Schedule) -> dict[str, object]:
    """JSON values from which :func:`parse_schedule` makes the same schedule again."""
    fields: dict[str, object] = {**_rule_fields(schedule.rule), "timezone": schedule.timezone}
    if schedule.start_us is not None:
        fields["start"] = format_instant(schedule.start_us)
    if schedule.end_us is not None:
        fields["end"] = format_instant(schedule.end_us)
    if schedule.jitter:
        fields["jitter"] = schedule.jitter
    if schedule.kind == "cron":
        fields |= {"dst_gap": schedule.dst_gap, "dst_fold": schedule.dst_fold}
    return fields


def _rule_fields(rule: Cron | Every | At) -> dict[str, object]:
    if isinstance(rule, Cron):
        return {"cron": rule.expression, "key": rule.key} if rule.key else {"cron": rule.expression}
    if isinstance(rule, Every):
        return {"every": rule.seconds, "anchor": format_instant(rule.anchor_us)}
    return {"at": format_instant(rule.at_us)}
