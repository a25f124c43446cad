"""Watches running attempts: their new output is stored, and those that somebody asked to stop are stopped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

import trio

from trisched.errors import StoreError
from trisched.storage.database import Database
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_progress
from trisched.storage.tables.attempt import Chunk
from trisched.storage.tables.run_progress import Report
from trisched.storage.wakeup import CANCEL, EVERYTHING
from trisched.worker.attempt import Live, Stop

log = logging.getLogger(__name__)
#: New lines are stored this often, so that people can watch.
_FLUSH: Final = 0.5
#: Wake-ups tell of cancels; looking by itself is for those that got lost.
_POLL: Final = 1.0
_BATCH: Final = 500


class Watch:
    """The two things that happen to ``live`` attempts from outside, besides the lease and the shutdown."""

    def __init__(self, database: Database, live: Mapping[str, Live], incarnation: str) -> None:
        self._database, self._live, self._incarnation = database, live, incarnation
        self._unsent: list[Chunk] = []
        #: What stands only until there is something newer, by run.
        self._latest: dict[str, Chunk] = {}
        self._reports: dict[str, Report] = {}
        self._flushing = trio.Lock()
        self._cancels = trio.Event()

    def on_topic(self, topic: str) -> None:
        """Takes a wake-up."""
        if topic in (CANCEL, EVERYTHING):
            self._cancels.set()

    async def flush_regularly(self) -> None:
        """Stores new output now and then until it is cancelled."""
        while True:
            await trio.sleep(_FLUSH)
            await self.flush()

    async def flush(self) -> None:
        """Stores the output that is new; what the database does not take now is kept for the next time."""
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        for run_id, live in list(self._live.items()):
            if lines := live.output.take():
                self._unsent.append(live.chunk(lines))
            if lines := live.output.latest():
                self._latest[run_id] = live.latest(lines)
            if report := live.report():
                self._reports[run_id] = report
        try:
            # The lines are in no buffer any more: a shutdown must not lose them on the way.
            with trio.CancelScope(shield=True):
                while self._unsent:
                    chunks = self._unsent[:_BATCH]
                    await self._database.write(partial(attempt_table.add_output, chunks=chunks))
                    del self._unsent[: len(chunks)]
            await self._store_passing()
        except StoreError as error:
            log.warning("output cannot be stored yet", extra={"error": str(error)})

    async def _store_passing(self) -> None:
        """Stores what is true for the moment; in parts, so that results need not wait for it."""
        while self._latest:
            latest = dict(list(self._latest.items())[:_BATCH])
            await self._database.write(partial(attempt_table.put_latest, chunks=list(latest.values())))
            self._latest = {run_id: chunk for run_id, chunk in self._latest.items() if run_id not in latest}
        while self._reports:
            reports = dict(list(self._reports.items())[:_BATCH])
            await self._database.write(partial(run_progress.report, reports=list(reports.values())))
            self._reports = {run_id: report for run_id, report in self._reports.items() if run_id not in reports}

    async def stop_cancelled(self) -> None:
        """Stops attempts that somebody asked to stop, at the wake-up or at the next look, until it is cancelled."""
        while True:
            with trio.move_on_after(_POLL):
                await self._cancels.wait()
            self._cancels = trio.Event()
            if not self._live:
                continue
            try:
                ids = await self._database.read(partial(run_table.cancels_of, incarnation=self._incarnation))
            except StoreError:
                continue
            for run_id in ids:
                if run_id in self._live:
                    self._live[run_id].stop(Stop.CANCEL)
