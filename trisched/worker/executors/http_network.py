"""The network of HTTP jobs: a name is resolved once, its addresses are checked, and a checked one is connected to."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final

import httpcore
import trio

from trisched.domain.target import Targets, parse_address

#: An address that does not answer gets company after this long (RFC 8305).
_HEAD_START: Final = 0.25
#: Resolving blocks a thread; a name server that hangs must not take all threads of the node.
_MOST_RESOLVING: Final = 20


class TargetRefused(Exception):
    """The address may not be reached; the text says why and how to allow it."""


class NameUnknown(Exception):
    """The name has no address, as far as the name servers say."""


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to what ``targets`` lets it. TLS and the Host header go by the name: this happens below them."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._plain = httpcore.TrioBackend()
        self._resolving = trio.CapacityLimiter(_MOST_RESOLVING)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the pool asks for none
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that answers, among those that are allowed."""
        try:
            with trio.fail_after(float("inf") if timeout is None else timeout):
                addresses = self._allowed(host, port, await self._resolve(host, port))
                return await self._race(addresses, port)
        except trio.TooSlowError:
            raise httpcore.ConnectTimeout(f"no connection to {host} after {timeout:g} s") from None

    async def _resolve(self, host: str, port: int) -> list[str]:
        if f".{host.lower().rstrip('.')}".endswith(".localhost"):
            # This machine by definition (RFC 6761), whatever a name server says.
            return ["127.0.0.1", "::1"]
        try:
            found: Sequence[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            await trio.lowlevel.checkpoint()
        except OSError:
            found = await self._ask(host, port)
        # The resolver reads 127.1 and 2130706433 as addresses too: what counts is what it answers.
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def _ask(self, host: str, port: int) -> Sequence[Any]:
        def ask() -> Sequence[Any]:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

        try:
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._resolving)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise NameUnknown(f"the name {host} cannot be resolved: {reason}") from None

    def _allowed(self, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        if self._targets.trusts(host, port):
            return list(addresses)
        refusals = {address: self._targets.refusal(parse_address(address), port) for address in addresses}
        allowed = [address for address, kind in refusals.items() if kind is None]
        if not allowed:
            address, kind = next(iter(refusals.items()))
            shown = address if address == host else f"{host} is {address}, which"
            raise TargetRefused(f"target not allowed: {shown} is {kind}; allow it with [http] allow")
        return allowed

    async def _race(self, addresses: Sequence[str], port: int) -> httpcore.AsyncNetworkStream:
        """Tries one address after the other, each with a head start before the next joins in."""
        winners: list[httpcore.AsyncNetworkStream] = []
        errors: list[httpcore.ConnectError] = []

        async def try_one(address: str, failed: trio.Event) -> None:
            try:
                stream = await self._plain.connect_tcp(address, port)
            except httpcore.ConnectError as error:
                errors.append(error)
                failed.set()
                return
            winners.append(stream)
            nursery.cancel_scope.cancel()

        try:
            async with trio.open_nursery() as nursery:
                for address in addresses:
                    failed = trio.Event()
                    nursery.start_soon(try_one, address, failed)
                    with trio.move_on_after(_HEAD_START):
                        await failed.wait()
        except BaseException:
            await _close(winners)
            raise
        await _close(winners[1:])
        if winners:
            return winners[0]
        raise errors[0]


async def _close(streams: Sequence[httpcore.AsyncNetworkStream]) -> None:
    with trio.CancelScope(shield=True):
        for stream in streams:
            await stream.aclose()
