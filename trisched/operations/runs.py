"""Making runs and changing their course: submit, trigger, cancel, retry, resolve."""

from __future__ import annotations

from collections.abc import Sequence

from trisched.domain.job import Job
from trisched.domain.lifecycle import MOVES, Move
from trisched.domain.run import Run, RunStatus
from trisched.domain.text import parse_text
from trisched.errors import Conflict, NotFound
from trisched.operations.intake import Intake
from trisched.operations.run_views import RunDetail, RunFilter, RunPage, get, list_runs, output, required_run
from trisched.operations.scope import Scope, required_job
from trisched.operations.submission import Submission, Submitted
from trisched.storage.database import Tx
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.run import NewRun

__all__ = [
    "RunDetail",
    "RunFilter",
    "RunPage",
    "Submission",
    "Submitted",
    "cancel",
    "get",
    "list_runs",
    "output",
    "resolve",
    "retry",
    "submit",
    "submit_many",
    "trigger",
]


async def submit(scope: Scope, submission: Submission) -> Submitted:
    """One run, durably stored when this returns. A disabled job takes none (Conflict)."""

    def work(tx: Tx) -> Submitted:
        [submitted] = Intake(scope, tx, origin="submit").take([submission], lambda _: "")
        return submitted

    return await scope.database.write(work)


async def submit_many(scope: Scope, submissions: Sequence[Submission]) -> list[Submitted]:
    """A run of each, in order, in one transaction: all of them or, with an error, none."""

    def work(tx: Tx) -> list[Submitted]:
        return Intake(scope, tx, origin="submit").take(submissions, "runs[{}].".format)

    return await scope.database.write(work)


async def trigger(
    scope: Scope,
    job: str,
    parameters: object = None,
    *,
    priority: object = None,
    delay: object = None,
    key: object = None,
) -> Submitted:
    """A run of a stored job now.

    Without a key it collapses onto a run of the job with the same parameters that still waits or runs. Given
    parameters are laid over those of the job.
    """
    wish = Submission(job=job, parameters=parameters, priority=priority, delay=delay, key=key)

    def work(tx: Tx) -> Submitted:
        # Alone with the job: two triggers at the same time must see each other's run.
        intake = Intake(scope, tx, origin="trigger", lock=job_table.ALONE)
        if key is None:
            model = intake.model(wish)
            like = run_lookup.active_like(tx, model.run.job_id, intake.parameters(model, parameters))
            if like is not None:
                return Submitted(*like, created=False)
        [submitted] = intake.take([wish], lambda _: "")
        return submitted

    return await scope.database.write(work)


async def cancel(scope: Scope, run_id: str, reason: object = None) -> RunStatus:
    """Ends a run that waits, asks for one that runs to be stopped; the status it has then. Conflict if it is over."""
    text = "cancelled by request" if reason is None else parse_text(reason, "reason", most=1000)

    def work(tx: Tx) -> RunStatus:
        required_run(tx, run_id)
        status = run_table.cancel(tx, run_id, text)
        if status is None:
            raise Conflict(f"{run_id} is {required_run(tx, run_id).status} already")
        return status

    return await scope.database.write(work)


async def retry(scope: Scope, run_id: str) -> Submitted:
    """A dead, cancelled or held run goes back in line with a fresh count of attempts; of a completed one a new is made.

    Conflict for every other status.
    """
    return await scope.database.write(lambda tx: _retry(scope, tx, run_id))


def _retry(scope: Scope, tx: Tx, run_id: str) -> Submitted:
    run = required_run(tx, run_id)
    try:
        job = required_job(tx, run.job_id, lock=job_table.STAY)
    except NotFound:
        raise Conflict(f"the job of {run_id} was deleted") from None
    if run_table.revive(tx, run_id):
        return Submitted(run_id, MOVES[Move.REVIVE][1], created=False)
    if run.status is not RunStatus.COMPLETED:
        raise Conflict(f"{run_id} is {run.status}; only a run that is over can be retried")
    return _again(scope, tx, run, job)


def _again(scope: Scope, tx: Tx, run: Run, job: Job) -> Submitted:
    """A new run with all that the old one was asked for, by the job as it is now."""
    if not job.spec.enabled:
        raise Conflict(f"the job {job.spec.name!r} is disabled; enable it first")
    fresh = NewRun(
        id=scope.ids.new("run"),
        job_id=job.id,
        job_revision=job.revision,
        queue=run.queue,
        priority=run.priority,
        parameters=run.parameters,
        retries=run.retries,
        origin="retry",
        overrides=run.overrides,
    )
    run_table.add(tx, [fresh])
    return Submitted(fresh.id, fresh.status, created=True)


async def resolve(scope: Scope, run_id: str, reason: object = None) -> RunStatus:
    """Declares a held run done: a person knows that it has had its effect. Conflict if it is not held."""
    text = "resolved by request" if reason is None else parse_text(reason, "reason", most=1000)

    def work(tx: Tx) -> RunStatus:
        run = required_run(tx, run_id)
        if not run_table.resolve(tx, run_id, text):
            raise Conflict(f"{run_id} is {run.status}; only a held run can be resolved")
        return MOVES[Move.RESOLVE][1]

    return await scope.database.write(work)
