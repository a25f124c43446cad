"""Jobs that no living node can run: the leader looks for them, so that waiting runs are explained."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

import trio

from trisched.domain.job import Job
from trisched.domain.node import why_unrunnable
from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.job_cache import JobCache
from trisched.storage.tables import job as job_table
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import node as node_table

log = logging.getLogger(__name__)
_PERIOD: Final = 5.0


async def run(database: Database, cache: JobCache, epoch: int) -> None:
    """Compares jobs and nodes every few seconds while leading."""
    while True:
        try:
            await cache.refresh()
            await database.write(partial(mark, jobs=list(cache.jobs.values()), epoch=epoch))
        except StoreError as error:
            log.warning("jobs and nodes could not be compared", extra={"error": str(error)})
        await trio.sleep(_PERIOD)


def mark(tx: Tx, jobs: Iterable[Job], epoch: int) -> int:
    """Writes down which jobs cannot run anywhere, and why; answers how many marks changed."""
    leader_table.guard(tx, epoch)
    abilities = node_table.abilities(tx)
    marked: dict[str, str] = dict(tx.rows(job_table.SQL.unrunnable))
    changes = []
    for job in jobs:
        reason = why_unrunnable(job.spec, abilities)
        if marked.get(job.id) != reason:
            changes.append({"id": job.id, "reason": reason})
            if reason is not None:
                log.warning("a job cannot run", extra={"job": job.spec.name, "reason": reason})
    if changes:
        tx.many(job_table.SQL.set_unrunnable, changes)
    return len(changes)
