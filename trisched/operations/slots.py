"""Slots of a job: the ledger of what became of each, and making up for those that never had a run."""

from __future__ import annotations

from typing import Final

import attrs

from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.job import Job
from trisched.domain.ledger import Entry, Horizon, Span, ledger
from trisched.domain.run import KEEP_COMPLETED_US, PRIORITY_CLASS, WAITS_OVERLAP, RunStatus
from trisched.domain.schedule import Schedule, slots_between
from trisched.errors import Conflict, Invalid
from trisched.operations.scope import Scope, required_job
from trisched.storage.database import Tx
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup, schedule_span
from trisched.storage.tables.run import NewRun

MOST: Final = 1000
DEFAULT_LIMIT: Final = 200
MOST_BACKFILL: Final = 10_000
_DAY_US: Final = 86_400 * MICROSECONDS


@attrs.frozen(kw_only=True)
class SlotPage:
    """Some slots in order, and where the next page begins."""

    entries: list[Entry]
    next: int | None


@attrs.frozen(kw_only=True)
class Backfill:
    """What a backfill found in its range, and what it made."""

    #: Slots that the present schedule prescribes there.
    slots: int
    #: Of these: with a run, skipped at their time, and older than finished runs are kept (they may have run).
    existing: int
    skipped: int
    forgotten: int
    missing: int
    #: The ids of the new runs, in slot order; none in a dry run.
    made: list[str]


async def show(
    scope: Scope, job: str, *, since: int | None = None, until: int | None = None, limit: int = DEFAULT_LIMIT
) -> SlotPage:
    """The slots of the job from ``since`` to ``until``; the last 24 hours unless told."""

    def work(tx: Tx) -> SlotPage:
        found = required_job(tx, job)
        now = run_table.now(tx)
        last = now if until is None else until
        first = last - _DAY_US if since is None else since
        if first > last:
            raise Invalid.at("from", "must not be after to")
        runs = run_lookup.of_slots(tx, found.id, first, last, limit + 1)
        entries = ledger(spans_of(tx, found, first, last), runs, first, last, horizon_of(found, now), limit + 1)
        return SlotPage(entries=entries[:limit], next=entries[limit].slot if len(entries) > limit else None)

    return await scope.database.read(work)


def spans_of(tx: Tx, job: Job, first: int, last: int) -> list[Span]:
    """The schedules that the job had in that time; one that was never written down is taken from the job itself."""
    spans = schedule_span.of_job(tx, job.id, first, last)
    if not spans and job.spec.schedule is not None and job.spec.enabled and not schedule_span.has_any(tx, job.id):
        spans = [Span(since=job.updated_at, until=None, schedule=job.spec.schedule)]
    return spans


def horizon_of(job: Job, now: int) -> Horizon:
    """What tells slots without a run apart."""
    return Horizon(now=now, next_slot_at=job.next_slot_at, kept_since=now - KEEP_COMPLETED_US)


async def backfill(
    scope: Scope, job: str, since: int, until: int, *, dry_run: bool = False, expect: int | None = None
) -> Backfill:
    """Makes the missing slots with ``since <= slot < until``, to run one after another in slot order.

    A slot makes at most one run, for ever: what has a run is left alone, and a skipped one can be retried instead.
    Conflict if the number of missing slots is not ``expect``.
    """

    def work(tx: Tx) -> Backfill:
        found = required_job(tx, job, lock=job_table.ALONE)
        plan, missing = _plan(tx, found, since, until)
        if expect is not None and expect != plan.missing:
            raise Conflict(f"{plan.missing:,} slots are missing, not {expect:,}; look again and confirm that number")
        if dry_run or not plan.missing:
            return plan
        if not found.spec.enabled:
            raise Conflict(f"the job {found.spec.name!r} is disabled; enable it first")
        return attrs.evolve(plan, made=_make(scope, tx, found, missing))

    return await (scope.database.read(work) if dry_run else scope.database.write(work))


def _plan(tx: Tx, job: Job, since: int, until: int) -> tuple[Backfill, list[int]]:
    """The counts of the range, and the slots that are missing."""
    now = run_table.now(tx)
    slots = _prescribed(_schedule_of(job), since, until, now)
    taken = run_lookup.taken_slots(tx, job.id, since, until - 1)
    horizon = horizon_of(job, now)
    spans = spans_of(tx, job, since, until)
    then = {slot for span in spans for slot in span.slots(since, min(until, horizon.kept_since) - 1, MOST_BACKFILL)}
    missing = [slot for slot in slots if slot not in taken and slot not in then]
    skipped = sum(taken.get(slot) is RunStatus.SKIPPED for slot in slots)
    existing = sum(slot in taken for slot in slots) - skipped
    plan = Backfill(
        slots=len(slots),
        existing=existing,
        skipped=skipped,
        forgotten=len(slots) - existing - skipped - len(missing),
        missing=len(missing),
        made=[],
    )
    return plan, missing


def _schedule_of(job: Job) -> Schedule:
    if job.spec.schedule is None:
        raise Conflict(f"the job {job.spec.name!r} has no schedule, so there are no slots to make up for")
    return job.spec.schedule


def _prescribed(schedule: Schedule, since: int, until: int, now: int) -> list[int]:
    if since >= until:
        raise Invalid.at("to", "must be after from")
    if until > now:
        raise Invalid.at("to", f"is in the future; it is {format_instant(now)} now, and those slots come by themselves")
    slots = slots_between(schedule, since - 1, until - 1, MOST_BACKFILL + 1)
    if len(slots) > MOST_BACKFILL:
        end = format_instant(slots[MOST_BACKFILL])
        raise Invalid.at("to", f"is too far: at most {MOST_BACKFILL:,} slots at a time, which are reached at {end}")
    return slots


def _make(scope: Scope, tx: Tx, job: Job, slots: list[int]) -> list[str]:
    """A run of each slot; the first may start at once, every other waits for the one before it."""
    spec = job.spec
    active = bool(tx.rows(run_table.SQL.active_jobs, jobs=[job.id]))
    runs: list[NewRun] = []
    for run_id, slot in zip(scope.ids.some("run", len(slots)), slots, strict=True):
        waits = active or bool(runs)
        run = NewRun(
            id=run_id,
            job_id=job.id,
            job_revision=job.revision,
            queue=spec.queue,
            priority=PRIORITY_CLASS[spec.priority],
            parameters=spec.parameters,
            retries=spec.retries,
            origin="backfill",
            status=RunStatus.PENDING if waits else RunStatus.QUEUED,
            slot_at=slot,
            waits=WAITS_OVERLAP if waits else None,
        )
        runs.append(run)
    fresh = run_table.add_missing(tx, runs)
    return [run.id for run in runs if run.id in fresh]
