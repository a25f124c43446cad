"""The routes of nodes, queues and the cluster, and those that tell whether the node is well."""

from __future__ import annotations

from typing import Final

import trio

from trisched.domain.run import RunStatus
from trisched.errors import StoreUnavailable
from trisched.operations import job_views
from trisched.operations import system as operations
from trisched.web import shape
from trisched.web.route import Answer, Call, Routes
from trisched.web.wire import job as job_wire
from trisched.web.wire import system as wire

ROUTES: Final = Routes("system")
#: A database that takes longer than this is not ready for work.
_PATIENCE: Final = 3.0


@ROUTES.add("GET", "/", "Tells where to go", answers={200: wire.Welcome})
async def show_welcome(call: Call) -> Answer:
    """A few words for a browser."""
    return Answer(
        wire.Welcome(name="trisched", version=call.info.version, api="/api/system", openapi="/api/openapi.json")
    )


@ROUTES.add("GET", "/healthz", "Tells whether the node answers", answers={200: wire.Health})
async def show_health(_: Call) -> Answer:
    """Says nothing about the database: a node is not restarted because that is away."""
    return Answer(wire.Health(status="ok"))


@ROUTES.add("GET", "/readyz", "Tells whether the node is ready for work", answers={200: wire.Health}, errors=(503,))
async def show_readiness(call: Call) -> Answer:
    """503 while the database does not answer, or the node's lease is not good."""
    if not call.info.ready():
        raise StoreUnavailable("the node has no lease that it can trust; it takes no work")
    with trio.move_on_after(_PATIENCE) as scope:
        await operations.answers(call.scope)
    if scope.cancelled_caught:
        raise StoreUnavailable(f"the database did not answer within {_PATIENCE:g} s")
    return Answer(wire.Health(status="ready"))


@ROUTES.add("GET", "/api/workers", "Lists nodes", answers={200: list[wire.Worker]})
async def list_workers(call: Call) -> Answer:
    """Those that left lately are among them."""
    return Answer([shape.worker(state) for state in await operations.workers(call.scope)])


@ROUTES.add("GET", "/api/queues", "Lists queues", answers={200: list[wire.Queue]})
async def list_queues(call: Call) -> Answer:
    """With what of each is not over."""
    return Answer([shape.queue(state) for state in await operations.queues(call.scope)])


@ROUTES.add("GET", "/api/system", "Shows the state of the cluster", answers={200: wire.System})
async def show_system(call: Call) -> Answer:
    """Degraded: nobody leads, so that no schedule fires."""
    state, info = await operations.state(call.scope), call.info
    leads = state.leader.alive
    return Answer(
        wire.System(
            version=info.version,
            state="healthy" if leads else "degraded",
            node=info.node_id,
            leader=state.leader.node_id if leads else None,
            epoch=state.leader.epoch,
            lease=wire.Lease(node=info.lease_times.node, grace=info.lease_times.grace, leader=info.lease_times.leader),
            database=wire.Store(kind=state.database_kind, state="ok"),
            redis=wire.Redis(state="not configured", instances=[]),
            alarms=[wire.Alarm(job_id=alarm.job_id, job=alarm.job, text=alarm.text) for alarm in state.alarms],
        )
    )


@ROUTES.add("GET", "/v1/scheduler/status", "Shows nodes and the figures of the last day",
            answers={200: wire.SchedulerStatus})  # fmt: skip
async def show_scheduler(call: Call) -> Answer:
    """Failed are those that ended dead."""
    state = await operations.scheduler(call.scope)
    stats = wire.SchedulerStats(
        completed_24h=state.finished.get(RunStatus.COMPLETED, 0),
        failed_24h=state.finished.get(RunStatus.DEAD, 0),
        running=state.running,
    )
    return Answer(wire.SchedulerStatus(nodes=[shape.worker(node) for node in state.nodes], stats=stats))


@ROUTES.add("GET", "/v1/scheduler/tasks/{job}/history", "Lists the last 50 executions of a job",
            answers={200: job_wire.History}, errors=(404,))  # fmt: skip
async def show_history(call: Call) -> Answer:
    """The latest first."""
    executions = await job_views.history(call.scope, call.path["job"])
    return Answer(job_wire.History(executions=[shape.execution(each) for each in executions]))
