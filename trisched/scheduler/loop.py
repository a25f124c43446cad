"""The scheduler: sleeps until the next moment at which something is due, and looks. No ticks while idle."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from trisched.clock import Ids
from trisched.errors import StoreError
from trisched.scheduler import tick
from trisched.scheduler.tick import BATCH, PROMOTE_BATCH, Due, UnknownRevision
from trisched.storage.database import Database, Tx
from trisched.storage.job_cache import JobCache
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.leader import Deposed
from trisched.storage.wakeup import DUE, EVERYTHING, JOBS

log = logging.getLogger(__name__)
#: Sleep no longer than this in one piece: a lost wake-up, or a database clock that was set, costs at most so much.
_LONGEST: Final = 30.0
#: While runs wait for earlier ones of their job, look this often in case the news of an end got lost.
_WAITING: Final = 2.0
_PAUSE: Final = 0.5


class Scheduler:
    """Time → runs, while its node leads with ``epoch``."""

    def __init__(self, database: Database, cache: JobCache, ids: Ids, epoch: int) -> None:
        self._database, self._cache, self._ids, self._epoch = database, cache, ids, epoch
        self._news = trio.Event()

    async def run(self) -> None:
        """Schedules until it is cancelled or deposed."""
        with self._database.wakeups.listening(self._on_topic):
            while True:
                self._news = trio.Event()
                try:
                    pause = await self._pass()
                except StoreError as error:
                    log.warning("nothing can be scheduled", extra={"error": str(error)})
                    pause = _PAUSE
                with trio.move_on_after(min(pause, _LONGEST)):
                    await self._news.wait()

    def _on_topic(self, topic: str) -> None:
        if topic in (DUE, JOBS, EVERYTHING):
            self._news.set()

    async def _pass(self) -> float:
        """Does all that is due; answers how many seconds there is nothing to do."""
        await self._cache.refresh()
        while due := await self._database.read(partial(tick.due_jobs, most=BATCH)):
            await self._dispatch(due)
        promoted, waiting = PROMOTE_BATCH, 0
        while promoted >= PROMOTE_BATCH:
            promoted, waiting = await self._database.write(partial(tick.promote, epoch=self._epoch))
        pause = await self._database.read(_seconds_until_due)
        return min(pause, _WAITING) if waiting else pause

    async def _dispatch(self, due: Sequence[Due]) -> None:
        """All of them in one transaction; if that fails, one by one, so that a bad one harms only itself."""
        try:
            await self._database.write(
                partial(tick.dispatch, epoch=self._epoch, due=due, cache=self._cache, ids=self._ids)
            )
        except UnknownRevision:
            await self._cache.refresh(everything=True)
            await self._one_by_one(due)
        except (StoreError, Deposed):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one job must not stop the others
            log.warning("a batch of slots failed; trying one by one", extra={"error": str(error)})
            await self._one_by_one(due)

    async def _one_by_one(self, due: Sequence[Due]) -> None:
        for entry in due:
            try:
                await self._database.write(
                    partial(tick.dispatch, epoch=self._epoch, due=[entry], cache=self._cache, ids=self._ids)
                )
            except (StoreError, Deposed):
                raise
            except Exception as error:  # noqa: BLE001 - recorded on the job, and shown to people
                await self._record_failure(entry, error)

    async def _record_failure(self, due: Due, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        await self._database.write(lambda tx: tick.record_failure(tx, self._epoch, due, self._cache, self._ids, text))


def _seconds_until_due(tx: Tx) -> float:
    now = run_table.now(tx)
    [[next_slot_due]] = tx.rows(job_table.SQL.next_due)
    moments = [moment for moment in (next_slot_due, run_table.next_due(tx)) if moment is not None]
    return max(min(moments) - now, 0) / 1_000_000 if moments else _LONGEST
