"""Parameters as they are written on a command line and in files of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """``count=3 to=ann ids=[1,2]``: a value that is JSON is taken as such, any other is text."""
    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r} is not NAME=VALUE")
        if name in parameters:
            raise click.UsageError(f"{name} is given twice")
        parameters[name] = _value(text)
    return parameters


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text


def _not_json(word: str) -> Any:
    """NaN and the infinities, which Python reads but JSON does not have."""
    raise ValueError(word)


def parse_lines(lines: Iterable[str], source: str) -> list[dict[str, Any]]:
    """A set of parameters from each line that is not blank; all are checked before any is used."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            parameters = json.loads(line, parse_constant=_not_json)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"{source}:{number}: is not JSON: {error}") from None
        if not isinstance(parameters, dict):
            raise click.UsageError(f'{source}:{number}: must be an object of parameters such as {{"to": "ann"}}')
        found.append(parameters)
    return found
