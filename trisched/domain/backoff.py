"""How long a run waits before it is tried again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal, cast

import attrs

from trisched.domain.duration import format_duration, parse_duration
from trisched.domain.text import parse_choice
from trisched.errors import FieldError, Invalid

BackoffKind = Literal["exponential", "fixed"]
_KINDS = ("exponential", "fixed")
_DAY = 86_400.0
_MOST_FACTOR = 100.0


@attrs.frozen(kw_only=True)
class Backoff:
    """1, 2, 4, 8 s… up to five minutes, each with up to half a second more; durations in seconds."""

    kind: BackoffKind = "exponential"
    base: float = 1.0
    factor: float = 2.0
    max: float = 300.0
    #: Spreads runs that failed together.
    jitter: float = 0.5


def delay(backoff: Backoff, failures: int, random: Random) -> float:
    """Seconds to wait after the ``failures``-th failure, counted from 1."""
    return _plain_delay(backoff, failures) + random.uniform(0.0, backoff.jitter)


def _plain_delay(backoff: Backoff, failures: int) -> float:
    if backoff.kind == "fixed":
        return min(backoff.base, backoff.max)
    try:
        growth = backoff.factor ** max(failures - 1, 0)
    except OverflowError:
        # Far beyond any cap, except that no growth makes something of a wait of zero.
        return backoff.max if backoff.base else 0.0
    return min(backoff.base * growth, backoff.max)


def parse_backoff(value: object, path: str = "backoff") -> Backoff:
    """The backoff that ``"fixed"``, ``"exponential"`` or an object of some of its fields describes."""
    if isinstance(value, str):
        return Backoff(kind=_kind(value, path))
    if not isinstance(value, Mapping):
        raise Invalid.at(path, f"must be one of {', '.join(_KINDS)}, or an object with {', '.join(_PARSERS)}")
    parsed: dict[str, Any] = {}
    errors = [
        FieldError(f"{path}.{name}", f"is not a field of a backoff; there are {', '.join(_PARSERS)}")
        for name in value
        if name not in _PARSERS
    ]
    for name, parser in _PARSERS.items():
        if value.get(name) is None:
            continue
        try:
            parsed[name] = parser(value[name], f"{path}.{name}")
        except Invalid as error:
            errors += error.errors
    if errors:
        raise Invalid(errors)
    backoff = Backoff(**parsed)
    if backoff.base > backoff.max:
        longer = f"less than the base of {format_duration(backoff.base)}; raise it"
        raise Invalid.at(f"{path}.max", f"is {format_duration(backoff.max)}, {longer}")
    return backoff


def backoff_fields(backoff: Backoff) -> dict[str, object]:
    """JSON values from which :func:`parse_backoff` makes the same backoff again."""
    return attrs.asdict(backoff)


def _kind(value: object, path: str) -> BackoffKind:
    return cast("BackoffKind", parse_choice(value, path, _KINDS))


def _wait(value: object, path: str) -> float:
    return parse_duration(value, path, most=_DAY)


def _factor(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MOST_FACTOR:
        raise Invalid.at(path, f"must be a number within 1–{_MOST_FACTOR:g}")
    return float(value)


_PARSERS: dict[str, Callable[[object, str], object]] = {
    "kind": _kind,
    "base": _wait,
    "factor": _factor,
    "max": _wait,
    "jitter": _wait,
}
