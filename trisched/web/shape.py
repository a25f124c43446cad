"""From domain values to the shapes of the API: times become RFC 3339, durations float seconds."""

from __future__ import annotations

from typing import Any

import msgspec

from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.job_fields import job_fields
from trisched.domain.progress import from_json
from trisched.domain.run import CLASS_PRIORITY, STATUS_GROUPS, Outcome, RunStatus
from trisched.domain.run import Attempt as StoredAttempt
from trisched.domain.run import Run as StoredRun
from trisched.operations.job_views import Execution, JobDetail, JobFigures, JobPage
from trisched.operations.run_views import OutputLine, RunDetail, RunPage
from trisched.operations.schedules import Preview
from trisched.operations.submission import Submitted
from trisched.operations.system import NodeState, QueueState
from trisched.web.wire import job as job_wire
from trisched.web.wire import run as run_wire
from trisched.web.wire import system as system_wire


def instant(at: int | None) -> str | None:
    """RFC 3339, or nothing."""
    return None if at is None else format_instant(at)


def seconds(start: int | None, end: int | None) -> float | None:
    """The time between two instants."""
    return None if start is None or end is None else max(end - start, 0) / MICROSECONDS


def job(detail: JobDetail) -> job_wire.Job:
    """A job with its newest run."""
    stored = detail.job
    fields: dict[str, Any] = job_fields(stored.spec)
    fields["schedule"] = msgspec.convert(fields["schedule"], job_wire.ScheduleFields | None)
    fields["request"] = msgspec.convert(fields.get("request"), job_wire.RequestFields | None)
    fields["backoff"] = msgspec.convert(fields["backoff"], job_wire.BackoffFields)
    return job_wire.Job(
        **fields,
        id=stored.id,
        origin=stored.origin,
        revision=stored.revision,
        next_run=instant(stored.next_slot_at),
        last_run=None if detail.last_run is None else last_run(detail.last_run, detail.now),
        alarm=stored.alarm,
        created_at=format_instant(stored.created_at),
        updated_at=format_instant(stored.updated_at),
    )


def last_run(run: StoredRun, now: int) -> job_wire.LastRun:
    """A run in short."""
    return job_wire.LastRun(
        id=run.id, status=run.status, started_at=instant(run.started_at), duration=duration(run, now)
    )


def job_list(page: JobPage) -> job_wire.JobList:
    """One page of jobs."""
    counts = page.counts
    return job_wire.JobList(
        jobs=[job(detail) for detail in page.jobs],
        total=page.total,
        counts=job_wire.JobCounts(
            total=counts.total,
            enabled=counts.total - counts.disabled,
            disabled=counts.disabled,
            running=counts.running,
            failed=sum(counts.by_last.get(status, 0) for status in STATUS_GROUPS["failed"]),
            alarmed=counts.alarmed,
            by_last_status=counts.by_last,
        ),
        broken=[job_wire.BrokenJob(id=job_id, reason=reason) for job_id, reason in page.broken.items()],
    )


def job_stats(figures: JobFigures) -> job_wire.JobStats:
    """The figures of a job."""
    return job_wire.JobStats(
        runs=figures.runs,
        by_status={status.value: number for status, number in figures.by_status.items()},
        success_rate=figures.success_rate,
        average_duration=figures.average_duration,
        median_duration=figures.median_duration,
        p95_duration=figures.p95_duration,
    )


def submitted(answer: Submitted) -> run_wire.Submitted:
    """The answer to a submission."""
    return run_wire.Submitted(run_id=answer.run_id, status=answer.status, created=answer.created)


def duration(run: StoredRun, now: int) -> float | None:
    """How long the last attempt took, or has been taking."""
    end = now if run.status is RunStatus.RUNNING else run.finished_at
    return seconds(run.started_at, end)


def _run_fields(run: StoredRun, job_name: str, now: int) -> dict[str, Any]:
    return {
        "id": run.id,
        "job": job_name,
        "job_id": run.job_id,
        "status": run.status,
        "worker": run.node_id,
        "queue": run.queue,
        "priority": CLASS_PRIORITY[run.priority],
        "origin": run.origin,
        "slot": instant(run.slot_at),
        "key": run.key,
        "attempt": run.attempt,
        "retries": run.retries,
        "created_at": format_instant(run.created_at),
        "due_at": format_instant(run.due_at),
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "duration": duration(run, now),
        "reason": run.reason,
        "cancel_requested": run.cancel_requested_at is not None,
        "progress": _progress(run),
    }


def _progress(run: StoredRun) -> run_wire.Progress | None:
    reported = from_json(run.progress, run.token)
    if reported is None:
        return None
    said = reported.progress
    return run_wire.Progress(done=said.done, total=said.total, text=said.text, at=format_instant(reported.at))


def run_list(page: RunPage) -> run_wire.RunList:
    """One page of runs."""
    runs = [run_wire.Run(**_run_fields(run, page.job_names.get(run.job_id, run.job_id), page.now)) for run in page.runs]
    return run_wire.RunList(runs=runs, next=page.next)


def run(detail: RunDetail) -> run_wire.RunDetail:
    """A run with all that is known of it."""
    stored = detail.run
    results = [each.result for each in detail.attempts if each.effective and each.outcome is Outcome.COMPLETED]
    result = results[-1] if results else None
    attempts = [_attempt(each) for each in detail.attempts]
    if stored.status is RunStatus.RUNNING:
        attempts.append(_live(stored, detail.now))
    overrides = msgspec.json.decode(stored.overrides) if stored.overrides else {}
    return run_wire.RunDetail(
        **_run_fields(stored, detail.job_name, detail.now),
        parameters=msgspec.Raw(stored.parameters.encode()),
        timeout=overrides.get("timeout"),
        result=None if result is None else msgspec.Raw(result.encode()),
        output=detail.output or _as_text(result),
        attempts=attempts,
    )


def _as_text(result: str | None) -> str:
    """What a function returned, for where it printed nothing: a text as it is, anything else as JSON."""
    if result is None:
        return ""
    value = msgspec.json.decode(result)
    return value if isinstance(value, str) else result


def _attempt(attempt: StoredAttempt) -> run_wire.Attempt:
    return run_wire.Attempt(
        number=attempt.number,
        token=attempt.token,
        worker=attempt.node_id,
        started_at=format_instant(attempt.started_at),
        finished_at=format_instant(attempt.ended_at),
        duration=seconds(attempt.started_at, attempt.ended_at),
        outcome=attempt.outcome,
        effective=attempt.effective,
        exit_code=attempt.exit_code,
        error_type=attempt.error_type,
        error=attempt.error,
        traceback=attempt.traceback,
    )


def _live(run: StoredRun, now: int) -> run_wire.Attempt:
    """The attempt under way, which only the run knows of."""
    return run_wire.Attempt(
        number=run.attempt,
        token=run.token,
        worker=run.node_id,
        started_at=instant(run.started_at),
        duration=duration(run, now),
    )


def output(lines: list[OutputLine], after: int) -> run_wire.Output:
    """Lines of output."""
    return run_wire.Output(
        lines=[
            run_wire.OutputLine(number=line.number, time=format_instant(line.at), stream=line.stream, text=line.text)
            for line in lines
        ],
        next=lines[-1].number if lines else after,
    )


def worker(state: NodeState) -> system_wire.Worker:
    """A node."""
    node = state.node
    return system_wire.Worker(
        id=node.id,
        state="left" if not state.alive else "alive" if node.draining_at is None else "draining",
        leader=state.leader,
        tags=list(node.tags),
        queues=list(node.queues),
        active_jobs=state.active_runs,
        concurrency=node.concurrency,
        host=node.host,
        pid=node.pid,
        version=node.version,
        started_at=format_instant(node.started_at),
        last_seen=format_instant(node.last_seen_at),
    )


def queue(state: QueueState) -> system_wire.Queue:
    """A queue."""
    number = state.by_status.get
    return system_wire.Queue(
        name=state.name,
        paused=state.paused_at is not None,
        pending=number(RunStatus.PENDING, 0),
        queued=number(RunStatus.QUEUED, 0),
        running=number(RunStatus.RUNNING, 0),
        retrying=number(RunStatus.RETRYING, 0),
        held=number(RunStatus.HELD, 0),
    )


def execution(each: Execution) -> job_wire.Execution:
    """One attempt of a job's history."""
    attempt, of_run = each.attempt, each.run
    return job_wire.Execution(
        run_id=of_run.id,
        attempt=of_run.attempt if attempt is None else attempt.number,
        status=of_run.status.value if attempt is None else attempt.outcome.value,
        node=of_run.node_id if attempt is None else attempt.node_id,
        slot=instant(of_run.slot_at),
        started_at=instant(of_run.started_at if attempt is None else attempt.started_at),
        finished_at=None if attempt is None else format_instant(attempt.ended_at),
        duration=None if attempt is None else seconds(attempt.started_at, attempt.ended_at),
        error=None if attempt is None else attempt.error,
    )


def preview(shown: Preview) -> job_wire.SchedulePreview:
    """A schedule with its next fires."""
    fires = [job_wire.Fire(utc=fire.utc, local=fire.local, note=fire.note) for fire in shown.fires]
    return job_wire.SchedulePreview(words=shown.words, timezone=shown.timezone, fires=fires)
