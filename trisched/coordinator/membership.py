"""This node among the others: it registers, beats, and knows how long it may act without an answer.

    ask (t0) ───────▶ database grants now + L          others take over at lease end + G
        └── trusted until t0 + (L − M)(1 − ρ) ──┘
             at that moment everything that runs here is stopped, before the lease can end

The deadline is counted on Trio's monotonic clock from before the request left: the grant came later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import trio

from trisched.clock import Ids
from trisched.domain.node import LeaseTimes, Node
from trisched.errors import Misconfigured, StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import node as node_table
from trisched.storage.tables.node import Registration

log = logging.getLogger(__name__)
_FORGET_US = 7 * 86_400 * 1_000_000


class Superseded(Misconfigured):
    """Another process took over this node's row: this one must stop at once."""


class Membership:
    """The node's row and the lease in it."""

    def __init__(
        self,
        database: Database,
        node: Registration,
        times: LeaseTimes,
        *,
        ids: Ids,
        fence: Callable[[], None],
        alive: Callable[[int], bool],
        renewed: Callable[[float], None] = lambda _: None,
        only_one: bool = False,
    ) -> None:
        self._database, self._node, self._times, self._ids = database, node, times, ids
        self._fence, self._renewed, self._only_one = fence, renewed, only_one
        self._alive = alive
        self._lease_us = int(times.node * 1_000_000)
        self._nonces: list[str] = []
        self._renewal = trio.Event()
        #: Until when, on Trio's clock, this node may act.
        self.deadline = float("-inf")
        #: Since when, on Trio's clock, every request was answered; None while none is.
        self._contact_since: float | None = None

    def lease_ok(self) -> bool:
        """Whether this node may act right now."""
        return trio.current_time() < self.deadline

    def quiet(self) -> bool:
        """Whether this node was in touch for less than a lease, so that it must not call others dead."""
        if self._only_one:
            return False
        return self._contact_since is None or trio.current_time() < self._contact_since + self._times.node

    async def register(self) -> None:
        """Takes the node's row, or says who has it.

        A row whose process is gone from this host is taken at once. Else the holder is watched: if it beats it
        lives, and this process must not; if it does not, its lease ends soon.
        """
        first = await self._holder()
        dead = self._dead(first)
        give_up = trio.current_time() + self._times.node + 2 * self._times.beat
        while not await self._take(dead):
            holder = await self._holder()
            if holder is None:
                continue
            if first is None or holder.last_seen_at != first.last_seen_at or trio.current_time() > give_up:
                raise Misconfigured(
                    f"a node {self._node.id!r} is alive already (host {holder.host}, pid {holder.pid}); "
                    "choose another --node-id"
                )
            await trio.sleep(self._times.beat / 6)

    async def _holder(self) -> Node | None:
        return await self._database.control(partial(node_table.find, node_id=self._node.id))

    def _dead(self, holder: Node | None) -> str | None:
        """The incarnation of a holder that ran on this host and is gone."""
        if holder is None or holder.host != self._node.host or holder.pid == self._node.pid:
            return None
        return None if self._alive(holder.pid) else holder.incarnation

    async def _take(self, dead: str | None) -> bool:
        asked, nonce = trio.current_time(), self._ids.token()

        def work(tx: Tx) -> bool:
            node_table.forget(tx, _FORGET_US)
            if self._only_one:
                node_table.expire_others(tx, self._node.incarnation)
            return node_table.register(tx, self._node, nonce=nonce, lease_us=self._lease_us, dead=dead)

        taken = await self._database.control(work)
        if taken:
            self._granted(asked, nonce)
        return taken

    async def run(self) -> None:
        """Beats until it is cancelled; fences when no answer comes in time."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_deadline)
            while True:
                await trio.sleep(self._times.beat)
                await self._beat()

    async def drain(self) -> None:
        """Shows to the others that this node takes no more work."""
        try:
            await self._database.control(partial(node_table.drain, node_id=self._node.id))
        except StoreError:
            log.warning("the others could not be told that this node stops")

    async def leave(self) -> None:
        """Gives the lease up, so that others need not wait for its end."""
        with trio.move_on_after(3, shield=True):
            try:
                await self._database.control(
                    partial(node_table.leave, node_id=self._node.id, incarnation=self._node.incarnation)
                )
            except StoreError:
                log.warning("the node could not say goodbye; others notice when its lease ends")

    async def _beat(self) -> None:
        asked, nonce = trio.current_time(), self._ids.token()
        nonces = list(self._nonces)
        self._nonces.append(nonce)

        def work(tx: Tx) -> tuple[bool, bool]:
            node_id, incarnation = self._node.id, self._node.incarnation
            lapsed = node_table.lapsed(tx, node_id, incarnation)
            return lapsed, node_table.beat(
                tx, node_id, incarnation, nonce=nonce, nonces=nonces, lease_us=self._lease_us
            )

        try:
            lapsed, renewed = await self._database.control(work)
            if not renewed:
                self._fence()
                raise Superseded(f"another process is node {self._node.id!r} now")
            if lapsed:
                self._woke_late()
        except StoreError as error:
            log.warning("the node's lease could not be renewed", extra={"error": str(error)})
            self._contact_since = None
        else:
            self._granted(asked, nonce)

    def _woke_late(self) -> None:
        """The lease ran out unnoticed by Trio's clock (the host slept, a clock was set): others may have acted."""
        self._contact_since = None
        if self.lease_ok() and not self._only_one:
            log.error("the lease of this node ran out unnoticed; all attempts of this node are stopped")
            self._fence()

    def _granted(self, asked: float, nonce: str) -> None:
        self.deadline = asked + self._times.trusted()
        self._nonces = [nonce]
        self._contact_since = asked if self._contact_since is None else self._contact_since
        self._renewal.set()
        self._renewal = trio.Event()
        self._renewed(self.deadline - trio.current_time())

    async def _watch_deadline(self) -> None:
        """Stops everything at the deadline, once for each time it is reached."""
        while True:
            await trio.sleep_until(self.deadline)
            if self.lease_ok():
                continue
            log.error("the database did not answer in time; all attempts of this node are stopped")
            self._fence()
            await self._renewal.wait()
