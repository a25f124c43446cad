"""One look at the clock: due slots become runs, waiting runs whose time has come are queued. Idempotent and fenced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from trisched.clock import Ids
from trisched.domain.job import Job
from trisched.domain.misfire import SlotPlan, plan_slots
from trisched.domain.run import PRIORITY_CLASS, WAITS_OVERLAP, Priority, RunStatus
from trisched.domain.slot import next_slot
from trisched.storage.database import Tx
from trisched.storage.job_cache import JobCache
from trisched.storage.statements import Statement
from trisched.storage.tables import job as job_table
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.run import NewRun

log = logging.getLogger(__name__)
#: Later than this, a slot was missed and the misfire policy decides; a leader's fail-over fits in.
GRACE_US: Final = 5_000_000
#: Jobs per transaction: small enough that the first runs start while later slots are still being made.
BATCH: Final = 250
PROMOTE_BATCH: Final = 500
#: A job whose dispatch failed this often loses the slot, so that it never holds up others.
MAX_FAILURES: Final = 5
_RETRY_US: Final = 1_000_000
#: A definition that cannot be read has no next slot to go on with; perhaps a newer version leads soon.
_UNREADABLE_US: Final = 60_000_000
_STILL_DUE: Final = job_table.SQL.still_due.filled(lock=Statement("lock", "", "FOR NO KEY UPDATE"))


@attrs.frozen
class Due:
    """A job whose next slot has come."""

    job_id: str
    revision: int
    slot_at: int
    failures: int
    queue: str


class UnknownRevision(Exception):
    """A due job is newer than the cache: read the jobs again and look once more."""


def due_jobs(tx: Tx, most: int) -> list[Due]:
    """Jobs whose next slot has come, the longest overdue first."""
    return [Due(*row) for row in tx.rows(job_table.SQL.due, most=most)]


def dispatch(tx: Tx, epoch: int, due: Sequence[Due], cache: JobCache, ids: Ids) -> int:
    """Makes the runs of all ``due`` jobs and moves their schedules on; answers the number of new runs."""
    leader_table.guard(tx, epoch)
    due = _still_due(tx, due)
    now = run_table.now(tx)
    jobs = [_current(entry, cache) for entry in due]
    active = {row[0] for row in tx.rows(run_table.SQL.active_jobs, jobs=[job.id for job in jobs])}
    runs: list[NewRun] = []
    steps = []
    for entry, job in zip(due, jobs, strict=True):
        plan = _plan(job, entry.slot_at, now)
        made = runs_of(job, plan, active=job.id in active, ids=ids)
        if job.spec.overlap == "cancel_running" and plan.run and job.id in active:
            _cancel_active(tx, job.id)
        runs += made
        steps.append(
            {
                "id": job.id,
                "revision": entry.revision,
                "slot_at": entry.slot_at,
                "next_slot_at": plan.next,
                "next_due_at": job_table.due_for(job.id, job.spec, plan.next),
            }
        )
    fresh = run_table.add_missing(tx, runs) if runs else set()
    tx.many(job_table.SQL.advance, steps)
    return len(fresh)


def _still_due(tx: Tx, due: Sequence[Due]) -> list[Due]:
    """Those that nobody has changed or moved on since they were read; nobody can until the transaction is over."""
    rows = set(tx.rows(_STILL_DUE, ids=[entry.job_id for entry in due]))
    return [entry for entry in due if (entry.job_id, entry.revision, entry.slot_at) in rows]


def promote(tx: Tx, epoch: int) -> tuple[int, int]:
    """Queues runs whose time has come, and those whose earlier runs are over.

    Answers how many were due (there may be more), and how many jobs still have runs that wait for others.
    """
    leader_table.guard(tx, epoch)
    return run_table.promote(tx, PROMOTE_BATCH), run_table.free_waiting(tx)


def _current(due: Due, cache: JobCache) -> Job:
    job = cache.jobs.get(due.job_id)
    if job is None or job.revision != due.revision:
        if due.job_id in cache.broken:
            raise ValueError(cache.broken[due.job_id])
        raise UnknownRevision(due.job_id)
    return job


def _plan(job: Job, slot_at: int, now: int) -> SlotPlan:
    schedule = job.spec.schedule
    assert schedule is not None
    return plan_slots(
        schedule,
        next_slot=slot_at,
        now=now,
        policy=job.spec.misfire,  # type: ignore[arg-type]
        max_catch_up=job.spec.max_catch_up,
        grace_us=GRACE_US + round(schedule.jitter * 1_000_000),
    )


def runs_of(job: Job, plan: SlotPlan, *, active: bool, ids: Ids) -> list[NewRun]:
    """The rows that ``plan`` calls for, by the job's overlap policy."""
    make = _maker(job, ids)
    runs = []
    for index, slot in enumerate(plan.skipped):
        more = f", and {plan.unrecorded:,} earlier slots" if plan.unrecorded and not index else ""
        runs.append(make(slot, RunStatus.SKIPPED, reason="misfire: no node was scheduling at its time" + more))
    for slot in plan.made_up:
        # Made-up slots run one after another in slot order, whatever the overlap policy says.
        runs.append(make(slot, RunStatus.PENDING if active else RunStatus.QUEUED, waits=active))
        active = True
    for slot in plan.run:
        if job.spec.overlap == "cancel_running" and slot != plan.run[-1]:
            runs.append(make(slot, RunStatus.SKIPPED, reason="overlap: the next slot came due before it could start"))
            continue
        runs.append(_on_time(job, slot, active, make))
        active = active or runs[-1].status is not RunStatus.SKIPPED
    return runs


def _on_time(job: Job, slot: int, active: bool, make: Callable[..., NewRun]) -> NewRun:
    if not active or job.spec.overlap == "allow":
        return make(slot, RunStatus.QUEUED)
    if job.spec.overlap == "skip":
        return make(slot, RunStatus.SKIPPED, reason="overlap: an earlier run of the job was not over")
    return make(slot, RunStatus.PENDING, waits=True)


def _maker(job: Job, ids: Ids) -> Callable[..., NewRun]:
    spec = job.spec

    def make(slot: int, status: RunStatus, *, waits: bool = False, reason: str | None = None) -> NewRun:
        return NewRun(
            id=ids.new("run"),
            job_id=job.id,
            job_revision=job.revision,
            queue=spec.queue,
            priority=PRIORITY_CLASS[spec.priority],
            parameters=spec.parameters,
            retries=spec.retries,
            origin="schedule",
            status=status,
            slot_at=slot,
            waits=WAITS_OVERLAP if waits else None,
            reason=reason,
        )

    return make


def _cancel_active(tx: Tx, job_id: str) -> None:
    for run_id, _ in tx.rows(run_table.SQL.active_of_job, job_id=job_id):
        run_table.cancel(tx, run_id, "overlap: the next slot came due and the job says cancel_running")


def record_failure(tx: Tx, epoch: int, due: Due, cache: JobCache, ids: Ids, error: str) -> None:
    """Notes that a job's slot could not be dispatched; the fifth time the slot is given up and recorded."""
    leader_table.guard(tx, epoch)
    if not _still_due(tx, [due]):
        return
    job, failures = cache.jobs.get(due.job_id), due.failures + 1
    values = {"id": due.job_id, "revision": due.revision, "slot_at": due.slot_at}
    alarm = f"its slot could not be dispatched: {error}"[:1000]
    if job is None or failures < MAX_FAILURES:
        wait = _RETRY_US if failures < MAX_FAILURES else _UNREADABLE_US
        tx.count(job_table.SQL.dispatch_failed, **values, alarm=alarm, wait_us=wait)
    else:
        after = None if job.spec.schedule is None else next_slot(job.spec.schedule, run_table.now(tx))
        due_at = job_table.due_for(job.id, job.spec, after)
        tx.count(job_table.SQL.give_up_slot, **values, alarm=alarm, next_slot_at=after, next_due_at=due_at)
    if failures == MAX_FAILURES:
        run_table.add_missing(tx, [_given_up(due, ids, f"dispatch failed {failures} times: {error}"[:1000])])
        log.error("a slot was given up", extra={"job_id": due.job_id, "slot_at": due.slot_at, "error": error})


def _given_up(due: Due, ids: Ids, reason: str) -> NewRun:
    """The record of a slot; it does without the definition of its job, which may be what is broken."""
    return NewRun(
        id=ids.new("run"),
        job_id=due.job_id,
        job_revision=due.revision,
        queue=due.queue,
        priority=PRIORITY_CLASS[Priority.NORMAL],
        parameters="{}",
        retries=0,
        origin="schedule",
        status=RunStatus.SKIPPED,
        slot_at=due.slot_at,
        reason=reason,
    )
