"""Requests of HTTP jobs: every rule on their fields, and what an answer means for the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import msgspec

from trisched.domain.duration import parse_duration
from trisched.domain.template import check_template, parts_of
from trisched.domain.text import encode_json, parse_choice, parse_number, parse_text
from trisched.errors import FieldError, Invalid

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BODY_LIMIT: Final = 1 << 20
_URL_LIMIT: Final = 8192
_HEADER_LIMIT: Final = 8192
_MOST_HEADERS: Final = 100
#: What is kept of an answer, at most: with every character escaped it still fits into a result.
_MOST_RESPONSE: Final = 160 << 10
_HOUR: Final = 3600.0
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CODES = re.compile(r"([1-5])xx|([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")
#: Headers that describe the message itself; who could set them could smuggle a second one.
_FRAMING: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_OURS: Final = {"idempotency-key": "it is the key of the run"}
#: Answers of "not now": the request was fine.
_LATER: Final = frozenset({408, 425, 429})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen(kw_only=True)
class Request:
    """What an HTTP job sends, and what it takes for an answer."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    #: JSON text; None: the body, if any, is ``body``.
    json: str | None = None
    body: str | None = None
    #: The codes that complete the run: "2xx", "404", "200-204".
    expect: tuple[str, ...] = ("2xx",)
    connect_timeout: float = 10.0
    #: The longest silence of the server.
    read_timeout: float = 60.0
    max_redirects: int = 5
    #: Bytes of the answer that are read and kept.
    max_response: int = 64 << 10

    def expects(self, status: int) -> bool:
        """Whether an answer with this status completes the run."""
        return any(low <= status <= high for low, high in map(_range, self.expect))

    def follows(self, status: int) -> bool:
        """Whether an answer with this status is followed to where it points."""
        return self.max_redirects > 0 and status in _REDIRECTS and not self.expects(status)


def will_not_improve(status: int) -> bool:
    """Whether asking again is pointless: the request itself was refused."""
    return 400 <= status < 500 and status not in _LATER


def retry_after(value: str, now: int) -> float | None:
    """The seconds that a ``Retry-After`` asks for, an hour at most; None if it says nothing."""
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), _HOUR)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    # "-0000" is read as a time without a zone; HTTP knows no other zone than UTC.
    wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - (_EPOCH + timedelta(microseconds=now))
    return min(max(wait.total_seconds(), 0.0), _HOUR)


def _range(codes: str) -> tuple[int, int]:
    found = _CODES.fullmatch(codes)
    assert found is not None
    if found[1]:
        return int(found[1]) * 100, int(found[1]) * 100 + 99
    return int(found[2]), int(found[3] or found[2])


def parse_request(value: object, path: str = "request") -> Request:
    """The request that an object of fields describes; every broken rule is reported at once."""
    if not isinstance(value, Mapping):
        raise Invalid.at(path, f"must be an object with {', '.join(_PARSERS)}")
    errors = [
        FieldError(f"{path}.{name}", f"is not a field of a request; there are {', '.join(_PARSERS)}")
        for name in value
        if name not in _PARSERS
    ]
    parsed: dict[str, Any] = {}
    for name, parser in _PARSERS.items():
        if value.get(name) is None:
            continue
        try:
            parsed[name] = parser(value[name], f"{path}.{name}")
        except Invalid as error:
            errors += error.errors
    if value.get("url") is None:
        errors.append(FieldError(f"{path}.url", "is required"))
    if value.get("json") is not None and value.get("body") is not None:
        errors.append(FieldError(f"{path}.body", "json and body exclude each other; remove one"))
    if errors:
        raise Invalid(errors)
    if "method" not in parsed and ("json" in parsed or "body" in parsed):
        parsed["method"] = "POST"
    return Request(**parsed)


def request_fields(request: Request) -> dict[str, object]:
    """JSON values from which :func:`parse_request` makes the same request again."""
    fields = {name: getattr(request, name) for name in _PARSERS if getattr(request, name) is not None}
    fields["headers"] = dict(request.headers)
    fields["expect"] = [int(codes) if codes.isdecimal() else codes for codes in request.expect]
    if request.json is not None:
        fields["json"] = msgspec.json.decode(request.json)
    return fields


def _method(value: object, path: str) -> str:
    return parse_choice(value.upper() if isinstance(value, str) else value, path, METHODS)


def _url(value: object, path: str) -> str:
    url = parse_text(value, path, most=_URL_LIMIT)
    check_template(url, path)
    parts = parts_of(url)
    if len(parts) == 1 and not isinstance(parts[0], str):
        # The whole address is filled in, and checked then.
        return url
    # A digit can stand in every part of an address.
    reason = why_no_url("".join(part if isinstance(part, str) else "1" for part in parts))
    if reason is not None:
        raise Invalid.at(path, reason)
    return url


def why_no_url(url: str) -> str | None:
    """What is wrong with an address, without repeating it: it may hold a secret. None if it is sound."""
    if any(char.isspace() or char == "\\" or _CONTROL.match(char) for char in url):
        return "must not contain blanks, line breaks, control characters or backslashes; percent-encode them"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not an address such as https://example.com/path"
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if "@" in parts.netloc:
        return "must not contain a user or password; send an Authorization header with ${secret:NAME} instead"
    if not host or port == 0:
        return "is not an address such as https://example.com/path"
    return None


def _headers(value: object, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Invalid.at(path, "must be an object of strings")
    if len(value) > _MOST_HEADERS:
        raise Invalid.at(path, f"has {len(value)} headers; at most {_MOST_HEADERS}")
    errors: list[FieldError] = []
    seen: set[str] = set()
    for name, text in value.items():
        reason = "is given twice" if str(name).lower() in seen else _why_no_header(name)
        seen.add(str(name).lower())
        if reason is not None:
            errors.append(FieldError(f"{path}.{name}", reason))
            continue
        try:
            check_template(parse_text(text, f"{path}.{name}", least=0, most=_HEADER_LIMIT), f"{path}.{name}")
        except Invalid as error:
            errors += error.errors
            continue
        if breaks_header(text):
            errors.append(FieldError(f"{path}.{name}", "must not contain line breaks or control characters"))
    if errors:
        raise Invalid(errors)
    return dict(value)


def _why_no_header(name: object) -> str | None:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        return "is not a name of a header: letters, digits and -, without blanks"
    low = name.lower()
    if low in _FRAMING or low.startswith("proxy-"):
        return "is set by trisched, from the url and the body"
    if low in _OURS or low.startswith("x-trisched-"):
        return f"is set by trisched{': ' + _OURS[low] if low in _OURS else ''}"
    return None


def breaks_header(text: str) -> bool:
    """Whether ``text`` would end a header, or the message, before its time."""
    return _CONTROL.search(text) is not None


def _json(value: object, path: str) -> str:
    text = encode_json(value, path, limit=BODY_LIMIT)
    pending: list[tuple[object, str]] = [(value, path)]
    while pending:
        item, place = pending.pop()
        if isinstance(item, str):
            check_template(item, place)
        elif isinstance(item, Mapping):
            pending += [(part, f"{place}.{name}") for name, part in item.items()]
        elif isinstance(item, list | tuple):
            pending += [(part, f"{place}[{index}]") for index, part in enumerate(item)]
    return text


def _body(value: object, path: str) -> str:
    body = parse_text(value, path, least=0, most=BODY_LIMIT)
    check_template(body, path)
    return body


def _expect(value: object, path: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    texts = [str(item) if not isinstance(item, bool) else "" for item in items]
    for text in texts:
        found = _CODES.fullmatch(text)
        if found is None or (found[3] and found[3] < found[2]):
            raise Invalid.at(path, "must be a status such as 200, a range such as 2xx or 200-204, or a list of these")
    if not 0 < len(texts) <= 50:
        raise Invalid.at(path, "must name at least one status, and 50 at most")
    return tuple(dict.fromkeys(texts))


def _wait(value: object, path: str) -> float:
    return parse_duration(value, path, least=0.001, most=24 * _HOUR)


_PARSERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "method": _method,
    "url": _url,
    "headers": _headers,
    "json": _json,
    "body": _body,
    "expect": _expect,
    "connect_timeout": _wait,
    "read_timeout": _wait,
    "max_redirects": lambda value, path: parse_number(value, path, least=0, most=20),
    "max_response": lambda value, path: parse_number(value, path, least=0, most=_MOST_RESPONSE),
}
REQUEST_FIELDS: Final = tuple(_PARSERS)
