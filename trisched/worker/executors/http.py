"""Executes HTTP jobs: one request per attempt, and the answer as the run's result."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

import trio

from trisched.clock import Clock
from trisched.domain.target import Targets
from trisched.worker.executors import Call, Ended

if TYPE_CHECKING:
    from trisched.worker.executors.http_client import Client

_CLIENT: Final = "trisched.worker.executors.http_client"


class Http:
    """Sends requests over connections that the attempts of this node share."""

    def __init__(self, targets: Targets, *, clock: Clock, connections: int) -> None:
        self._targets, self._clock, self._connections = targets, clock, connections
        self._opening = trio.Lock()
        self._client: Client | None = None

    async def execute(self, call: Call) -> Ended:
        assert call.request is not None
        client = self._client or await self._open()
        return await client.attempt(call, call.request, self._clock.now_us())

    async def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> Client:
        async with self._opening:
            if self._client is None:
                # It costs a tenth of a second to import: nodes without HTTP jobs do not pay, others go on meanwhile.
                module = await trio.to_thread.run_sync(importlib.import_module, _CLIENT)
                self._client = module.Client(self._targets, self._connections)
            assert self._client is not None
            return self._client
