"""The jobs in memory: read once, then only what changed, so that no claim and no slot reads definitions."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from trisched.domain.job import Job
from trisched.storage.database import Database, Row, Tx
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table

#: Transactions that commit late carry an older stamp: look back this far, which costs a few rows read twice.
_LOOK_BACK_US: Final = 60_000_000


class JobCache:
    """All jobs by id. ``refresh`` is cheap when nothing changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen_at: int | None = None
        self._revisions: dict[str, int] = {}
        self.jobs: dict[str, Job] = {}
        #: Jobs whose stored definition this version cannot read: id → reason.
        self.broken: dict[str, str] = {}
        #: Grows whenever a job changed: who derives something from the jobs compares it.
        self.version = 0

    async def refresh(self, *, everything: bool = False) -> None:
        """Reads what was written since the last time, or everything."""
        since = None if everything else self._seen_at

        def read(tx: Tx) -> tuple[int, list[Row]]:
            stamp = run_table.now(tx)
            rows = job_table.all_jobs(tx) if since is None else job_table.changed_since(tx, since - _LOOK_BACK_US)
            return stamp, rows

        self._seen_at, rows = await self._database.read(read)
        if since is None:
            self._keep_only({row[0] for row in rows})
        self._take(rows)

    def _keep_only(self, ids: AbstractSet[str]) -> None:
        """Forgets the jobs that were removed while nobody looked."""
        gone = (self.jobs.keys() | self.broken.keys()) - ids
        for job_id in gone:
            self.jobs.pop(job_id, None)
            self.broken.pop(job_id, None)
            del self._revisions[job_id]
        self.version += bool(gone)

    def _take(self, rows: Iterable[Row]) -> None:
        fresh = [row for row in rows if self._is_news(row)]
        for row in fresh:
            self.jobs.pop(row[0], None)
            self.broken.pop(row[0], None)
            self._revisions[row[0]] = row[2]
        jobs, broken = job_table.readable([row for row in fresh if not job_table.is_removed(row)])
        self.jobs.update((job.id, job) for job in jobs)
        self.broken.update(broken)
        self.version += bool(fresh)

    def _is_news(self, row: Row) -> bool:
        known = self._revisions.get(row[0])
        return bool(known != row[2]) and not (known is None and job_table.is_removed(row))
