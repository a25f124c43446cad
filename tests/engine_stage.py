"""Where the engine's tests play: a database, and the parts of nodes put together on it, on virtual or real time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, TypeVar

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from trisched.clock import Clock, Ids, SystemClock
from trisched.coordinator.leader import Leadership
from trisched.coordinator.membership import Membership
from trisched.domain.job import Job
from trisched.domain.node import LeaseTimes, Node
from trisched.domain.run import Attempt, Run, RunStatus
from trisched.errors import StoreUnavailable
from trisched.operations import jobs as job_operations
from trisched.operations import runs as run_operations
from trisched.operations.runs import Submission
from trisched.operations.scope import Scope, required_job
from trisched.scheduler.loop import Scheduler
from trisched.storage.connect import connect
from trisched.storage.database import Database, Work
from trisched.storage.job_cache import JobCache
from trisched.storage.sqlite import SqliteDatabase
from trisched.storage.statements import rendered
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.node import Registration
from trisched.storage.wakeup import Wakeups
from trisched.worker.executors import Executor
from trisched.worker.executors.function import AsyncFunction, ThreadFunction
from trisched.worker.loop import Worker, WorkerSettings
from trisched.worker.plan import Plans
from trisched.worker.tasks import Tasks

T = TypeVar("T")
SECOND: Final = 1_000_000
#: Longer than any test, on either clock.
_FOR_EVER_US: Final = 365 * 86_400 * SECOND


def instant(text: str) -> int:
    """Microseconds of an RFC 3339 time."""
    return round(datetime.fromisoformat(text).timestamp()) * SECOND


#: Virtual time begins here, on a Monday at midnight.
START: Final = instant("2026-03-02T00:00:00Z")


class VirtualClock:
    """Wall time that moves with Trio's clock, and can be set apart from it."""

    def __init__(self) -> None:
        self.ahead_us = 0

    def now_us(self) -> int:
        return START + self.ahead_us + round(trio.current_time() * SECOND)


#: What becomes of a call, given its kind: it may fail before it reaches the database, or its answer may get lost.
Fault = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def no_fault(_: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """The call goes through."""
    return await call()


async def cut(_: str, __: Callable[[], Awaitable[Any]]) -> Any:
    """The call does not reach the database."""
    raise StoreUnavailable("cut")


class Link:
    """A real database behind a link that tests can break, and that counts the calls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.kind, self.label = database.kind, database.label
        self.wakeups: Wakeups = database.wakeups
        self.fault: Fault = no_fault
        #: The time and kind of every call.
        self.calls: list[tuple[float, str]] = []

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def listen(self) -> None:
        await self._database.listen()

    async def read(self, work: Work[T]) -> T:
        return await self._pass("read", lambda: self._database.read(work))

    async def write(self, work: Work[T]) -> T:
        return await self._pass("write", lambda: self._database.write(work))

    async def control(self, work: Work[T]) -> T:
        return await self._pass("control", lambda: self._database.control(work))

    async def _pass(self, kind: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls.append((trio.current_time(), kind))
        answer: T = await self.fault(kind, call)
        return answer


@attrs.define
class Stage:
    """One database and what is made on it."""

    database: Database
    clock: Clock
    random: random.Random
    ids: Ids
    tasks: Tasks
    scope: Scope

    @classmethod
    def on(cls, database: Database, clock: Clock) -> Stage:
        """A stage on an open database."""
        randomness = random.Random(7)
        ids, tasks = Ids(clock, randomness), Tasks()
        return cls(database, clock, randomness, ids, tasks, Scope(database=database, ids=ids, tasks=tasks))

    def set_clock(self, now: int) -> None:
        """Sets the wall clock of virtual time; Trio's clock does not notice."""
        assert isinstance(self.clock, VirtualClock)
        self.clock.ahead_us += now - self.clock.now_us()

    async def job(self, name: str, **fields: object) -> Job:
        """A stored job; it calls the task ``work`` unless told otherwise."""
        if not {"function", "command"} & fields.keys():
            fields["function"] = "work"
        if "function" in fields and not self.tasks.knows(str(fields["function"])):
            self.tasks.register(str(fields["function"]), do_nothing, None)
        kind = "shell" if "command" in fields else "python"
        return await job_operations.create(self.scope, {"name": name, "type": kind, **fields})

    async def change(self, name: str, **fields: object) -> Job:
        return await job_operations.patch(self.scope, name, fields)

    async def submit(self, job: str, parameters: Mapping[str, object] | None = None, **fields: Any) -> str:
        """The id of a new run."""
        wish = Submission(job=job, parameters=dict(parameters or {}), **fields)
        return (await run_operations.submit(self.scope, wish)).run_id

    async def cancel(self, run_id: str) -> RunStatus:
        return await run_operations.cancel(self.scope, run_id)

    async def run(self, run_id: str) -> Run:
        run = await self.database.read(lambda tx: run_table.get(tx, run_id))
        assert run is not None
        return run

    async def runs(self, job: Job) -> list[Run]:
        """All runs of the job, the oldest first."""
        where = ["job_id = :job_id"]
        found = await self.database.read(lambda tx: run_lookup.list_runs(tx, where, {"job_id": job.id}, 1_000_000))
        return found[::-1]

    async def attempts(self, run_id: str) -> list[Attempt]:
        return await self.database.read(lambda tx: attempt_table.of_run(tx, run_id))

    async def output(self, run_id: str, token: int = 1) -> list[str]:
        """The stored lines of one attempt."""
        chunks = await self.database.read(lambda tx: attempt_table.output_of(tx, run_id, token))
        return [line[3] for chunk in chunks for line in msgspec.json.decode(chunk)]

    async def stored(self, name: str) -> Job:
        return await self.database.read(lambda tx: required_job(tx, name))

    async def rows(self, text: str, **parameters: object) -> list[tuple[Any, ...]]:
        """The answer to plain SQL."""
        return await self.database.read(lambda tx: tx.rows(rendered("test", text), **parameters))

    async def execute(self, text: str, **parameters: object) -> int:
        """How many rows plain SQL changed."""
        return await self.database.write(lambda tx: tx.count(rendered("test", text), **parameters))

    async def nodes(self) -> list[Node]:
        return await self.database.read(node_table.list_nodes)

    async def wait(self, run_id: str, *statuses: RunStatus, within: float = 60.0) -> Run:
        """The run, when it has come to one of these statuses."""

        async def arrived() -> bool:
            return (await self.run(run_id)).status in statuses

        await wait_until(arrived, within)
        return await self.run(run_id)

    def registration(self, node_id: str, **fields: Any) -> Registration:
        defaults: dict[str, Any] = {
            "id": node_id,
            "incarnation": self.ids.token(),
            "host": "here",
            "pid": 100,
            "version": "1",
            "tags": (),
            "queues": (),
            "tasks": (),
            "concurrency": 10,
        }
        return Registration(**(defaults | fields))

    async def register(self, node_id: str, *, lease: float | None = None) -> str:
        """The incarnation of a node that is alive for ``lease`` seconds, else for ever."""
        node = self.registration(node_id)
        lease_us = _FOR_EVER_US if lease is None else int(lease * SECOND)
        assert await self.database.write(
            lambda tx: node_table.register(tx, node, nonce="n", lease_us=lease_us, dead=None)
        )
        return node.incarnation

    async def lead(self, incarnation: str = "the leader", *, lease: float | None = None) -> int:
        """The epoch of a leader that was elected just now, whoever led before."""
        lease_us = _FOR_EVER_US if lease is None else int(lease * SECOND)
        election = Election(incarnation, lease_us)
        return await self.database.write(election.hold)

    @asynccontextmanager
    async def scheduling(self, database: Database | None = None, epoch: int | None = None) -> AsyncIterator[int]:
        """A scheduler at work while the block lasts; its epoch."""
        store = database or self.database
        epoch = await self.lead() if epoch is None else epoch
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Scheduler(store, JobCache(store), self.ids, epoch).run)
            yield epoch
            nursery.cancel_scope.cancel()

    async def worker(
        self,
        node_id: str = "node-a",
        *,
        database: Database | None = None,
        tasks: Tasks | None = None,
        lease_ok: Callable[[], bool] = lambda: True,
        incarnation: str | None = None,
        tags: tuple[str, ...] = (),
        **settings: Any,
    ) -> Worker:
        """A worker of a living node, not started yet."""
        store = database or self.database
        executors: dict[str, Executor] = {
            "async": AsyncFunction(),
            "thread": ThreadFunction(trio.CapacityLimiter(10)),
        }
        plans = Plans(JobCache(store), tasks or self.tasks, executors, frozenset(tags))
        incarnation = await self.register(node_id) if incarnation is None else incarnation
        return Worker(
            store,
            plans,
            WorkerSettings(node_id=node_id, incarnation=incarnation, **settings),
            ids=self.ids,
            clock=self.clock,
            randomness=self.random,
            lease_ok=lease_ok,
            submit=_no_submit,
        )

    @asynccontextmanager
    async def working(self, *args: Any, **settings: Any) -> AsyncIterator[Worker]:
        """A worker at work while the block lasts; it is drained at its end."""
        worker = await self.worker(*args, **settings)
        async with trio.open_nursery() as nursery:
            await nursery.start(worker.run)
            yield worker
            if not worker._stopping.is_set():
                worker.stop()

    def membership(self, node_id: str = "node-a", **given: Any) -> Membership:
        defaults: dict[str, Any] = {
            "node": self.registration(node_id),
            "times": LeaseTimes(),
            "ids": self.ids,
            "fence": lambda: None,
            "alive": lambda _: True,
            "database": self.database,
        }
        return Membership(**(defaults | given))

    def leadership(self, node_id: str, reign: Callable[[int], Awaitable[None]], **given: Any) -> Leadership:
        defaults: dict[str, Any] = {
            "database": self.database,
            "times": LeaseTimes(),
            "node_id": node_id,
            "incarnation": self.ids.token(),
        }
        return Leadership(**(defaults | given), reign=reign)


@attrs.frozen
class Election:
    """Makes a leader at once."""

    incarnation: str
    lease_us: int

    def hold(self, tx: Any) -> int:
        epoch = leader_table.seen(tx).epoch
        assert leader_table.take(
            tx, epoch=epoch, node_id="node", incarnation=self.incarnation, lease_us=self.lease_us, only_one=True
        )
        return epoch + 1


async def do_nothing() -> None:
    """A task."""
    return


async def wait_until(condition: Callable[[], Awaitable[object]], within: float = 30.0) -> None:
    """Returns when ``condition`` holds."""
    with trio.fail_after(within):
        while not await condition():  # noqa: ASYNC110 - what is waited for is in the database
            await trio.sleep(0.02)


async def _no_submit(*_: Any, **__: Any) -> None:
    raise AssertionError("no task of these tests submits")


@pytest.fixture
async def stage(autojump_clock: MockClock) -> AsyncIterator[Stage]:
    """A stage on virtual time: the clock jumps to the next moment at which somebody wants to go on."""
    clock = VirtualClock()
    database = SqliteDatabase(":memory:", clock, inline=True)
    await database.open()
    yield Stage.on(database, clock)
    await database.close()


@asynccontextmanager
async def real_stage(url: str, origin: str = "here") -> AsyncIterator[Stage]:
    """A stage on the database at ``url`` and on real time."""
    clock = SystemClock()
    database = connect(url, clock=clock, origin=origin)
    await database.open()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(database.listen)
            yield Stage.on(database, clock)
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await database.close()
