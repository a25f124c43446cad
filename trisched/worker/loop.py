"""The worker: claims up to its free capacity, starts attempts, and gives back what is left when it stops."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs
import msgspec
import trio

from trisched.clock import Clock, Ids
from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.run import Claimed
from trisched.storage.wakeup import CANCEL, EVERYTHING, JOBS, queue_of
from trisched.worker import attempt as attempts
from trisched.worker.attempt import Live, Stop
from trisched.worker.context import Context
from trisched.worker.executors import Call
from trisched.worker.output import OutputBuffer
from trisched.worker.plan import Plan, Plans
from trisched.worker.record import Finished, Recorder

log = logging.getLogger(__name__)
_BATCH: Final = 500
#: Wake-ups tell of new work; looking by itself is only for those that got lost.
_POLL: Final = 1.0
#: Places that become free one by one are filled together, after waiting at most this long.
_LINGER: Final = 0.002
_FLUSH: Final = 0.5


@attrs.frozen(kw_only=True)
class WorkerSettings:
    """What a worker needs to know of its node."""

    node_id: str
    incarnation: str
    #: Empty: all queues.
    queues: tuple[str, ...] = ()
    concurrency: int = 100
    drain_timeout: float = 30.0


class Worker:
    """Runs → attempts, on one node."""

    def __init__(
        self,
        database: Database,
        plans: Plans,
        settings: WorkerSettings,
        *,
        ids: Ids,
        clock: Clock,
        randomness: random.Random,
        lease_ok: Callable[[], bool],
        submit: Callable[..., Awaitable[Any]],
    ) -> None:
        self._database, self._plans, self._settings = database, plans, settings
        self._ids, self._clock, self._random = ids, clock, randomness
        self._lease_ok, self._submit = lease_ok, submit
        self._recorder = Recorder(database, self._recorded)
        self._live: dict[str, Live] = {}
        self._in_flight = 0
        self._hints: set[str] = set()
        self._look_everywhere = True
        self._jobs_changed = True
        self._doubtful: list[str] = []
        self._news = trio.Event()
        self._freed = trio.Event()
        self._cancels = trio.Event()
        self._stopping = trio.Event()
        self._stop_now = trio.Event()

    @property
    def active(self) -> int:
        """How many attempts are under way."""
        return len(self._live)

    def stop(self) -> None:
        """The first call: take no more work and let attempts end. The second: stop them now."""
        if self._stopping.is_set():
            self._stop_now.set()
        self._stopping.set()
        self._news.set()
        self._freed.set()

    def fence(self) -> None:
        """The node's lease is no longer provable: stop every attempt before somebody else starts it."""
        for live in list(self._live.values()):
            live.stop(Stop.FENCE)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Works until ``stop`` is called, then returns with nothing left in its hands."""
        async with trio.open_nursery() as services:
            services.start_soon(self._recorder.run)
            services.start_soon(self._flush_output)
            services.start_soon(self._watch_cancels)
            with self._database.wakeups.listening(self._on_topic):
                task_status.started()
                async with trio.open_nursery() as nursery:
                    await self._claim_until_stopped(nursery)
                    await self._drain()
            await self._recorder.wait_idle()
            services.cancel_scope.cancel()

    async def _drain(self) -> None:
        """Waits for attempts to end by themselves, then releases what is left."""
        with trio.move_on_after(self._settings.drain_timeout):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_stop_now, nursery.cancel_scope)
                while self._live:
                    self._freed = trio.Event()
                    await self._freed.wait()
                nursery.cancel_scope.cancel()
        for live in list(self._live.values()):
            live.stop(Stop.RELEASE)

    async def _wait_stop_now(self, scope: trio.CancelScope) -> None:
        await self._stop_now.wait()
        scope.cancel()

    def _on_topic(self, topic: str) -> None:
        queue = queue_of(topic)
        if queue is not None:
            self._hints.add(queue)
        elif topic in (JOBS, EVERYTHING):
            self._jobs_changed = True
            self._look_everywhere = True
        elif topic != CANCEL:
            return
        if topic in (CANCEL, EVERYTHING):
            self._cancels.set()
        self._news.set()

    def _recorded(self, count: int) -> None:
        self._in_flight -= count
        self._freed.set()

    async def _claim_until_stopped(self, nursery: trio.Nursery) -> None:
        while not self._stopping.is_set():
            try:
                if await self._claim_some(nursery):
                    continue
            except StoreError as error:
                log.warning("no work can be claimed", extra={"error": str(error)})
                self._look_everywhere = True
                with trio.move_on_after(_POLL):
                    await self._stopping.wait()
                continue
            await self._wait_news()

    async def _wait_news(self) -> None:
        if not self._hints and not self._look_everywhere and not self._stopping.is_set():
            self._news = trio.Event()
            with trio.move_on_after(_POLL) as scope:
                await self._news.wait()
            self._look_everywhere = self._look_everywhere or scope.cancelled_caught

    async def _claim_some(self, nursery: trio.Nursery) -> bool:
        """Fills the free capacity once; False when there is nothing to claim."""
        if self._jobs_changed:
            self._jobs_changed = False
            await self._plans.refresh()
        queue = await self._choose_queue()
        if queue is None:
            return False
        free = await self._wait_capacity()
        if self._stopping.is_set():
            return True
        most = min(free, _BATCH)
        runs = await self._claim(queue, most)
        if len(runs) < most:
            self._hints.discard(queue)
        await self._start(runs, nursery)
        return True

    async def _choose_queue(self) -> str | None:
        """The queue with the most urgent run; asked of the database only when several may have one."""
        if self._look_everywhere or len(self._hints) > 1:
            self._look_everywhere = False
            heads = await self._database.read(
                lambda tx: [row[0] for row in tx.rows(run_table.SQL.queue_heads)]
            )
            mine = [queue for queue in heads if self._serves(queue)]
            self._hints = set(mine)
            return mine[0] if mine else None
        self._hints = {queue for queue in self._hints if self._serves(queue)}
        return next(iter(self._hints), None)

    def _serves(self, queue: str) -> bool:
        return not self._settings.queues or queue in self._settings.queues

    async def _wait_capacity(self) -> int:
        """How many attempts may start; waits for a place, and a moment for others to join it."""
        concurrency = self._settings.concurrency
        while self._in_flight >= concurrency and not self._stopping.is_set():
            self._freed = trio.Event()
            await self._freed.wait()
        if self._in_flight and concurrency - self._in_flight < concurrency // 4:
            self._freed = trio.Event()
            with trio.move_on_after(_LINGER):
                await self._freed.wait()
        return max(concurrency - self._in_flight, 1)

    async def _claim(self, queue: str, most: int) -> list[Claimed]:
        claim_id, doubtful = self._ids.token(), list(self._doubtful)

        def work(tx: Tx) -> list[Claimed]:
            for doubt in doubtful:
                run_table.give_back(tx, doubt)
            return run_table.claim(
                tx,
                queue=queue,
                node_id=self._settings.node_id,
                incarnation=self._settings.incarnation,
                claim_id=claim_id,
                most=most,
                excluded=self._plans.excluded,
            )

        # Until the answer is here the claim may or may not exist; if it never comes, it is given back.
        self._doubtful.append(claim_id)
        runs = await self._database.write(work)
        self._doubtful = []
        return runs

    async def _start(self, runs: list[Claimed], nursery: trio.Nursery) -> None:
        if not self._lease_ok():
            # The answer came too late: another node may have these by now. The next claim gives them back.
            self._doubtful += {run.claim_id for run in runs}
            return
        if any(self._plans.find(run.job_id) is None for run in runs):
            await self._plans.refresh()
        claimed_at = trio.current_time()
        self._in_flight += len(runs)
        for run in runs:
            plan = self._plans.find(run.job_id)
            if plan is None:
                await self._hand_back(run)
            else:
                output = OutputBuffer(clock=self._clock.now_us)
                live = Live(run, plan, output, trio.CancelScope(), claimed_at)
                self._live[run.id] = live
                nursery.start_soon(self._attempt, live)

    async def _hand_back(self, run: Claimed) -> None:
        """A job that came after the claim's exclusions were made, and that this node cannot run."""
        await self._database.write(partial(run_table.give_back_run, run=run))
        self._in_flight -= 1

    async def _attempt(self, live: Live) -> None:
        call = self._call(live)
        ended = await attempts.execute(live, call)
        ending, error = attempts.decide(live, ended, self._random)
        history = attempts.history(live, ending, ended, error, self._settings.node_id)
        del self._live[live.run.id]
        lines = live.output.close()
        chunks = [live.chunk(lines)] if lines else []
        if error is not None:
            log.info(
                "attempt failed",
                extra={"run_id": live.run.id, "attempt": live.run.attempt, "error": error.message},
            )
        self._recorder.put(Finished(ending, history, chunks, live.plan.frees_others))

    def _call(self, live: Live) -> Call:
        run, plan = live.run, live.plan
        spec = plan.job.spec
        node_id = self._settings.node_id
        parameters: Mapping[str, object] = (
            {} if run.parameters == "{}" else msgspec.json.decode(run.parameters)
        )
        key = run.key or run.id
        context = Context(
            run.id, spec.name, run.attempt, key, run.token, node_id, parameters, run.slot_at, live.output,
            self._submit, None, self._lease_ok,
        )  # fmt: skip
        return Call(
            run.id, spec.name, run.attempt, run.token, run.claim_id, node_id, run.slot_at, key, parameters,
            plan.function, spec.command, spec.cwd, spec.env, spec.kill_after, live.output, context,
        )  # fmt: skip

    async def _flush_output(self) -> None:
        """Stores new lines of running attempts now and then, so that people can watch."""
        while True:
            await trio.sleep(_FLUSH)
            chunks = [
                live.chunk(lines) for live in list(self._live.values()) if (lines := live.output.take())
            ]
            if not chunks:
                continue
            try:
                await self._database.write(partial(attempt_table.add_output, chunks=chunks))
            except StoreError as error:
                log.warning("output was not stored", extra={"error": str(error)})

    async def _watch_cancels(self) -> None:
        """Stops attempts that somebody asked to stop: at the wake-up, or at the next look."""
        while True:
            with trio.move_on_after(_POLL):
                await self._cancels.wait()
            self._cancels = trio.Event()
            if not self._live:
                continue
            try:
                ids = await self._database.read(
                    partial(run_table.cancels_of, incarnation=self._settings.incarnation)
                )
            except StoreError:
                continue
            for run_id in ids:
                if run_id in self._live:
                    self._live[run_id].stop(Stop.CANCEL)
