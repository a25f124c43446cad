"""Reads cron expressions and says what is wrong with them.

Fields: ``[second] minute hour day-of-month month day-of-week``. Days follow cron's star rule: where the day
of month or the day of week begins with ``*``, both must match; else either may.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

import attrs

from trisched.domain.cron_match import CronFields, DayRule
from trisched.errors import Invalid

ALIASES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: Room for a list of every minute, and far below what could take long to read.
_LONGEST = 400
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_HASH = re.compile(r"H(?:\(([0-9]{1,2})-([0-9]{1,2})\))?(/[^/]*)?")


@attrs.frozen(kw_only=True)
class _Field:
    """One column of an expression."""

    name: str
    low: int
    high: int
    #: The longest step that means anything.
    cycle: int
    names: Mapping[str, int] = attrs.field(factory=dict)
    #: The last value that H may take: each month has it, and no day of week has two numbers.
    hash_high: int | None = None

    def refuse(self, message: str) -> Invalid:
        return Invalid.at("", f"{self.name}: {message}")


def _numbered(names: tuple[str, ...], first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names, first)}


_FIELDS = (
    _Field(name="second", low=0, high=59, cycle=60),
    _Field(name="minute", low=0, high=59, cycle=60),
    _Field(name="hour", low=0, high=23, cycle=24),
    _Field(name="day of month", low=1, high=31, cycle=31, hash_high=28),
    _Field(name="month", low=1, high=12, cycle=12, names=_numbered(_MONTHS, 1)),
    _Field(name="day of week", low=0, high=7, cycle=7, names=_numbered(_WEEKDAYS, 0), hash_high=6),
)
_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY = _FIELDS


def parse_cron(expression: object, path: str, *, key: str = "") -> CronFields:
    """The times that ``expression`` means. ``H`` is a value drawn from ``key``, always the same one."""
    if not isinstance(expression, str):
        raise Invalid.at(path, 'must be text such as "0 9 * * 1-5"')
    try:
        return compile_cron(expression, key)
    except Invalid as error:
        raise Invalid.at(path, error.errors[0].message) from None


@lru_cache(maxsize=16_384)
def compile_cron(expression: str, key: str = "") -> CronFields:
    """As :func:`parse_cron`, without a path in its errors. Remembered: many jobs share few expressions."""
    tokens = [_resolve(field, token, key) for field, token in zip(_FIELDS, _tokens(expression), strict=True)]
    second, minute, hour, day, month, weekday = tokens
    return CronFields(
        seconds=_numbers(_SECOND, second),
        minutes=_numbers(_MINUTE, minute),
        hours=_numbers(_HOUR, hour),
        days=_day_rule(day, month, weekday),
        tokens=tuple(tokens),
    )


def uses_hash(expression: str) -> bool:
    """Whether the times depend on the key."""
    return any(_HASH.fullmatch(item.upper()) for token in expression.split() for item in token.split(","))


def _tokens(expression: str) -> list[str]:
    """Six columns, the first being seconds."""
    text = expression.strip()
    if not text:
        raise Invalid.at("", "is empty; write five fields: minute hour day-of-month month day-of-week")
    if len(text) > _LONGEST:
        raise Invalid.at("", f"is longer than {_LONGEST} characters")
    if text.startswith("@"):
        alias = ALIASES.get(text.lower())
        if alias is None:
            raise Invalid.at("", f"{text!r} is not known; there are {', '.join(ALIASES)}")
        text = alias
    tokens = text.upper().split()
    if len(tokens) not in (5, 6):
        count = f"{len(tokens)} field{'s' if len(tokens) > 1 else ''}"
        columns = "five (minute hour day-of-month month day-of-week), or six with seconds first"
        raise Invalid.at("", f"has {count}; write {columns}")
    return tokens if len(tokens) == 6 else ["0", *tokens]


def _resolve(field: _Field, token: str, key: str) -> str:
    """``token`` with each ``H``, ``H(a-b)``, ``H/n`` replaced by the value or range that ``key`` draws."""
    return ",".join(_resolve_item(field, item, key) for item in token.split(","))


def _resolve_item(field: _Field, item: str, key: str) -> str:
    match = _HASH.fullmatch(item)
    if match is None:
        return item
    if not key:
        raise field.refuse("H is drawn from the job's name, and there is none here")
    first, last, step_text = match.groups()
    low = field.low if first is None else _number(field, first)
    high = (field.hash_high or field.high) if last is None else _number(field, last)
    if high < low:
        raise field.refuse(f"{item} runs backwards")
    seed = f"{field.name}\0{key}".encode("utf-8", "surrogatepass")
    drawn = int.from_bytes(blake2b(seed, digest_size=8).digest())
    if step_text is None:
        return str(low + drawn % (high - low + 1))
    step = _step(field, step_text[1:])
    return f"{low + drawn % min(step, high - low + 1)}-{high}/{step}"


def _numbers(field: _Field, token: str) -> tuple[int, ...]:
    return tuple(sorted({number for item in token.split(",") for number in _range(field, item)}))


def _range(field: _Field, item: str) -> range:
    """The values of ``*``, ``a``, ``a-b``, each with an optional ``/step``; ``a/step`` goes on to the end."""
    body, slash, step_text = item.partition("/")
    step = _step(field, step_text) if slash else 1
    if body == "*":
        return range(field.low, field.high + 1, step)
    first_text, dash, last_text = body.partition("-")
    first = _number(field, first_text)
    if not dash:
        return range(first, (field.high if slash else first) + 1, step)
    last = _number(field, last_text)
    if last < first:
        sunday = field is _WEEKDAY and last == 0
        upwards = f"{first_text}-7" if sunday else f"{first}-{field.high},{field.low}-{last}"
        raise field.refuse(f"{body} runs backwards; write {upwards}")
    return range(first, last + 1, step)


def _step(field: _Field, text: str) -> int:
    if not _is_digits(text):
        raise field.refuse(f"the step {text!r} is not a number")
    if len(text) > 9 or not 1 <= int(text) <= field.cycle:
        raise field.refuse(f'the step {text} is not within 1–{field.cycle}; longer intervals are written "every …"')
    return int(text)


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not _is_digits(text):
        named = f" or one of {', '.join(field.names)}" if field.names else ""
        raise field.refuse(f"{text!r} is not a number{named}" if text else f"a number{named} is missing")
    if len(text) > 9 or not field.low <= int(text) <= field.high:
        raise field.refuse(f"{text} is not within {field.low}–{field.high}")
    return int(text)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _day_rule(day: str, month: str, weekday: str) -> DayRule:
    day_items, weekday_items = day.split(","), weekday.split(",")
    days = [item for item in day_items if item not in ("L", "LW")]
    weekdays = [item for item in weekday_items if not _is_nth(item)]
    return DayRule(
        months=_numbers(_MONTH, month),
        days=frozenset(_numbers(_DAY, ",".join(days)) if days else ()),
        last_day="L" in day_items,
        last_weekday="LW" in day_items,
        weekdays=frozenset(n % 7 for n in (_numbers(_WEEKDAY, ",".join(weekdays)) if weekdays else ())),
        nth=frozenset(_nth(item) for item in weekday_items if _is_nth(item)),
        both=day.startswith("*") or weekday.startswith("*"),
    )


def _is_nth(item: str) -> bool:
    return "#" in item or (item.endswith("L") and len(item) > 1)


def _nth(item: str) -> tuple[int, int]:
    """``2#1``: the first Tuesday, as (2, 1). ``5L``: the last Friday, as (5, -1)."""
    if item.endswith("L"):
        return _number(_WEEKDAY, item[:-1]) % 7, -1
    name, _, count = item.partition("#")
    if count not in ("1", "2", "3", "4", "5"):
        raise _WEEKDAY.refuse(f"{count!r} after # is not within 1–5")
    return _number(_WEEKDAY, name) % 7, int(count)


def impossible_date(fields: CronFields) -> str | None:
    """Why no day of any year matches, where the days of the months alone tell."""
    rule = fields.days
    if rule.last_day or rule.last_weekday or not rule.days or not rule.both:
        return None
    longest = max(monthrange(2024, month)[1] for month in rule.months)
    if min(rule.days) <= longest:
        return None
    months = ", ".join(_MONTHS[month - 1].title() for month in rule.months)
    return f"{months} never has a day {min(rule.days)}"
