"""Writes down how attempts ended: everything that waits goes into one transaction, until the database says yes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from trisched.domain.lifecycle import Ending, Move
from trisched.domain.run import Attempt
from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_progress
from trisched.storage.tables.run_progress import Report
from trisched.storage.wakeup import DUE, run_topic

log = logging.getLogger(__name__)
#: Array statements are capped: beyond this the planner may choose another plan.
_BATCH: Final = 500
_READABLE: Final = 20
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)


@attrs.define(slots=True)
class Finished:
    """One attempt's end on its way to the database."""

    job_name: str
    ending: Ending
    attempt: Attempt
    output: list[attempt_table.Chunk]
    frees_others: bool
    progress: Report | None = None


class Recorder:
    """Collects endings and stores them; ``recorded`` is told how many after each commit."""

    def __init__(self, database: Database, recorded: Callable[[int], None]) -> None:
        self._database, self._recorded = database, recorded
        self._waiting: list[Finished] = []
        self._news = trio.Event()
        self._idle = trio.Event()
        self._idle.set()

    def put(self, finished: Finished) -> None:
        """Takes an ending; never blocks. The number of attempts in flight bounds what can wait here."""
        self._waiting.append(finished)
        self._idle = self._idle if not self._idle.is_set() else trio.Event()
        self._news.set()

    async def wait_idle(self) -> None:
        """Returns when everything that was put is stored."""
        await self._idle.wait()

    async def run(self) -> None:
        """Stores what comes until it is cancelled; a transaction that began is always finished."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                await self._store(batch)
            self._idle.set()

    async def _store(self, batch: Sequence[Finished]) -> None:
        tries = 0
        while True:
            try:
                await self._database.write(partial(record, batch=batch))
                break
            except StoreError as error:
                log.warning("results cannot be stored yet", extra={"runs": len(batch), "error": str(error)})
                await trio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1
        self._recorded(len(batch))
        _tell(batch)
        if self._database.wakeups.has_waiters():
            self._database.wakeups.publish([run_topic(finished.ending.run_id) for finished in batch])


def _tell(batch: Sequence[Finished]) -> None:
    """One line per attempt while a person could read them, one per batch beyond."""
    if not log.isEnabledFor(logging.INFO):
        return
    if len(batch) > _READABLE:
        log.info("attempts ended", extra={"count": len(batch)})
        return
    for finished in batch:
        attempt = finished.attempt
        fields = {
            "job": finished.job_name,
            "run": attempt.run_id,
            "attempt": attempt.number,
            "seconds": round((attempt.ended_at - attempt.started_at) / 1_000_000, 3),
        }
        if finished.ending.reason is not None:
            fields["reason"] = finished.ending.reason
        log.info("attempt %s", attempt.outcome, extra=fields)


def record(tx: Tx, batch: Sequence[Finished]) -> None:
    """One transaction: the runs, their attempts, their last output."""
    reports = [finished.progress for finished in batch if finished.progress is not None]
    if reports:
        # Before the claim ends: only who holds it may say how far it came.
        run_progress.report(tx, reports)
    completions = [finished.ending for finished in batch if finished.ending.move is Move.COMPLETE]
    effective = run_table.complete(tx, completions) if completions else set()
    for finished in batch:
        if finished.ending.move is not Move.COMPLETE and run_table.end_attempt(tx, finished.ending):
            effective.add(finished.ending.run_id)
    attempts = []
    for finished in batch:
        if finished.ending.run_id in effective:
            attempts.append(finished.attempt)
        elif not _stored_before(tx, finished.ending):
            attempts.append(attrs.evolve(finished.attempt, effective=False))
    if attempts:
        attempt_table.add(tx, attempts)
    chunks = [chunk for finished in batch for chunk in finished.output]
    if chunks:
        attempt_table.add_output(tx, chunks)
    if any(finished.frees_others for finished in batch):
        tx.wake(DUE)


def _stored_before(tx: Tx, ending: Ending) -> bool:
    """Whether this very end was stored already, its answer having got lost; a rescue stores another one, the loss."""
    outcome = attempt_table.effective_outcome(tx, ending.run_id, ending.token, ending.claim_id)
    return outcome is ending.outcome
