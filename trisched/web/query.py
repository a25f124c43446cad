"""Query parameters: declared with their rules, read strictly, and told to the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from werkzeug.datastructures import MultiDict

from trisched.domain.duration import parse_instant
from trisched.domain.text import parse_choice, parse_number, parse_text
from trisched.errors import FieldError, Invalid

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


@attrs.frozen(kw_only=True)
class Query:
    """One query parameter: its rule as a parser, and the same rule as a JSON schema."""

    name: str
    description: str
    schema: Mapping[str, Any]
    parse: Callable[[str, str], Any] = attrs.field(repr=False)
    default: Any = None
    required: bool = False


def text(name: str, description: str, *, most: int = 1000, required: bool = False) -> Query:
    """Any text."""
    return Query(
        name=name,
        description=description,
        schema={"type": "string", "minLength": 1, "maxLength": most},
        parse=lambda value, path: parse_text(value, path, most=most),
        required=required,
    )


def choice(name: str, description: str, choices: Sequence[str], *, default: str | None = None) -> Query:
    """One of a few words."""
    words = tuple(choices)
    return Query(
        name=name,
        description=description,
        schema={"type": "string", "enum": list(words)},
        parse=lambda value, path: parse_choice(value, path, words),
        default=default,
    )


def number(name: str, description: str, *, least: int, most: int, default: int | None = None) -> Query:
    """A whole number within bounds."""
    return Query(
        name=name,
        description=description,
        schema={"type": "integer", "minimum": least, "maximum": most},
        parse=lambda value, path: _number(value, path, least, most),
        default=default,
    )


def _number(value: str, path: str, least: int, most: int) -> int:
    if not _WHOLE.fullmatch(value):
        raise Invalid.at(path, f"must be a whole number within {least}–{most}")
    return parse_number(int(value), path, least=least, most=most)


def flag(name: str, description: str) -> Query:
    """True or false."""

    def parse(value: str, path: str) -> bool:
        if value.lower() not in _FLAGS:
            raise Invalid.at(path, "must be true or false")
        return _FLAGS[value.lower()]

    return Query(name=name, description=description, schema={"type": "boolean"}, parse=parse)


def moment(name: str, description: str) -> Query:
    """A moment in RFC 3339."""
    return Query(
        name=name, description=description, schema={"type": "string", "format": "date-time"}, parse=parse_instant
    )


def read(declared: Sequence[Query], given: MultiDict[str, str]) -> dict[str, Any]:
    """The values of all declared parameters; Invalid for what is unknown, given twice, or breaks its rule."""
    by_name = {query.name: query for query in declared}
    takes = ", ".join(by_name) or "none"
    values = {query.name: query.default for query in declared}
    errors = [FieldError(query.name, "is required") for query in declared if query.required and query.name not in given]
    for name, texts in given.lists():
        if name not in by_name:
            errors.append(FieldError(name, f"is not a parameter here; there are: {takes}"))
        elif len(texts) > 1:
            errors.append(FieldError(name, "is given more than once"))
        else:
            try:
                values[name] = by_name[name].parse(texts[0], name)
            except Invalid as error:
                errors += error.errors
    if errors:
        raise Invalid(errors)
    return values
