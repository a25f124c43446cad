"""Looking for runs: by key, by likeness, page by page, and the figures made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from trisched.domain.ledger import SlotRun
from trisched.domain.run import Run, RunStatus
from trisched.storage.database import Tx
from trisched.storage.tables.run import COLUMNS, SQL, from_row

_COLUMN_LIST: Final = ", ".join(COLUMNS)
_LAST_OF_JOBS: Final = SQL.last_of_jobs.filled(columns=_COLUMN_LIST, newest=SQL.newest_of_job)
_RECENT: Final = SQL.list_of_job.filled(columns="id, status, started_at, finished_at", where="1 = 1")
#: The id of the newest run of ``job``, inside a statement about jobs.
NEWEST_OF_JOB: Final[str] = SQL.newest_of_job.sqlite


@attrs.frozen
class Keyed:
    """The run that a key stands for."""

    key: str
    id: str
    status: RunStatus
    parameters: str
    created_at: int


def with_keys(tx: Tx, job_id: str, keys: list[str]) -> dict[str, Keyed]:
    """The runs of the job that have one of these keys, by key."""
    rows = tx.rows(SQL.with_keys, job_id=job_id, keys=keys)
    return {row[0]: Keyed(row[0], row[1], RunStatus(row[2]), row[3], row[4]) for row in rows}


def drop_key(tx: Tx, keyed: Keyed) -> None:
    """Frees a key whose lifetime is over."""
    tx.count(SQL.drop_key, id=keyed.id, key=keyed.key)


def active_like(tx: Tx, job_id: str, parameters: str) -> tuple[str, RunStatus] | None:
    """The run of the job with these very parameters that waits or runs, if there is one."""
    row = tx.one(SQL.active_like, job_id=job_id, parameters=parameters)
    return None if row is None else (row[0], RunStatus(row[1]))


def list_runs(tx: Tx, conditions: Sequence[str], parameters: Mapping[str, Any], most: int) -> list[Run]:
    """Runs that meet all ``conditions`` (SQL of ours), the newest first."""
    where = " AND ".join(conditions) or "1 = 1"
    statement = (SQL.list_of_job if "job_id" in parameters else SQL.list).filled(columns=_COLUMN_LIST, where=where)
    return [from_row(row) for row in tx.rows(statement, **parameters, most=most)]


def last_of_jobs(tx: Tx, job_ids: list[str]) -> dict[str, Run]:
    """The newest run of each job that has one."""
    rows = tx.rows(_LAST_OF_JOBS, jobs=job_ids)
    return {run.job_id: run for run in map(from_row, rows)}


def recent_of_job(tx: Tx, job_id: str, most: int) -> list[tuple[RunStatus, int | None, int | None]]:
    """Status, start and end of the newest runs of a job."""
    return [(RunStatus(row[1]), row[2], row[3]) for row in tx.rows(_RECENT, job_id=job_id, most=most)]


def finished_of_job(tx: Tx, job_id: str, most: int) -> list[tuple[str, RunStatus, int, int]]:
    """Id, status, start and end of the newest runs of a job that began and are over, the earliest first."""
    rows = tx.rows(SQL.finished_of_job, job_id=job_id, most=most)
    return [(row[0], RunStatus(row[1]), row[2], row[3]) for row in reversed(rows)]


def finished_since(tx: Tx, since: int, oldest_id: str) -> dict[RunStatus, int]:
    """How many runs of ``oldest_id`` or later were over after ``since``, by status."""
    return {RunStatus(row[0]): row[1] for row in tx.rows(SQL.finished_since, since=since, oldest=oldest_id)}


def unfinished(tx: Tx) -> dict[tuple[str, RunStatus], int]:
    """How many runs are not over, by queue and status."""
    return {(row[0], RunStatus(row[1])): row[2] for row in tx.rows(SQL.unfinished)}


def claimed_counts(tx: Tx) -> dict[str, int]:
    """How many runs each incarnation of a node holds."""
    return dict(tx.rows(SQL.count_claimed))


def of_slots(tx: Tx, job_id: str, first: int, last: int, most: int) -> list[SlotRun]:
    """The runs that slots of the job within the range have made, in slot order."""
    rows = tx.rows(SQL.of_slots, job_id=job_id, first=first, last=last, most=most)
    return [
        SlotRun(id=row[0], slot_at=row[1], status=RunStatus(row[2]), reason=row[3], origin=row[4], started_at=row[5])
        for row in rows
    ]


def taken_slots(tx: Tx, job_id: str, first: int, last: int) -> dict[int, RunStatus]:
    """The slots of the job within the range that have a run, and how each stands."""
    rows = tx.rows(SQL.taken_slots, job_id=job_id, first=first, last=last)
    return {row[0]: RunStatus(row[1]) for row in rows}


def claims_of(tx: Tx, run_ids: list[str]) -> list[tuple[str, str, str, str]]:
    """Who holds these runs, those that somebody holds: run, claim, node and incarnation."""
    return [(row[0], row[1], row[2], row[3]) for row in tx.rows(SQL.claims_of, ids=run_ids)]
