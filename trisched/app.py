"""App: the jobs of a program, and the node that runs them; inside a Trio program, as a process, or in a thread."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import trio

from trisched.clock import Ids, SystemClock
from trisched.config import JobTable, Settings, load
from trisched.domain.job import ORIGIN_CODE, ORIGIN_FILE
from trisched.domain.job_fields import FIELD_NAMES
from trisched.domain.request import REQUEST_FIELDS
from trisched.errors import TrischedError
from trisched.handle import Desk, JobHandle, RunHandle
from trisched.node import Node, Started, own, write_card
from trisched.operations import job_views
from trisched.operations import jobs as job_operations
from trisched.operations.scope import Scope
from trisched.storage.connect import connect
from trisched.sync import NodeThread, Sync
from trisched.worker.tasks import Tasks

P = ParamSpec("P")
R = TypeVar("R")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class App:
    """The jobs of a program. Settings given here come before environment and file, and after the command line."""

    def __init__(self, database: str | None = None, **settings: Any) -> None:
        self.flags: dict[str, Any] = {"database": database, **settings} if database else settings
        self.tasks = Tasks()
        self._settings: Settings | None = None
        self._declared: dict[str, list[dict[str, Any]]] = {ORIGIN_CODE: [], ORIGIN_FILE: []}
        self._scope: Scope | None = None
        self._desk = Desk(self._open_scope)
        self._node: Node | None = None
        self._thread: NodeThread | None = None
        #: Submit, trigger and wait from code without Trio.
        self.sync = Sync(self, self._open_thread)

    def configure(self, settings: Settings) -> None:
        """Takes the settings of the command line instead of working out its own."""
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        if self._settings is None:
            self._settings = load({}, os.environ, None, code=self.flags)
        return self._settings

    def job(self, *, name: str | None = None, **fields: Any) -> Callable[[Callable[P, R]], JobHandle[P, R]]:
        """Declares a function as a job: ``@app.job(schedule="0 9 * * *", retries=5)``; see the job fields."""

        def declare(function: Callable[P, R]) -> JobHandle[P, R]:
            job_name = name if name is not None else str(getattr(function, "__name__", function))
            task = self.tasks.register(_task_name(function), function, fields.get("mode"))
            self._declare({"name": job_name, "type": "python", "function": task.name, **fields, "mode": task.mode})
            return JobHandle(job_name, function, self._desk)

        return declare

    def task(self, name: str | None = None, *, mode: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Registers a function under a dotted name, for jobs that are made by API or file."""

        def register(function: Callable[P, R]) -> Callable[P, R]:
            self.tasks.register(name or _task_name(function), function, mode)
            return function

        return register

    def shell(self, name: str, command: str | list[str], **fields: Any) -> None:
        """Declares a command as a job."""
        self._declare({"name": name, "type": "shell", "command": command, **fields})

    def http(self, name: str, url: str, **fields: Any) -> None:
        """Declares a request as a job; takes the fields of a request and those of a job."""
        request = {key: fields.pop(key) for key in REQUEST_FIELDS if key in fields}
        self._declare({"name": name, "type": "http", "request": {"url": url, **request}, **fields})

    def declare_file(self, tables: Iterable[JobTable]) -> None:
        """Declares the jobs of a ``trisched.toml``."""
        self._declared[ORIGIN_FILE] += [{**table.fields, "name": table.name} for table in tables]

    async def submit(self, job: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Makes a run of ``job`` with parameters; options: key, delay, at, priority, queue, retries, timeout."""
        return await self._desk.submit(job, parameters, **options)

    async def submit_many(self, job: str, parameters: Iterable[Mapping[str, Any]], **options: Any) -> list[RunHandle]:
        """Makes many runs of ``job`` in one transaction."""
        return await self._desk.submit_many(job, parameters, **options)

    async def trigger(self, job: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Runs a stored job now; without a key, twice at once gives one run."""
        return await self._desk.trigger(job, parameters, **options)

    async def find_run(self, run_id: str) -> RunHandle:
        """The handle of a run that was made earlier."""
        return await self._desk.find_run(run_id)

    async def next_run(self, job: str) -> datetime | None:
        """When the schedule of ``job`` is due next; None if it has nothing to come."""
        slot = (await job_views.get(self._open_scope(), job)).job.next_slot_at
        return None if slot is None else datetime.fromtimestamp(slot / 1_000_000, UTC)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The database without a node: submit and wait here, while nodes elsewhere do the work."""
        async with self._opened():
            await self._declare_all()
            yield

    @asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator[Started]:
        """A node inside this program, until the block ends; then it drains.

        The block's end by an error or a cancellation stops the node at once, giving back what still runs.
        """
        if changes:
            self._settings = load(changes, os.environ, None, code=self.flags)
        try:
            async with self._opened(owning=True), trio.open_nursery() as nursery:
                node = self._node = self._make_node()
                started = await nursery.start(_shielded, node)
                try:
                    yield started
                except BaseException:
                    node.stop()
                    raise
                finally:
                    node.stop()
        except BaseExceptionGroup as group:
            raise _single(group) from None
        finally:
            self._node = None

    def run(self, on_started: Callable[[Started], None] | None = None) -> None:
        """A node as this process: returns when a signal ended it and all is put away."""
        collect_less()
        trio.run(self._run, on_started)

    def start_in_thread(self) -> NodeThread:
        """A node in a thread of this program; ``stop()`` it, or use it as a context manager."""
        self._thread = NodeThread(self.running)
        self._thread.start()
        return self._thread

    def _make_node(self) -> Node:
        return Node(self._open_scope(), self.tasks, self.settings, declare=self._declare_all, submit=self._desk.submit)

    async def _run(self, on_started: Callable[[Started], None] | None) -> None:
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            async with self.running() as started:
                card = write_card(Path(self.settings.data_dir), started)
                if on_started is not None:
                    on_started(started)
                await signals.__anext__()
                assert self._node is not None
                self._node.stop()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_stop_at_next, signals, self._node)
                    await self._node.wait_stopped()
                    nursery.cancel_scope.cancel()
            card.unlink(missing_ok=True)

    def _declare(self, fields: dict[str, Any]) -> None:
        for name in fields:
            if name not in FIELD_NAMES:
                # The full check comes when the app starts; a misspelt name is best told where it is written.
                raise TypeError(f"job {fields['name']!r}: {name} is not a field of a job")
        self._declared[ORIGIN_CODE].append({key: value for key, value in fields.items() if value is not None})

    async def _declare_all(self) -> None:
        for origin, declared in self._declared.items():
            if declared:
                await job_operations.declare(self._open_scope(), declared, origin)

    def _open_scope(self) -> Scope:
        if self._scope is None:
            raise TrischedError("the app is not open: use `async with app.running()`, app.open() or app.sync")
        return self._scope

    @asynccontextmanager
    async def _opened(self, *, owning: bool = False) -> AsyncIterator[None]:
        if self._scope is not None:
            raise TrischedError("the app is open already")
        clock = SystemClock()
        ids = Ids(clock, random.SystemRandom())
        database = connect(self.settings.database_url, clock=clock, origin=ids.token())
        ownership = own(database) if owning else None
        try:
            await database.open()
            self._scope = Scope(database=database, ids=ids, tasks=self.tasks)
            try:
                yield
            finally:
                self._scope = None
                with trio.CancelScope(shield=True):
                    await database.close()
        finally:
            if ownership is not None:
                ownership.give_up()

    def _open_thread(self) -> NodeThread:
        """Where ``sync`` sends its calls: the thread of the node, or one that only holds the database open."""
        if self._thread is None or not self._thread.alive:
            self._thread = NodeThread(self.open)
            self._thread.start()
        return self._thread


def collect_less() -> None:
    """Makes the garbage collector look less often, and never at what the imports made.

    Runs come and go by the thousand and leave no cycles behind; with the default the collector takes more than
    half of the time in which 10,000 attempts start. For processes that are nodes, not for programs that hold one.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def _shielded(node: Node, *, task_status: trio.TaskStatus[Started]) -> None:
    """The node ends by ``stop`` only, so that what it holds is given back also when the program is cancelled."""
    with trio.CancelScope(shield=True):
        await node.run(task_status=task_status)


async def _stop_at_next(signals: AsyncIterator[int], node: Node) -> None:
    await signals.__anext__()
    node.stop()


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error inside, where there is just one: nurseries are our business, not the caller's."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    return inner


def _task_name(function: Callable[..., Any]) -> str:
    """``module.function``; a program that is run as a script goes by its file's name, as when it is imported."""
    module = getattr(function, "__module__", "") or ""
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else "main"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}.{name}".replace(".<locals>", "").replace("-", "_")
