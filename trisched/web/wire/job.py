"""The shapes of jobs: the field names of the API for all that concerns them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from trisched.domain.run import Priority, RunStatus

#: Seconds, or text such as "90s" or "5m".
Duration = float | str
Kind = Literal["python", "shell", "http"]


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


class RequestFields(Struct, kw_only=True, omit_defaults=True):
    """What an HTTP job sends, and what it takes for an answer. ``json`` and ``body`` exclude each other."""

    url: str
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    json: Any | UnsetType = UNSET
    body: str | UnsetType = UNSET
    #: A status, a range ("2xx", "200-204"), or a list of these.
    expect: int | str | list[int | str] | UnsetType = UNSET
    connect_timeout: Duration | UnsetType = UNSET
    #: The longest silence of the server.
    read_timeout: Duration | UnsetType = UNSET
    max_redirects: int | UnsetType = UNSET
    #: Bytes of the answer that are kept.
    max_response: int | UnsetType = UNSET


class JobChange(Struct, kw_only=True, omit_defaults=True):
    """Fields of a job; those left out stay as they are, null takes one back to its default."""

    name: str | UnsetType = UNSET
    type: Kind | UnsetType = UNSET
    function: str | UnsetType | None = UNSET
    command: str | list[str] | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    env: dict[str, str] | UnsetType = UNSET
    request: RequestFields | UnsetType | None = UNSET
    schedule: str | ScheduleFields | UnsetType | None = UNSET
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
    mode: Literal["async", "thread"] | UnsetType | None = UNSET
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
    request: RequestFields | None = None
    schedule: ScheduleFields | None
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
    backoff: BackoffFields
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
