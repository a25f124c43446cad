"""Jobs: the stored definition of what to do, when, and how; the fields of the contract as one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from trisched.domain.backoff import Backoff
from trisched.domain.request import Request
from trisched.domain.run import Priority
from trisched.domain.schedule import Schedule

JOB_TYPES: Final = ("python", "shell", "http")
MISFIRES: Final = ("skip", "catch_up_one", "catch_up_all")
OVERLAPS: Final = ("skip", "queue", "allow", "cancel_running")
DELIVERIES: Final = ("retry", "hold", "transactional")
MODES: Final = ("process", "thread", "async")

#: Who made a job: each origin changes only its own.
ORIGIN_API: Final = "api"
ORIGIN_CODE: Final = "code"
ORIGIN_FILE: Final = "file"


@attrs.frozen(kw_only=True)
class JobSpec:
    """What a person writes: the same fields in REST, TOML and Python."""

    name: str
    type: str
    function: str | None = None
    command: str | tuple[str, ...] | None = None
    cwd: str | None = None
    env: Mapping[str, str] = attrs.field(factory=dict)
    request: Request | None = None
    schedule: Schedule | None = None
    timezone: str = "UTC"
    parameters: str = "{}"
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    queue: str = "default"
    priority: Priority = Priority.NORMAL
    depends_on: tuple[str, ...] = ()
    timeout: float = 3600.0
    kill_after: float = 10.0
    retries: int = 3
    backoff: Backoff = Backoff()
    misfire: str = "skip"
    max_catch_up: int = 100
    overlap: str = "skip"
    delivery: str = "retry"
    mode: str | None = None
    enabled: bool = True
    description: str = ""


@attrs.frozen(kw_only=True)
class Job:
    """A job as stored: the specification and what the server adds to it."""

    id: str
    origin: str
    revision: int
    spec: JobSpec
    #: The first slot that has not been handled yet; None when there is none to come, or it is disabled.
    next_slot_at: int | None
    dispatch_failures: int
    #: What keeps the job from running, for people: the last dispatch error.
    alarm: str | None
    created_at: int
    updated_at: int
