"""The shapes of nodes, queues and the cluster: the field names of the API for all that concerns them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


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


class Health(Struct, kw_only=True):
    """Whether the node answers, or is ready for work."""

    status: str


class Welcome(Struct, kw_only=True):
    """Where to go from here."""

    name: str
    version: str
    api: str
    openapi: str
