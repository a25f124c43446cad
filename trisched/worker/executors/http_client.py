"""Sends the requests of HTTP jobs over a bounded pool of connections, and says how the attempts ended."""

from __future__ import annotations

import ssl
from typing import Final

import certifi
import httpcore
import trio

from trisched.domain.request import Request
from trisched.domain.target import Targets
from trisched.domain.template import CannotFill
from trisched.worker.executors import Call, Ended, Failure
from trisched.worker.executors.http_answer import Answer, Body, ended
from trisched.worker.executors.http_message import Message, RedirectRefused, prepare, redirected
from trisched.worker.executors.http_network import CheckedNetwork, NameUnknown, TargetRefused
from trisched.worker.lines import decode, size_text

_IDLE: Final = 20
#: Below what servers keep idle connections for, so that none is closed under a request.
_IDLE_SECONDS: Final = 4.0
#: Where the library has none.
_WORDS: Final = {
    "ReadTimeout": "the server was silent for too long",
    "WriteTimeout": "the server took nothing for too long",
    "ConnectTimeout": "no secure connection in time",
}
#: How much of an answer that was not expected is shown in the output.
_SHOWN: Final = 2000


class TooManyRedirects(Exception):
    """The answers point on and on."""


class Client:
    """The connections of one node."""

    def __init__(self, targets: Targets, connections: int) -> None:
        trust = ssl.create_default_context(cafile=certifi.where())
        # Beside the well-known authorities, those that the machine's owner trusts.
        trust.load_default_certs()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trust,
            max_connections=connections,
            max_keepalive_connections=min(_IDLE, connections),
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=CheckedNetwork(targets),
        )

    async def close(self) -> None:
        """Closes every connection."""
        await self._pool.aclose()

    async def attempt(self, call: Call, request: Request, now: int) -> Ended:
        """Sends the request of one attempt and judges the answer."""
        try:
            message = prepare(call, request)
            began = trio.current_time()
            answer = await self._exchange(message, request)
        except CannotFill as error:
            # Neither the parameters nor the results of others change between two attempts.
            return Ended(completed=False, error=Failure("Template", str(error)), fatal=True)
        except (TargetRefused, RedirectRefused) as error:
            kind = "TargetNotAllowed" if isinstance(error, TargetRefused) else "RedirectRefused"
            return Ended(completed=False, error=Failure(kind, str(error)), fatal=True)
        except (NameUnknown, TooManyRedirects) as error:
            return Ended(completed=False, error=Failure(type(error).__name__, str(error)))
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Ended(completed=False, error=_failure(error))
        _tell(call, message, answer, trio.current_time() - began)
        ending = ended(request, answer, now)
        if not ending.completed and answer.body:
            call.output.write("log", decode(answer.body[:_SHOWN]).encode() + b"\n")
        return ending

    async def _exchange(self, message: Message, request: Request) -> Answer:
        """The answer to a request, after the redirects that it leads to."""
        for _ in range(request.max_redirects + 1):
            answer = await self._send(message, request)
            location = answer.headers.get("location")
            if location is None or not request.follows(answer.status):
                return answer
            message = redirected(message, answer.status, location)
        raise TooManyRedirects(f"more than {request.max_redirects} redirects")

    async def _send(self, message: Message, request: Request) -> Answer:
        url, silence = message.url, request.read_timeout
        async with self._pool.stream(
            message.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=message.raw_headers(),
            content=message.content,
            extensions={"timeout": {"connect": request.connect_timeout, "read": silence, "write": silence}},
        ) as response:
            headers = _joined(response.headers)
            body = Body(request.max_response, headers.get("content-encoding", ""))
            if not (request.follows(response.status) and "location" in headers):
                await _read(response, body)
            return Answer(status=response.status, headers=headers, body=bytes(body.data), truncated=body.truncated)


async def _read(response: httpcore.Response, body: Body) -> None:
    """Reads until the end or the cap.

    At the cap the connection is closed and the reading goes on into its error: left half-way, the generators below
    would be ended by the garbage collector at some time.
    """
    try:
        async for chunk in response.aiter_stream():
            if not body.add(chunk):
                await response.extensions["network_stream"].aclose()
    except (httpcore.NetworkError, httpcore.ProtocolError):
        if not body.truncated:
            raise


def _tell(call: Call, message: Message, answer: Answer, seconds: float) -> None:
    cut = ", cut here" if answer.truncated else ""
    size = size_text(len(answer.body))
    line = f"{message.method} {message.shown} → {answer.words} ({size}{cut}) in {seconds:.3f} s\n"
    call.output.write("log", line.encode())


def _joined(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_text in headers:
        name, text = raw_name.decode("latin-1").lower(), raw_text.decode("utf-8", "replace")
        joined[name] = f"{joined[name]}, {text}" if name in joined else text
    return joined


def _failure(error: Exception) -> Failure:
    """What went wrong in the network; the reason is often far down the chain."""
    kind = type(error).__name__
    text = str(error) or _WORDS.get(kind, "")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            detail = getattr(cause, "verify_message", "") or cause.reason or "the handshake failed"
            return Failure("TlsError", f"no secure connection: {detail}")
        if isinstance(cause, OSError) and cause.strerror:
            return Failure(kind, f"{text}: {cause.strerror}" if text else cause.strerror)
        text = text or str(cause)
        inner = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = inner or cause.__cause__ or cause.__context__
    return Failure(kind, text or kind)
