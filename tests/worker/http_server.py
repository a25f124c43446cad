"""Servers for HTTP jobs to talk to: plain sockets, so that they can misbehave in every way."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import msgspec
import trio


@attrs.define
class Received:
    """A request as the server got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return msgspec.json.decode(self.body)


Handler = Callable[[trio.abc.Stream, Received], Awaitable[None]]


def answer(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer."""
    sent = {"Content-Length": str(len(body)), **{name.replace("_", "-"): text for name, text in headers.items()}}
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {text}" for name, text in sent.items() if text), "", ""]
    return "\r\n".join(lines).encode() + body


@attrs.define
class Server:
    """A server at work; ``replies`` are sent in turn, the last one for ever."""

    port: int = 0
    replies: list[bytes | Handler] = attrs.field(factory=lambda: [answer()])
    received: list[Received] = attrs.field(factory=list)
    connections: int = 0
    host: str = "127.0.0.1"
    scheme: str = "http"

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.host}:{self.port}{path}"

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        try:
            async with stream:
                while (request := await _read(stream)) is not None:
                    self.received.append(request)
                    reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                    if isinstance(reply, bytes):
                        await stream.send_all(reply)
                    else:
                        await reply(stream, request)
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


async def _read(stream: trio.abc.Stream) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = await stream.receive_some(65_536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive_some(65_536)
    method, target, _ = first.split(" ")
    return Received(method, target, headers, body)


@asynccontextmanager
async def serving(*replies: bytes | Handler, host: str = "127.0.0.1", tls: Path | None = None) -> AsyncIterator[Server]:
    """A server on a free port while the block lasts."""
    server = Server(replies=list(replies) or [answer()], host="localhost" if tls else host)
    listeners: list[trio.abc.Listener[trio.abc.Stream]] = [*await trio.open_tcp_listeners(0, host=host)]
    listener = listeners[0]
    assert isinstance(listener, trio.SocketListener)
    server.port = listener.socket.getsockname()[1]
    if tls is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tls)
        server.scheme = "https"
        listeners = [trio.SSLListener(listener, context)]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, server.serve, listeners))
        yield server
        nursery.cancel_scope.cancel()


def make_certificate(directory: Path, name: str = "localhost") -> Path:
    """A key and a certificate that nobody signed, in one file."""
    path = directory / "tls.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    made = subprocess.run(
        [*command, "-addext", f"subjectAltName=DNS:{name}", "-keyout", "-", "-out", "-"],
        capture_output=True, check=True,
    )  # fmt: skip
    path.write_bytes(made.stdout)
    return path
