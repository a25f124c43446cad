"""Checks on text and JSON that come from outside: what may be stored and shown as it was sent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from trisched.errors import Invalid, TooLarge

PARAMETERS_LIMIT: Final = 1024 * 1024
#: Far below what a parser can take, so that what is stored can be read wherever it is asked for.
NESTING_LIMIT: Final = 200


def parse_text(value: object, path: str, *, least: int = 1, most: int = 200) -> str:
    """``value`` if it is text of an allowed length that every store can hold."""
    if not isinstance(value, str):
        raise Invalid.at(path, "must be a string")
    if len(value) > most:
        raise Invalid.at(path, f"is {len(value):,} characters long; at most {most:,}")
    if len(value) < least or (least and not value.strip()):
        raise Invalid.at(path, "must not be empty")
    if "\0" in value:
        raise Invalid.at(path, "must not contain a NUL character")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise Invalid.at(path, "must not contain a lone surrogate")
    return value


def parse_texts(value: object, path: str, *, most: int = 50) -> tuple[str, ...]:
    """A list of short texts, each once, in the order given."""
    if not isinstance(value, list | tuple):
        raise Invalid.at(path, "must be a list of strings")
    if len(value) > most:
        raise Invalid.at(path, f"has {len(value)} entries; at most {most}")
    texts = [parse_text(item, f"{path}[{index}]", most=200) for index, item in enumerate(value)]
    return tuple(dict.fromkeys(texts))


def encode_json(value: object, path: str, *, limit: int = PARAMETERS_LIMIT) -> str:
    """``value`` as JSON text, refused when it is too deep, too large, or not JSON."""
    try:
        encoded = msgspec.json.encode(value)
    except RecursionError:
        raise Invalid.at(path, "is nested too deeply") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid.at(path, f"is not JSON: {error}") from None
    if len(encoded) > limit:
        raise TooLarge(f"{path}: {len(encoded):,} bytes of JSON; at most {limit:,}")
    # Only what has many brackets can be deep.
    if encoded.count(b"{") + encoded.count(b"[") > NESTING_LIMIT:
        _refuse_deep(encoded, path)
    # The encoder writes NaN and the infinities as null: look closer only where a null stands.
    if b"null" in encoded:
        _refuse_non_finite(value, path)
    return encoded.decode()


def _refuse_deep(encoded: bytes, path: str) -> None:
    try:
        level = [msgspec.json.decode(encoded)]
    except RecursionError:
        raise Invalid.at(path, "is nested too deeply") from None
    for _ in range(NESTING_LIMIT):
        level = [part for item in level for part in _parts(item)]
    if any(isinstance(item, dict | list) for item in level):
        raise Invalid.at(path, f"is nested too deeply; at most {NESTING_LIMIT} levels")


def _parts(item: object) -> Iterable[object]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()


def _refuse_non_finite(value: object, path: str) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            pending.extend(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise Invalid.at(path, f"contains {item}, which JSON cannot carry")


def parse_number(value: object, path: str, *, least: int, most: int) -> int:
    """A whole number within bounds; true and false are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid.at(path, "must be a whole number")
    if not least <= value <= most:
        raise Invalid.at(path, f"must be within {least}–{most}")
    return value


def parse_choice(value: object, path: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise Invalid.at(path, f"must be one of {', '.join(choices)}")
    return value
