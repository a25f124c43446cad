"""Runs and attempts: what one requested execution is, and the words for its states."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs


class RunStatus(StrEnum):
    """Where a run stands. The only place in Python that spells these words."""

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    HELD = "held"


#: A run in one of these is over: it changes only when a person asks for it.
FINISHED: Final = frozenset({RunStatus.COMPLETED, RunStatus.DEAD, RunStatus.CANCELLED, RunStatus.SKIPPED})
#: A run in one of these is waiting or working: overlap and trigger collapse look at them.
ACTIVE: Final = frozenset({RunStatus.PENDING, RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.RETRYING})
_DAY_US: Final = 86_400 * 1_000_000
#: How long finished runs are kept: completed ones shorter than those that people look into.
KEEP_COMPLETED_US: Final = 7 * _DAY_US
KEEP_OTHERS_US: Final = 90 * _DAY_US
#: Words a caller may filter by that stand for several statuses.
STATUS_GROUPS: Final = {
    "failed": frozenset({RunStatus.RETRYING, RunStatus.DEAD}),
    "finished": FINISHED,
    "active": ACTIVE,
}


class Outcome(StrEnum):
    """How one attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    RELEASED = "released"


class Priority(StrEnum):
    """Who goes first. One class lower waits one hour longer before it is equal."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


#: The class numbers that are stored: lower goes first.
PRIORITY_CLASS: Final = {Priority.CRITICAL: 0, Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 3}
CLASS_PRIORITY: Final = {number: priority for priority, number in PRIORITY_CLASS.items()}
#: Waiting this long is worth one class.
AGING_US: Final = 3_600_000_000


def rank(due_at: int, priority_class: int) -> int:
    """The key that queued runs are sorted by: aging needs no updates, only this sum."""
    return due_at + priority_class * AGING_US


#: Why a pending run is not merely waiting for its time: an earlier run of its job, a place under a limit of its job,
#: runs that it depends on.
WAITS_OVERLAP: Final = "overlap"
WAITS_LIMIT: Final = "limit"
WAITS_UPSTREAM: Final = "upstream"


@attrs.frozen(kw_only=True)
class Run:
    """One requested execution of a job, as stored."""

    id: str
    job_id: str
    job_revision: int
    queue: str
    status: RunStatus
    priority: int
    due_at: int
    slot_at: int | None
    key: str | None
    origin: str
    parameters: str
    overrides: str | None
    retries: int
    attempt: int
    failures: int
    crashes: int
    token: int
    claim_id: str | None
    node_id: str | None
    incarnation: str | None
    waits: str | None
    reason: str | None
    cancel_requested_at: int | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    #: What the limits of the job count it by.
    limit_group: str | None = None
    unique_key: str | None = None
    #: The run that began the flow it belongs to.
    flow_id: str | None = None
    #: What its upstream runs must have come to; None for a run without upstream.
    upstream_when: str | None = None
    #: 1: other runs wait for this one.
    feeds: int = 0
    #: Equal for errors of the same kind; set when the run is buried.
    fingerprint: str | None = None
    #: JSON of how far the attempt under way is.
    progress: str | None = None


@attrs.frozen(kw_only=True)
class Attempt:
    """One try of a run on one node, as stored when it ended."""

    run_id: str
    token: int
    claim_id: str
    number: int
    node_id: str
    started_at: int
    ended_at: int
    outcome: Outcome
    effective: bool
    exit_code: int | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    result: str | None = None
