"""The state of the whole: nodes, queues, leadership, the figures of the last day, and what keeps jobs from running."""

from __future__ import annotations

from typing import Final

import attrs

from trisched.domain.node import Node
from trisched.domain.run import RunStatus
from trisched.operations.run_views import id_at
from trisched.operations.scope import Scope
from trisched.storage.database import Tx
from trisched.storage.tables import job as job_table
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.leader import Leader

_DAY_US: Final = 86_400_000_000
_MOST_ALARMS: Final = 100


@attrs.frozen(kw_only=True)
class NodeState:
    """A node as the database sees it now."""

    node: Node
    #: Its lease runs; else it has left, or was lost.
    alive: bool
    leader: bool
    active_runs: int


@attrs.frozen(kw_only=True)
class QueueState:
    """A queue and what of it is not over."""

    name: str
    paused_at: int | None
    by_status: dict[RunStatus, int]


@attrs.frozen(kw_only=True)
class Alarm:
    """What keeps a job from running."""

    job_id: str
    job: str
    text: str


@attrs.frozen(kw_only=True)
class SystemState:
    """How the cluster is."""

    database_kind: str
    leader: Leader
    alarms: list[Alarm]


@attrs.frozen(kw_only=True)
class SchedulerState:
    """The nodes, and the figures of the last day."""

    nodes: list[NodeState]
    running: int
    #: Runs that were over within the last 24 hours, by status.
    finished: dict[RunStatus, int]


async def workers(scope: Scope) -> list[NodeState]:
    """All nodes, also those that left lately."""
    return await scope.database.read(_nodes)


def _nodes(tx: Tx) -> list[NodeState]:
    leader, held = leader_table.seen(tx), run_lookup.claimed_counts(tx)
    return [
        NodeState(
            node=node,
            alive=node.lease_until > leader.now,
            leader=leader.alive and leader.incarnation == node.incarnation,
            active_runs=held.get(node.incarnation, 0),
        )
        for node in node_table.list_nodes(tx)
    ]


async def queues(scope: Scope) -> list[QueueState]:
    """All queues, by name."""

    def work(tx: Tx) -> list[QueueState]:
        counts = run_lookup.unfinished(tx)
        return [
            QueueState(
                name=name,
                paused_at=paused_at,
                by_status={status: number for (queue, status), number in counts.items() if queue == name},
            )
            for name, paused_at in job_table.queues(tx)
        ]

    return await scope.database.read(work)


async def state(scope: Scope) -> SystemState:
    """Who leads, and what needs a person."""

    def work(tx: Tx) -> SystemState:
        return SystemState(
            database_kind=scope.database.kind,
            leader=leader_table.seen(tx),
            alarms=[
                Alarm(job_id=job_id, job=name, text=text) for job_id, name, text in job_table.alarms(tx, _MOST_ALARMS)
            ],
        )

    return await scope.database.read(work)


async def scheduler(scope: Scope) -> SchedulerState:
    """The nodes and what was done in the last 24 hours."""

    def work(tx: Tx) -> SchedulerState:
        since = run_table.now(tx) - _DAY_US
        nodes = _nodes(tx)
        return SchedulerState(
            nodes=nodes,
            running=sum(node.active_runs for node in nodes),
            # Runs made a day before that are counted too; older ones that ended only now are left out.
            finished=run_lookup.finished_since(tx, since, id_at(since - _DAY_US)),
        )

    return await scope.database.read(work)


async def answers(scope: Scope) -> None:
    """Returns if the database answers; StoreUnavailable if it does not."""
    await scope.database.read(run_table.now)
