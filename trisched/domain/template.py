"""Templates in the texts of a job: ``{{parameters.customer}}`` and ``${secret:NAME}``, filled in at each attempt.

What is filled in is never looked at again: neither a parameter nor a secret can bring a reference of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec

from trisched.errors import Invalid

SECRET_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,100}")
SECRET_START: Final = "${secret:"  # noqa: S105 - how a reference begins
#: What stands alone, and what stands for something with parts: ``{{parameters}}``, ``{{results.extract.total}}``.
_PLAIN: Final = ("run_id", "job", "slot", "attempt", "token", "idempotency_key")
_WITH_PARTS: Final = ("parameters", "results")
_HOLE = re.compile(r"\{\{(.*?)\}\}|\$\{secret:([^}]*)\}", re.DOTALL)
_SECRET = re.compile(r"\$\{secret:([A-Za-z0-9_]{1,100})\}")


@attrs.frozen
class Value:
    """A place for something that the run has: ``parameters.customer``."""

    path: str


@attrs.frozen
class Secret:
    """A place for a secret of the node."""

    name: str


Part = str | Value | Secret


@attrs.frozen(kw_only=True)
class Filling:
    """What the places of a template are filled with."""

    values: Mapping[str, object]
    secrets: Mapping[str, str] = attrs.field(repr=False)


class CannotFill(ValueError):
    """A place for which this run has nothing, or something that does not fit; the text says which."""


@lru_cache(maxsize=4096)
def parts_of(text: str) -> tuple[Part, ...]:
    """The literal pieces and the places of ``text``; ValueError says what is wrong with one."""
    parts: list[Part] = []
    end = 0
    for hole in _HOLE.finditer(text):
        _add_literal(parts, text[end : hole.start()])
        parts.append(_value(hole[1]) if hole[1] is not None else _secret(hole[2]))
        end = hole.end()
    _add_literal(parts, text[end:])
    return tuple(parts)


def _add_literal(parts: list[Part], text: str) -> None:
    for mark, close in (("{{", "}}"), (SECRET_START, "}")):
        if mark in text:
            raise ValueError(f"has {mark} without {close}; a text with {mark} in it can be given as a parameter")
    if text:
        parts.append(text)


def _value(inner: str) -> Value:
    path = inner.strip()
    root, dot, rest = path.partition(".")
    if root in _PLAIN and not dot:
        return Value(path)
    if root in _WITH_PARTS and (rest or (root == "parameters" and not dot)):
        return Value(path)
    if root in _WITH_PARTS:
        raise ValueError(f"{{{{{path}}}}} names nothing; write {{{{{root}.NAME}}}}")
    takes = ", ".join((*(f"{name}.NAME" for name in _WITH_PARTS), *_PLAIN))
    raise ValueError(f"{{{{{path}}}}} is not known; there are {takes}")


def _secret(name: str) -> Secret:
    if not SECRET_NAME.fullmatch(name):
        raise ValueError(f"${{secret:{name}}} is not a name of a secret; letters, digits and _ are allowed")
    return Secret(name)


def check_template(text: str, path: str) -> None:
    """Refuses a text with a place that can never be filled."""
    try:
        parts_of(text)
    except ValueError as error:
        raise Invalid.at(path, str(error)) from None


def check_secrets(text: str, path: str) -> None:
    """Refuses a broken reference to a secret in a text that has no other places."""
    for piece in text.split(SECRET_START)[1:]:
        name, closed, _ = piece.partition("}")
        if not closed or not SECRET_NAME.fullmatch(name):
            raise Invalid.at(path, "a reference to a secret is ${secret:NAME}; letters, digits and _ are allowed")


def secrets_in(text: str) -> Iterator[str]:
    """The names of the secrets that ``text`` refers to."""
    return (found[1] for found in _SECRET.finditer(text)) if SECRET_START in text else iter(())


def fill_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """``text`` with its secrets, where it has no other places."""
    return _SECRET.sub(lambda found: secrets[found[1]], text)


def fill(text: str, filling: Filling, escape: Callable[[str], str] = str) -> str:
    """``text`` with every place filled; ``escape`` makes each filling fit where it goes."""
    parts = parts_of(text)
    return "".join(part if isinstance(part, str) else escape(_as_text(_look_up(part, filling))) for part in parts)


def fill_json(value: Any, filling: Filling) -> Any:
    """A JSON value with the places in its texts filled. A text that is one place alone keeps the filling's type."""
    if isinstance(value, str):
        parts = parts_of(value)
        if len(parts) == 1 and not isinstance(parts[0], str):
            return _look_up(parts[0], filling)
        return fill(value, filling)
    if isinstance(value, dict):
        return {name: fill_json(part, filling) for name, part in value.items()}
    if isinstance(value, list):
        return [fill_json(part, filling) for part in value]
    return value


def _look_up(part: Value | Secret, filling: Filling) -> object:
    if isinstance(part, Secret):
        return filling.secrets[part.name]
    root, _, rest = part.path.partition(".")
    value = filling.values[root]
    found = [value] if not rest else list(_descend(value, rest))
    if not found:
        what = "this run has no parameter" if root == "parameters" else "there is no result"
        raise CannotFill(f"{{{{{part.path}}}}} cannot be filled in: {what} {rest!r}")
    return found[0]


def _descend(value: object, path: str) -> Iterator[object]:
    """What ``path`` leads to. Names may hold dots themselves: the longest that exists counts."""
    if isinstance(value, list) and path.partition(".")[0].isdecimal():
        first, dot, rest = path.partition(".")
        if len(first) < 10 and int(first) < len(value):
            yield from _descend(value[int(first)], rest) if dot else (value[int(first)],)
    if not isinstance(value, Mapping):
        return
    end = len(path)
    while end > 0:
        name = path[:end]
        if name in value:
            yield from (value[name],) if end == len(path) else _descend(value[name], path[end + 1 :])
        end = path.rfind(".", 0, end)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
