"""Leadership: one node at a time runs the scheduler. Two that believe it are harmless: every write names its epoch."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from trisched.domain.node import LeaseTimes
from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables.leader import Deposed

log = logging.getLogger(__name__)


class Leadership:
    """Runs ``reign(epoch)`` while this node leads."""

    def __init__(
        self,
        database: Database,
        times: LeaseTimes,
        *,
        node_id: str,
        incarnation: str,
        reign: Callable[[int], Awaitable[None]],
        only_one: bool = False,
    ) -> None:
        self._database, self._times = database, times
        self._node_id, self._incarnation, self._reign = node_id, incarnation, reign
        self._lease_us = int(times.leader * 1_000_000)
        # Proof from elsewhere that no other node lives: the first candidacy need not wait for an old lease.
        self._only_one = only_one
        #: The epoch in which this node leads, None while it does not.
        self.epoch: int | None = None

    async def run(self) -> None:
        """Stands for election, leads, and stands again, until it is cancelled."""
        while True:
            asked = trio.current_time()
            try:
                epoch = await self._database.control(self._stand)
            except StoreError as error:
                log.warning("no election without the database", extra={"error": str(error)})
                epoch = None
            if epoch is None:
                await trio.sleep(self._times.leader_beat)
            else:
                await self._lead(epoch, asked)

    def _stand(self, tx: Tx) -> int | None:
        seen = leader_table.seen(tx)
        if seen.alive and not self._only_one:
            return None
        taken = leader_table.take(
            tx,
            epoch=seen.epoch,
            node_id=self._node_id,
            incarnation=self._incarnation,
            lease_us=self._lease_us,
            only_one=self._only_one,
        )
        return seen.epoch + 1 if taken else None

    async def _lead(self, epoch: int, asked: float) -> None:
        log.info("leading", extra={"epoch": epoch})
        self.epoch = epoch
        try:
            with trio.CancelScope(deadline=asked + self._times.leader_trusted()) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._renew, epoch, scope)
                    await self._reign_until_deposed(epoch)
                    scope.cancel()
        finally:
            self.epoch = None
            await self._resign(epoch)

    async def _reign_until_deposed(self, epoch: int) -> None:
        try:
            await self._reign(epoch)
        except* Deposed:
            log.warning("not leading any more", extra={"epoch": epoch})

    async def _renew(self, epoch: int, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(self._times.leader_beat)
            asked = trio.current_time()
            work = partial(leader_table.renew, epoch=epoch, incarnation=self._incarnation, lease_us=self._lease_us)
            try:
                renewed = await self._database.control(work)
            except StoreError:
                continue
            if not renewed:
                scope.cancel()
            scope.deadline = max(scope.deadline, asked + self._times.leader_trusted())

    async def _resign(self, epoch: int) -> None:
        with trio.move_on_after(2, shield=True):
            try:
                await self._database.control(partial(leader_table.resign, epoch=epoch, incarnation=self._incarnation))
            except StoreError:
                log.warning("leadership was not handed over; it ends with its lease")
