"""Reading jobs: one, lists with filters, and the figures of a job's past runs."""

from __future__ import annotations

from typing import Any, Final

import attrs

from trisched.domain.duration import MICROSECONDS
from trisched.domain.job import JOB_TYPES, Job
from trisched.domain.run import Attempt, Run, RunStatus
from trisched.domain.text import parse_choice, parse_number, parse_text
from trisched.operations.run_views import statuses_of
from trisched.operations.scope import Scope, required_job
from trisched.storage.database import Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.job import Counts

SORTS: Final = tuple(job_table.SORTS)
SCHEDULE_KINDS: Final = ("cron", "interval", "once", "none")
DEFAULT_LIMIT: Final = 50
MOST: Final = 1000
_HISTORY: Final = 50
#: The figures of a job are made of its newest runs, so that they cost the same however old it is.
_FIGURES: Final = 1000
_LAST_STATUS: Final = f"(SELECT run.status FROM run WHERE run.id = {run_lookup.NEWEST_OF_JOB}) {{in:statuses}}"  # noqa: S608 - our own text
_CONDITIONS: Final = {
    "tag": "EXISTS (SELECT 1 FROM job_tag WHERE job_tag.job_id = job.id AND job_tag.tag = :tag)",
    "status": _LAST_STATUS,
    "schedule": "schedule_kind = :schedule",
    "type": "type = :type",
    "queue": "queue = :queue",
    # Both sides are lowered by the database, so that they agree on what lower case is.
    "search": "lower(name) LIKE lower(:search) ESCAPE '!'",
}


@attrs.frozen(kw_only=True)
class JobFilter:
    """Which jobs to list; None means all. ``status`` is that of the newest run, or a word for several."""

    tag: str | None = None
    status: str | None = None
    schedule: str | None = None
    type: str | None = None
    queue: str | None = None
    enabled: bool | None = None
    #: A part of the name, in upper or lower case.
    search: str | None = None


@attrs.frozen(kw_only=True)
class JobDetail:
    """A job and its newest run, if it has one."""

    job: Job
    last_run: Run | None
    now: int


@attrs.frozen(kw_only=True)
class JobPage:
    """Some jobs, how many meet the filter, and the figures over all jobs."""

    jobs: list[JobDetail]
    #: Jobs whose stored definition this version cannot read: id → reason.
    broken: dict[str, str]
    total: int
    counts: Counts


@attrs.frozen(kw_only=True)
class JobFigures:
    """Rates and durations over the newest runs of a job."""

    runs: int
    by_status: dict[RunStatus, int]
    #: Completed among completed and dead; None before the first.
    success_rate: float | None
    average_duration: float | None
    median_duration: float | None
    p95_duration: float | None


@attrs.frozen(kw_only=True)
class Execution:
    """One attempt of one run; an attempt under way has neither end nor outcome."""

    run: Run
    attempt: Attempt | None


async def get(scope: Scope, job: str) -> JobDetail:
    """The job of that id or name."""

    def work(tx: Tx) -> JobDetail:
        found = required_job(tx, job)
        last = run_lookup.last_of_jobs(tx, [found.id])
        return JobDetail(job=found, last_run=last.get(found.id), now=run_table.now(tx))

    return await scope.database.read(work)


async def list_jobs(
    scope: Scope, wanted: JobFilter, *, sort: str = "name", limit: int = DEFAULT_LIMIT, offset: int = 0
) -> JobPage:
    """One page of the jobs that meet the filter."""
    parse_choice(sort, "sort", SORTS)
    most = parse_number(limit, "limit", least=1, most=MOST)
    skip = parse_number(offset, "offset", least=0, most=10**9)
    conditions, parameters = _conditions(wanted)

    def work(tx: Tx) -> JobPage:
        page = job_table.list_jobs(tx, conditions, parameters, sort=sort, most=most, skip=skip)
        last = run_lookup.last_of_jobs(tx, [job.id for job in page.jobs])
        now = run_table.now(tx)
        return JobPage(
            jobs=[JobDetail(job=job, last_run=last.get(job.id), now=now) for job in page.jobs],
            broken=page.broken,
            total=page.total,
            counts=job_table.counts(tx),
        )

    return await scope.database.read(work)


def _conditions(wanted: JobFilter) -> tuple[list[str], dict[str, Any]]:
    values: dict[str, str] = {}
    for name in _CONDITIONS:
        value = getattr(wanted, name)
        if value is not None:
            values[name] = parse_text(value, name, most=1000)
    parameters: dict[str, Any] = dict(values)
    if "status" in values:
        parameters["statuses"] = sorted(statuses_of(parameters.pop("status")))
    if "search" in values:
        parameters["search"] = f"%{job_table.like_literal(values['search'])}%"
    if "schedule" in values:
        parse_choice(values["schedule"], "schedule", SCHEDULE_KINDS)
    if "type" in values:
        parse_choice(values["type"], "type", JOB_TYPES)
    conditions = [_CONDITIONS[name] for name in values]
    if wanted.enabled is not None:
        conditions.append("disabled_at IS NULL" if wanted.enabled else "disabled_at IS NOT NULL")
    return conditions, parameters


async def figures(scope: Scope, job: str) -> JobFigures:
    """The figures of the job's newest runs."""

    def work(tx: Tx) -> list[tuple[RunStatus, int | None, int | None]]:
        return run_lookup.recent_of_job(tx, required_job(tx, job).id, _FIGURES)

    return _figures(await scope.database.read(work))


def _figures(runs: list[tuple[RunStatus, int | None, int | None]]) -> JobFigures:
    by_status: dict[RunStatus, int] = {}
    for status, _, _ in runs:
        by_status[status] = by_status.get(status, 0) + 1
    completed, dead = by_status.get(RunStatus.COMPLETED, 0), by_status.get(RunStatus.DEAD, 0)
    durations = sorted(
        (ended - started) / MICROSECONDS
        for status, started, ended in runs
        if status is RunStatus.COMPLETED and started is not None and ended is not None
    )
    return JobFigures(
        runs=len(runs),
        by_status=by_status,
        success_rate=completed / (completed + dead) if completed + dead else None,
        average_duration=sum(durations) / len(durations) if durations else None,
        median_duration=_at(durations, 0.5),
        p95_duration=_at(durations, 0.95),
    )


def _at(ordered: list[float], part: float) -> float | None:
    """The value that ``part`` of the values do not exceed."""
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else None


async def durations(scope: Scope, job: str, limit: int) -> list[tuple[str, RunStatus, int, int]]:
    """Id, status, start and end of the newest finished runs of the job, the earliest first."""

    def work(tx: Tx) -> list[tuple[str, RunStatus, int, int]]:
        return run_lookup.finished_of_job(tx, required_job(tx, job).id, limit)

    return await scope.database.read(work)


async def history(scope: Scope, job: str) -> list[Execution]:
    """The last 50 executions of the job, the latest first."""

    def work(tx: Tx) -> list[Execution]:
        wanted = {"job_id": required_job(tx, job).id}
        runs = {run.id: run for run in run_lookup.list_runs(tx, ["job_id = :job_id"], wanted, _HISTORY)}
        live = [Execution(run=run, attempt=None) for run in runs.values() if run.status is RunStatus.RUNNING]
        ended = [
            Execution(run=runs[attempt.run_id], attempt=attempt) for attempt in attempt_table.of_runs(tx, list(runs))
        ]
        return (live + ended)[:_HISTORY]

    return await scope.database.read(work)
