"""The schedule_span table: which schedule a job had when, so that the past is told by the rules of its time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trisched.domain.job import JobSpec
from trisched.domain.ledger import Span
from trisched.domain.schedule import Schedule, parse_schedule, schedule_fields
from trisched.storage.database import Tx
from trisched.storage.statements import load

SQL: Final = load("schedule_span")


def open_spans(tx: Tx, jobs: Iterable[tuple[str, JobSpec]], since: int) -> None:
    """From ``since`` on these jobs, by their ids, have the schedules that they have, if they are switched on."""
    rows = [
        {"job_id": job_id, "since": since, "schedule": _text(spec)}
        for job_id, spec in jobs
        if spec.schedule is not None and spec.enabled
    ]
    if rows:
        tx.many(SQL.open, rows)


def change(tx: Tx, job_id: str, before: JobSpec, after: JobSpec, now: int) -> None:
    """Ends one span and begins another where a change of the job touched its schedule or its switch."""
    if (before.schedule, before.enabled) != (after.schedule, after.enabled):
        close(tx, job_id, now)
        open_spans(tx, [(job_id, after)], now)


def close(tx: Tx, job_id: str, until: int) -> None:
    """The job has no schedule from ``until`` on."""
    tx.count(SQL.close, job_id=job_id, until=until)


def close_now(tx: Tx, job_id: str) -> None:
    """The job has no schedule any more."""
    tx.count(SQL.close_now, job_id=job_id)


def of_job(tx: Tx, job_id: str, first: int, last: int) -> list[Span]:
    """The spans of the job that touch the time between, the earliest first."""
    rows = tx.rows(SQL.of_job, job_id=job_id, first=first, last=last)
    return [Span(since=since, until=until, schedule=_schedule(text, since)) for since, until, text in rows]


def has_any(tx: Tx, job_id: str) -> bool:
    """Whether anything was ever written down about the job."""
    return tx.one(SQL.any, job_id=job_id) is not None


def _text(spec: JobSpec) -> str:
    assert spec.schedule is not None
    return msgspec.json.encode(schedule_fields(spec.schedule)).decode()


def _schedule(text: str, since: int) -> Schedule:
    return parse_schedule(msgspec.json.decode(text), path="schedule", now=since, allow_past=True)
