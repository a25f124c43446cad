"""The shapes of requests and answers: the only place where the field names of the API are spelled."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trisched.domain.run import Outcome, Priority, RunStatus

Duration = float | str
Kind = Literal["python", "shell"]


class FieldProblem(Struct, kw_only=True):
    """One broken rule: where, and what to do about it."""

    path: str
    message: str


class Problem(Struct, kw_only=True, omit_defaults=True):
    """An error, as application/problem+json."""

    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET
    #: For dependencies that lead back to themselves: the names along the way.
    cycle: list[str] | UnsetType = UNSET


class ScheduleFields(Struct, kw_only=True, omit_defaults=True):
    """A rule of time: exactly one of cron, every and at."""

    cron: str | UnsetType = UNSET
    every: Duration | UnsetType = UNSET
    at: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    start: str | UnsetType = UNSET
    end: str | UnsetType = UNSET
    jitter: Duration | UnsetType = UNSET
    dst_gap: Literal["next", "skip"] | UnsetType = UNSET
    dst_fold: Literal["first", "second", "both"] | UnsetType = UNSET
    #: The moment an interval counts from.
    anchor: str | UnsetType = UNSET
    #: What H in a cron expression is drawn from.
    key: str | UnsetType = UNSET


class BackoffFields(Struct, kw_only=True, omit_defaults=True):
    """How long to wait before the next attempt."""

    kind: Literal["exponential", "fixed"] | UnsetType = UNSET
    base: Duration | UnsetType = UNSET
    factor: float | UnsetType = UNSET
    max: Duration | UnsetType = UNSET
    jitter: Duration | UnsetType = UNSET


class JobChange(Struct, kw_only=True, omit_defaults=True):
    """Fields of a job; those left out stay as they are, null takes one back to its default."""

    name: str | UnsetType = UNSET
    type: Kind | UnsetType = UNSET
    function: str | None | UnsetType = UNSET
    command: str | list[str] | None | UnsetType = UNSET
    cwd: str | None | UnsetType = UNSET
    env: dict[str, str] | UnsetType = UNSET
    schedule: str | ScheduleFields | None | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    requires: list[str] | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    depends_on: list[str] | UnsetType = UNSET
    timeout: Duration | UnsetType = UNSET
    kill_after: Duration | UnsetType = UNSET
    retries: int | UnsetType = UNSET
    backoff: BackoffFields | UnsetType = UNSET
    misfire: Literal["skip", "catch_up_one", "catch_up_all"] | UnsetType = UNSET
    max_catch_up: int | UnsetType = UNSET
    overlap: Literal["skip", "queue", "allow", "cancel_running"] | UnsetType = UNSET
    delivery: Literal["retry", "hold"] | UnsetType = UNSET
    mode: Literal["async", "thread"] | None | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    description: str | UnsetType = UNSET


class JobFields(JobChange, kw_only=True, omit_defaults=True):
    """A job as a person writes it; what is left out gets its default."""

    name: str
    type: Kind


class LastRun(Struct, kw_only=True):
    """The newest run of a job, in short."""

    id: str
    status: RunStatus
    started_at: str | None
    duration: float | None


class Job(Struct, kw_only=True):
    """A job as stored: its fields, and what the server adds to them."""

    id: str
    name: str
    type: str
    function: str | None = None
    command: str | list[str] | None = None
    cwd: str | None = None
    env: dict[str, str]
    schedule: ScheduleFields | dict[str, Any] | None
    timezone: str
    parameters: dict[str, Any]
    tags: list[str]
    requires: list[str]
    queue: str
    priority: Priority
    depends_on: list[str]
    timeout: float
    kill_after: float
    retries: int
    backoff: BackoffFields | dict[str, Any]
    misfire: str
    max_catch_up: int
    overlap: str
    delivery: str
    mode: str | None = None
    enabled: bool
    description: str
    origin: str
    revision: int
    next_run: str | None
    last_run: LastRun | None
    #: What keeps the job from running, for people.
    alarm: str | None
    created_at: str
    updated_at: str


class BrokenJob(Struct, kw_only=True):
    """A stored job that this version cannot read."""

    id: str
    reason: str


class JobCounts(Struct, kw_only=True):
    """Figures over all jobs, whatever the filter. ``failed``: the newest run is retrying or dead."""

    total: int
    enabled: int
    disabled: int
    running: int
    failed: int
    alarmed: int
    by_last_status: dict[str, int]


class JobList(Struct, kw_only=True):
    """One page of jobs."""

    jobs: list[Job]
    total: int
    counts: JobCounts
    broken: list[BrokenJob]


class JobStats(Struct, kw_only=True):
    """Rates and durations over the newest 1,000 runs of a job."""

    runs: int
    by_status: dict[str, int]
    success_rate: float | None
    average_duration: float | None
    median_duration: float | None
    p95_duration: float | None


class TriggerRequest(Struct, kw_only=True, omit_defaults=True):
    """How to run a stored job now; given parameters are laid over the stored ones."""

    parameters: dict[str, Any] | None | UnsetType = UNSET
    priority: Priority | None | UnsetType = UNSET
    delay: Duration | None | UnsetType = UNSET
    key: str | None | UnsetType = UNSET


class SubmitRequest(Struct, kw_only=True, omit_defaults=True):
    """A run that is asked for: exactly one of job and function, at most one of delay and at."""

    job: str | None | UnsetType = UNSET
    function: str | None | UnsetType = UNSET
    parameters: dict[str, Any] | None | UnsetType = UNSET
    queue: str | None | UnsetType = UNSET
    priority: Priority | None | UnsetType = UNSET
    delay: Duration | None | UnsetType = UNSET
    at: str | None | UnsetType = UNSET
    key: str | None | UnsetType = UNSET
    retries: int | None | UnsetType = UNSET
    timeout: Duration | None | UnsetType = UNSET


class BatchRequest(Struct, kw_only=True):
    """Many runs, stored in one transaction: all or none."""

    runs: list[SubmitRequest]


class ReasonRequest(Struct, kw_only=True, omit_defaults=True):
    """Why, for people."""

    reason: str | None | UnsetType = UNSET


class Submitted(Struct, kw_only=True):
    """The run that stands for a request; ``created`` is false when it was there already."""

    run_id: str
    status: RunStatus
    created: bool


class SubmittedBatch(Struct, kw_only=True):
    """The runs of a batch, in its order."""

    runs: list[Submitted]


class RunStatusAnswer(Struct, kw_only=True):
    """What became of a run."""

    run_id: str
    status: RunStatus


class Attempt(Struct, kw_only=True):
    """One try of a run on one node. One that is under way has neither end nor outcome."""

    number: int
    token: int
    worker: str | None
    started_at: str | None
    finished_at: str | None = None
    duration: float | None
    outcome: Outcome | None = None
    #: False: its result came after the run had been given to another, and had no effect.
    effective: bool = True
    exit_code: int | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None


class Run(Struct, kw_only=True):
    """A run in a list."""

    id: str
    job: str
    job_id: str
    status: RunStatus
    worker: str | None
    queue: str
    priority: Priority
    origin: str
    slot: str | None
    key: str | None
    attempt: int
    retries: int
    created_at: str
    due_at: str
    started_at: str | None
    finished_at: str | None
    duration: float | None
    reason: str | None
    cancel_requested: bool


class RunDetail(Run, kw_only=True):
    """A run with its parameters, its attempts and what it put out."""

    parameters: Raw
    #: The time limit that was asked for, where it is not that of the job.
    timeout: float | None
    result: Raw | None
    #: The text of the last attempt; its result where it printed nothing.
    output: str
    attempts: list[Attempt]


class RunList(Struct, kw_only=True):
    """One page of runs, newest first; ``next`` is the cursor of the page after it."""

    runs: list[Run]
    next: str | None


class OutputLine(Struct, kw_only=True):
    """One line that an attempt put out."""

    number: int
    time: str
    stream: str
    text: str


class Output(Struct, kw_only=True):
    """Lines of output; ask for those after ``next`` later."""

    lines: list[OutputLine]
    next: int


class Worker(Struct, kw_only=True):
    """A node."""

    id: str
    state: Literal["alive", "draining", "left"]
    leader: bool
    tags: list[str]
    #: Empty: it takes from all queues.
    queues: list[str]
    active_jobs: int
    concurrency: int
    host: str
    pid: int
    version: str
    started_at: str
    last_seen: str


class Queue(Struct, kw_only=True):
    """A queue and what of it is not over."""

    name: str
    paused: bool
    pending: int
    queued: int
    running: int
    retrying: int
    held: int


class Lease(Struct, kw_only=True):
    """The lengths of leases and of the grace after them, in seconds."""

    node: float
    grace: float
    leader: float


class Store(Struct, kw_only=True):
    """The database."""

    kind: str
    state: str


class Redis(Struct, kw_only=True):
    """The Redis instances, if any."""

    state: str
    instances: list[dict[str, Any]]


class Alarm(Struct, kw_only=True):
    """What keeps a job from running."""

    job_id: str
    job: str
    text: str


class System(Struct, kw_only=True):
    """How the cluster is, as this node sees it."""

    version: str
    state: Literal["healthy", "degraded", "read-only"]
    node: str
    leader: str | None
    epoch: int
    lease: Lease
    database: Store
    redis: Redis
    alarms: list[Alarm]


class SchedulerStats(Struct, kw_only=True):
    """Runs that were over within the last 24 hours, and those under way."""

    completed_24h: int
    failed_24h: int
    running: int


class SchedulerStatus(Struct, kw_only=True):
    """Nodes and figures."""

    nodes: list[Worker]
    stats: SchedulerStats


class Execution(Struct, kw_only=True):
    """One attempt of one run of a job."""

    run_id: str
    attempt: int
    status: str
    node: str | None
    slot: str | None
    started_at: str | None
    finished_at: str | None
    duration: float | None
    error: str | None


class History(Struct, kw_only=True):
    """The last executions of a job, the latest first."""

    executions: list[Execution]


class Fire(Struct, kw_only=True):
    """One slot: in UTC, in the zone of the schedule, and what a change of the clock does to it."""

    utc: str
    local: str
    note: str | None


class SchedulePreview(Struct, kw_only=True):
    """A schedule in words, with its next fires."""

    words: str
    timezone: str
    fires: list[Fire]


class Health(Struct, kw_only=True):
    """Whether the node answers, or is ready for work."""

    status: str


class Welcome(Struct, kw_only=True):
    """Where to go from here."""

    name: str
    version: str
    api: str
    openapi: str


def encode(value: object) -> bytes:
    """``value`` as JSON."""
    return msgspec.json.encode(value)
