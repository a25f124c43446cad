"""A node: one process's coordinator, scheduler and worker, put together, started and stopped in order.

    start   own the file (SQLite) → open the database → register → declare jobs → three nurseries → web
    stop    resign and claim nothing → attempts end or are given back → web closes → leave → close

The three nurseries never meet in memory: rows and wake-ups are all that passes between them.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import random
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import trio

from trisched.clock import Clock, SystemClock
from trisched.config import Settings
from trisched.coordinator import ability, rescue, retention
from trisched.coordinator.leader import Leadership
from trisched.coordinator.membership import Membership
from trisched.operations.scope import Scope
from trisched.scheduler.loop import Scheduler
from trisched.storage.database import Database
from trisched.storage.job_cache import JobCache
from trisched.storage.ownership import Ownership
from trisched.storage.sqlite import SqliteDatabase
from trisched.storage.tables.node import Registration
from trisched.version import __version__
from trisched.web.listen import address, listen
from trisched.worker.descriptors import raise_limit
from trisched.worker.executors import Executor
from trisched.worker.executors.function import AsyncFunction, ThreadFunction
from trisched.worker.executors.http import Http
from trisched.worker.executors.shell import Shell
from trisched.worker.executors.spawn import Spawner
from trisched.worker.guardian import Guardian
from trisched.worker.loop import Worker, WorkerSettings
from trisched.worker.plan import Plans
from trisched.worker.secrets import Secrets
from trisched.worker.tasks import Tasks

log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class Started:
    """What a node that runs says of itself."""

    node_id: str
    store: str
    url: str | None
    tags: tuple[str, ...]
    concurrency: int


class Node:
    """One node on an open scope. ``run`` returns when ``stop`` was called and everything is put away."""

    def __init__(
        self,
        scope: Scope,
        tasks: Tasks,
        settings: Settings,
        *,
        declare: Callable[[], Awaitable[None]],
        submit: Callable[..., Awaitable[Any]],
        clock: Clock | None = None,
        randomness: random.Random | None = None,
    ) -> None:
        self._scope, self._tasks, self._settings = scope, tasks, settings
        self._declare, self._submit = declare, submit
        self._clock: Clock = clock or SystemClock()
        self._random = randomness or random.SystemRandom()
        self.id = settings.node_id or f"node-{scope.ids.token()[:8]}"
        self._incarnation = scope.ids.token()
        self._only_one = isinstance(scope.database, SqliteDatabase)
        self._stopping = trio.Event()
        self._stopped = trio.Event()
        self._closing = trio.Event()
        self._worker: Worker | None = None
        self._membership: Membership | None = None
        self._guardian: Guardian | None = None
        self._http = Http(settings.http_allow, clock=self._clock, connections=settings.concurrency)

    def stop(self) -> None:
        """First call: drain. Second call: stop now, giving back what still runs."""
        self._stopping.set()
        if self._worker is not None:
            self._worker.stop()

    async def wait_stopped(self) -> None:
        """Returns when no attempt is left here."""
        await self._stopped.wait()

    async def run(self, *, task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED) -> None:
        """Lives until it is stopped."""
        bound = listen(self._settings.host, self._settings.port) if self._settings.web else None
        url = None if bound is None else address(bound)
        async with AsyncExitStack() as stack:
            if bound is not None:
                stack.callback(bound.close)
            if self._settings.worker:
                self._guardian = await stack.enter_async_context(Guardian.open())
            stack.push_async_callback(self._http.close)
            self._worker = self._make_worker() if self._settings.worker else None
            membership = self._membership = self._make_membership()
            await membership.register()
            stack.push_async_callback(membership.leave)
            async with trio.open_nursery() as services:
                services.start_soon(self._scope.database.listen)
                services.start_soon(membership.run)
                # The lease must be renewed meanwhile: thousands of new jobs take longer than it lasts.
                await self._declare()
                async with trio.open_nursery() as web:
                    if bound is not None:
                        await self._start_web(web, bound)
                    await self._live(task_status, url)
                    self._closing.set()
                services.cancel_scope.cancel()

    async def _live(self, task_status: trio.TaskStatus[Started], url: str | None) -> None:
        """Schedules and works until everything that was claimed is over or given back."""
        reigning = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            if self._settings.scheduler:
                nursery.start_soon(self._stand_for_leader, reigning)
            nursery.start_soon(self._work)
            task_status.started(self._about(url))
            await self._stopping.wait()
            log.info("stopping", extra={"attempts": 0 if self._worker is None else self._worker.active})
            # Another node may lead from now on: its slots must not wait for our last attempts.
            reigning.cancel()
            assert self._membership is not None
            await self._membership.drain()

    def _about(self, url: str | None) -> Started:
        settings = self._settings
        return Started(
            node_id=self.id,
            store=self._scope.database.label,
            url=url,
            tags=settings.tags,
            concurrency=settings.concurrency,
        )

    async def _work(self) -> None:
        if self._worker is not None:
            await self._worker.run()
        else:
            await self._stopping.wait()
        self._stopped.set()

    async def _stand_for_leader(self, scope: trio.CancelScope) -> None:
        leadership = Leadership(
            self._scope.database,
            self._settings.lease_times,
            node_id=self.id,
            incarnation=self._incarnation,
            reign=self._reign,
            only_one=self._only_one,
        )
        with scope:
            await leadership.run()

    async def _reign(self, epoch: int) -> None:
        database = self._scope.database
        cache = JobCache(database)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rescue.run, database, self._settings.lease_times, epoch, self._quiet)
            nursery.start_soon(retention.run, database, epoch)
            nursery.start_soon(ability.run, database, cache, epoch)
            nursery.start_soon(Scheduler(database, cache, self._scope.ids, epoch).run)

    async def _start_web(self, nursery: trio.Nursery, bound: socket.socket) -> None:
        # The web framework costs half a second to import: nodes without it do not pay.
        from trisched.web.serve import serve
        from trisched.web.server import ServerInfo, build

        info = ServerInfo(
            version=__version__,
            node_id=self.id,
            host=self._settings.host,
            port=bound.getsockname()[1],
            lease_times=self._settings.lease_times,
            ready=self._lease_ok,
        )
        await nursery.start(serve, build(self._scope, info), bound, self._closing)

    def _make_membership(self) -> Membership:
        settings = self._settings
        registration = Registration(
            id=self.id,
            incarnation=self._incarnation,
            host=platform.node(),
            pid=os.getpid(),
            version=__version__,
            tags=settings.tags,
            queues=settings.queues,
            tasks=self._tasks.names(),
            concurrency=settings.concurrency if settings.worker else 0,
        )
        return Membership(
            self._scope.database,
            registration,
            settings.lease_times,
            ids=self._scope.ids,
            fence=self._fence,
            alive=process_alive,
            renewed=self._renewed,
            only_one=self._only_one,
        )

    def _fence(self) -> None:
        if self._worker is not None:
            self._worker.fence()

    def _renewed(self, seconds: float) -> None:
        if self._guardian is not None:
            self._guardian.renew(time.clock_gettime(time.CLOCK_BOOTTIME) + seconds)

    def _make_worker(self) -> Worker:
        settings = self._settings
        threads = trio.CapacityLimiter(settings.concurrency)
        assert self._guardian is not None
        descriptors = raise_limit()
        if shortage := descriptors.shortage(settings.concurrency):
            log.warning(shortage)
        executors: dict[str, Executor] = {
            "async": AsyncFunction(),
            "thread": ThreadFunction(threads),
            "shell": Shell(self._guardian, spawner=Spawner(descriptors)),
            "http": self._http,
        }
        database = self._scope.database
        plans = Plans(JobCache(database), self._tasks, executors, frozenset(settings.tags))
        return Worker(
            database,
            plans,
            WorkerSettings(
                node_id=self.id,
                incarnation=self._incarnation,
                queues=settings.queues,
                concurrency=settings.concurrency,
                drain_timeout=settings.drain_timeout,
                secrets=Secrets(os.environ, settings.secrets_dir),
                alone=self._only_one,
            ),
            ids=self._scope.ids,
            clock=self._clock,
            randomness=self._random,
            lease_ok=self._lease_ok,
            submit=self._submit,
        )

    def _quiet(self) -> bool:
        return self._membership is None or self._membership.quiet()

    def _lease_ok(self) -> bool:
        return self._membership is not None and self._membership.lease_ok()


def process_alive(pid: int) -> bool:
    """Whether a process of this host has that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def own(database: Database) -> Ownership | None:
    """The lock of a SQLite file, taken; None where several nodes may share the database."""
    if not isinstance(database, SqliteDatabase):
        return None
    ownership = Ownership(database.path)
    ownership.take()
    return ownership


def write_card(data_dir: Path, started: Started) -> Path:
    """``node.json`` in the data directory: how the command line finds the node."""
    data_dir.mkdir(parents=True, exist_ok=True)
    card = data_dir / "node.json"
    draft = card.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({"node_id": started.node_id, "url": started.url, "pid": os.getpid()}) + "\n")
    draft.replace(card)
    return card
