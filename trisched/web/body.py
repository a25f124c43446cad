"""Reading the body of a request: sizes, media types, and JSON of every kind of strangeness."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from quart import Request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from trisched.errors import FieldError, Invalid, TooLarge, Unreadable
from trisched.web.guard import FORM, JSON, takes_form

MEBIBYTE: Final = 1024 * 1024
LIMIT: Final = 2 * MEBIBYTE
BATCH_LIMIT: Final = 16 * MEBIBYTE


async def read_object(request: Request, *, limit: int, required: bool) -> dict[str, Any]:
    """The JSON object in the body; ``{}`` for no body where none is required."""
    data = await _read(request, limit)
    if not data and not required:
        return {}
    if request.mimetype == JSON:
        value = decode(data)
    elif request.mimetype == FORM and takes_form(request.headers):
        value = _decode_form(data)
    else:
        raise UnsupportedMediaType(f"send the body as {JSON}")
    if not isinstance(value, dict):
        raise Invalid.at("", "the body must be a JSON object")
    return value


async def _read(request: Request, limit: int) -> bytes:
    try:
        data: bytes = await request.get_data(cache=True, as_text=False, parse_form_data=False)
    except RequestEntityTooLarge:
        raise _too_large(limit) from None
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit // MEBIBYTE} MiB")


def decode(data: bytes) -> object:
    """The JSON value in ``data``; Unreadable if it is no JSON, Invalid if it goes beyond every measure."""
    if not data.strip():
        raise Unreadable("the body is empty; send a JSON object")
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise Invalid.at("", "the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _decode_strange(data, str(error))


def _decode_strange(data: bytes, reason: str) -> object:
    """JSON that is well-formed and yet beyond our parser: 1e999, lone surrogates. The fields' own checks name them."""
    try:
        # Decoded here: given bytes, it would take UTF-16 and a byte order mark as well.
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise Invalid.at("", "the body is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise Unreadable(f"the body is not JSON: {reason}") from None
    except ValueError as error:
        # A number of more digits than Python converts.
        raise Invalid.at("", f"the body has a number that is too long: {error}") from None


def _refuse_constant(word: str) -> object:
    raise Unreadable(f"the body is not JSON: {word} is no JSON value")


def _decode_form(data: bytes) -> object:
    try:
        value = decode(data)
    except Unreadable:
        value = None
    if not isinstance(value, dict):
        raise UnsupportedMediaType(f"send the body as {JSON}; forms are not accepted")
    return value


def only(fields: Mapping[str, Any], names: Collection[str], path: str = "") -> Mapping[str, Any]:
    """``fields``, if it has no others than ``names``."""
    unknown = [name for name in fields if name not in names]
    if unknown:
        takes = ", ".join(names)
        raise Invalid(FieldError(path + name, f"is not a field of this request; it takes {takes}") for name in unknown)
    return fields
