"""Between the server and the framework: paths that keep their slashes apart, and bodies that are heard to the end."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import unquote

import trio
from werkzeug.routing import BaseConverter

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

#: How long a client may go on sending after its request was refused.
_HEARING: Final = 10.0
_KEPT: Final = re.compile("%(2F|25)", re.IGNORECASE)


class Segment(BaseConverter):
    """One part of a path, whatever it contains: a name may have a slash in it."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return _KEPT.sub(lambda match: unquote(match[0]), value)


def wrapped(app: App) -> App:
    """``app`` behind both."""

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        hearing = _Hearing(receive, send)
        await app({**scope, "path": _path(scope["raw_path"])}, hearing.receive, hearing.send)

    return serve


def _path(raw: bytes) -> str:
    """The path decoded, but for slashes and percent signs inside a segment, which ``Segment`` decodes."""
    return unquote(_KEPT.sub(lambda match: "%25" + match[1].upper(), raw.decode("latin-1")))


class _Hearing:
    """Holds the answer back until the body is in, or long enough was waited for it.

    A client that is still sending does not read. The framework goes on taking what comes, and drops what is beyond
    its limit; were the answer sent at once, both sides would wait for each other.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._heard = trio.Event()

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._heard.set()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self._heard.is_set():
            with trio.move_on_after(_HEARING):
                await self._heard.wait()
        await self._send(message)
