"""The shapes of runs: the field names of the API for all that concerns them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from trisched.domain.run import Outcome, Priority, RunStatus

#: Seconds, or text such as "90s" or "5m".
Duration = float | str


class TriggerRequest(Struct, kw_only=True, omit_defaults=True):
    """How to run a stored job now; given parameters are laid over the stored ones."""

    parameters: dict[str, Any] | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    delay: Duration | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET


class SubmitRequest(Struct, kw_only=True, omit_defaults=True):
    """A run that is asked for: exactly one of job and function, at most one of delay and at."""

    job: str | UnsetType | None = UNSET
    function: str | UnsetType | None = UNSET
    parameters: dict[str, Any] | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    delay: Duration | UnsetType | None = UNSET
    at: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    retries: int | UnsetType | None = UNSET
    timeout: Duration | UnsetType | None = UNSET


class BatchRequest(Struct, kw_only=True):
    """Many runs, stored in one transaction: all or none."""

    runs: list[SubmitRequest]


class ReasonRequest(Struct, kw_only=True, omit_defaults=True):
    """Why, for people."""

    reason: str | UnsetType | None = UNSET


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


class Progress(Struct, kw_only=True):
    """How far the latest attempt says it is; ``total`` is null when it does not know."""

    done: float
    total: float | None
    text: str
    at: str


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
    #: Of the latest attempt: what it said last, in a line ``::progress 64/100 text`` or through its context.
    progress: Progress | None


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
