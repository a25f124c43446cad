"""Who may ask: refuses requests that a foreign web page could have made a browser send.

- ``Host`` must be a name of this node, so that no foreign name that resolves to this address gets through (421).
- An unsafe request must come from a page of this node, or from no page at all: ``Origin`` is this host, and
  ``Sec-Fetch-Site`` is ``same-origin`` or ``none``, where they are sent (403).
- A body must be ``application/json``, which no foreign page can send without asking first (415). One exception:
  ``curl -d`` calls every body ``application/x-www-form-urlencoded``. A client that is evidently no browser may send
  a JSON object under that name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from quart import Response
from werkzeug.datastructures import Headers

from trisched.web.problem import problem

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
#: Every browser sends one of these with a request that a page makes.
_BROWSER_HEADERS: Final = ("Origin", "Cookie", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest")
_SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The checks, for the names that this node goes by."""

    def __init__(self, bind: str, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in (*_LOOPBACK, bind, *names)}
        # Where all addresses are served, any of them may be named; an address cannot be rebound like a name.
        self._any_address = bind in _WILDCARDS

    def refuse(self, method: str, headers: Headers) -> Response | None:
        """The answer to a request that is not let in; None for the others."""
        host = headers.get("Host", "")
        if not self._is_ours(host):
            return problem(
                421, "Misdirected request", f"this node does not go by the name {_name(host)!r}; use localhost"
            )
        if method in SAFE_METHODS:
            return None
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if (origin is not None and not _same_host(origin, host)) or site not in (None, "same-origin", "none"):
            return problem(403, "Forbidden", "a page of another site asked for this; it must come from this node's own")
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        return name in self._names or (self._any_address and _is_address(name))


def takes_form(headers: Headers) -> bool:
    """Whether a body that is called a form may be read as JSON: only of clients that are no browsers."""
    return not any(name in headers for name in _BROWSER_HEADERS)


def add_security(response: Response) -> Response:
    """The headers that every answer has."""
    for name, value in _SECURITY.items():
        response.headers.setdefault(name, value)
    return response


def _name(host: str) -> str:
    """The name in ``name:port``, without the brackets of an IPv6 address; empty where there is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if host.isascii() else ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_host(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == host.lower()
