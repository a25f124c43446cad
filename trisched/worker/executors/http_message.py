"""The messages of HTTP jobs: made of templates for each attempt, and made anew where an answer points elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import attrs
import httpx
import msgspec

from trisched.domain.duration import format_instant
from trisched.domain.request import Request, breaks_header, why_no_url
from trisched.domain.template import CannotFill, Filling, fill, fill_json, parts_of, secrets_in
from trisched.version import __version__
from trisched.worker.executors import Call

#: Of the job's own headers, only these go on to another host.
_HARMLESS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})


class RedirectRefused(Exception):
    """The answer points to where the request may not go on; the text says why."""


@attrs.frozen(kw_only=True)
class Message:
    """A request as it goes out."""

    method: str
    url: httpx.URL = attrs.field(repr=False)
    #: The address for people, without its secrets.
    shown: str
    #: What trisched sends, and what the job sends; names in lower case, the latter counts.
    ours: Mapping[str, str]
    headers: Mapping[str, str] = attrs.field(repr=False)
    content: bytes | None = attrs.field(repr=False)
    #: Whether the content must not be shown to another host.
    secret_content: bool

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """All headers, as they are sent."""
        headers = {"host": self.url.netloc.decode("ascii"), **self.ours, **self.headers}
        if self.content is not None or self.method in ("POST", "PUT", "PATCH"):
            headers["content-length"] = str(len(self.content or b""))
        return [(name.encode("ascii"), text.encode()) for name, text in headers.items()]


def prepare(call: Call, request: Request) -> Message:
    """The first message of an attempt; CannotFill if this run's values do not fit."""
    filling = Filling(
        values={
            "run_id": call.run_id,
            "job": call.job_name,
            "slot": None if call.slot_at is None else format_instant(call.slot_at),
            "attempt": call.attempt,
            "token": call.token,
            "idempotency_key": call.idempotency_key,
            "parameters": call.parameters,
            "results": call.results,
        },
        secrets=call.secrets,
    )
    content = _content(request, filling)
    return Message(
        method=request.method,
        url=_url(request.url, filling),
        shown=_shown(request.url, filling),
        ours=_our_headers(call, request, content),
        headers={name.lower(): _header(name, text, filling) for name, text in request.headers.items()},
        content=content,
        secret_content=any(secrets_in(request.json or request.body or "")),
    )


def _shown(text: str, filling: Filling) -> str:
    # Masking could miss one here: an address is sent in a form that may differ from how the secret is written.
    hidden = attrs.evolve(filling, secrets=dict.fromkeys(filling.secrets, "***"))
    return fill(text, hidden, str if _is_whole(text) else lambda value: quote(value, safe="*"))


def _is_whole(text: str) -> bool:
    parts = parts_of(text)
    return len(parts) == 1 and not isinstance(parts[0], str)


def _url(text: str, filling: Filling) -> httpx.URL:
    filled = fill(text, filling, str if _is_whole(text) else lambda value: quote(value, safe=""))
    reason = why_no_url(filled)
    if reason is None:
        try:
            return httpx.URL(filled)
        except httpx.InvalidURL:
            reason = "is not an address"
    raise CannotFill(f"request.url {reason}")


def _header(name: str, text: str, filling: Filling) -> str:
    value = fill(text, filling)
    if breaks_header(value):
        raise CannotFill(f"request.headers.{name}: what was filled in has a line break or control character")
    # Blanks around a value are no part of it.
    return value.strip()


def _content(request: Request, filling: Filling) -> bytes | None:
    if request.json is not None:
        return msgspec.json.encode(fill_json(msgspec.json.decode(request.json), filling))
    return None if request.body is None else fill(request.body, filling).encode()


def _our_headers(call: Call, request: Request, content: bytes | None) -> dict[str, str]:
    key = call.idempotency_key
    headers = {
        "user-agent": f"trisched/{__version__}",
        "accept": "*/*",
        # What is kept is small: unpacking is not worth its dangers.
        "accept-encoding": "identity",
        "idempotency-key": key if key.isascii() else quote(key),
        "x-trisched-run": call.run_id,
        "x-trisched-attempt": str(call.attempt),
        "x-trisched-token": str(call.token),
    }
    if content is not None:
        headers["content-type"] = "application/json" if request.json is not None else "text/plain; charset=utf-8"
    return headers


def redirected(message: Message, status: int, location: str) -> Message:
    """The next message: to another host it takes no header of the job's own, and no secret."""
    try:
        url = message.url.join(location)
    except (httpx.InvalidURL, ValueError):
        raise RedirectRefused("the server redirects to something that is not an address") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise RedirectRefused(f"the server redirects to {url.scheme or 'an address without scheme'}, not http or https")
    method, content, headers, ours = message.method, message.content, message.headers, message.ours
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, content = "GET", None
        headers = {name: text for name, text in headers.items() if not name.startswith("content-")}
        ours = {name: text for name, text in ours.items() if name != "content-type"}
    if not _is_same_site(message.url, url):
        if content is not None and message.secret_content:
            raise RedirectRefused(f"the server redirects to {url.host}; a request with secrets does not go on there")
        headers = {name: text for name, text in headers.items() if name in _HARMLESS}
    return attrs.evolve(message, method=method, url=url, headers=headers, ours=ours, content=content)


def _is_same_site(one: httpx.URL, other: httpx.URL) -> bool:
    if one.host != other.host:
        return False
    ports = _port(one), _port(other)
    upgraded = (one.scheme, other.scheme) == ("http", "https") and ports == (80, 443)
    return upgraded or (one.scheme == other.scheme and ports[0] == ports[1])


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
