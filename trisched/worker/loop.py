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
from trisched.domain.template import fill_secrets
from trisched.errors import StoreError
from trisched.storage.database import Database
from trisched.storage.tables.run import Claimed
from trisched.worker import attempt as attempts
from trisched.worker.attempt import Live, Stop
from trisched.worker.claims import Claims
from trisched.worker.context import Context
from trisched.worker.executors import Call
from trisched.worker.leftovers import Holder, Leftovers
from trisched.worker.output import OutputBuffer
from trisched.worker.plan import Plans
from trisched.worker.record import Finished, Recorder
from trisched.worker.secrets import Secrets
from trisched.worker.watch import Watch

log = logging.getLogger(__name__)
_BATCH: Final = 500
#: After a failed claim, and while the lease is in doubt.
_PAUSE: Final = 1.0
#: Places that become free one by one are filled together, after waiting at most this long.
_LINGER: Final = 0.002
#: When all attempts are over, a database that does not answer is waited for no longer than this.
_LAST_WORDS: Final = 10.0


@attrs.frozen(kw_only=True)
class WorkerSettings:
    """What a worker needs to know of its node."""

    node_id: str
    incarnation: str
    #: Empty: all queues.
    queues: tuple[str, ...] = ()
    concurrency: int = 100
    drain_timeout: float = 30.0
    secrets: Secrets = attrs.field(factory=Secrets)
    #: No other node of this database can be alive.
    alone: bool = False


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
        self._claims = Claims(
            database,
            plans,
            ids=ids,
            node_id=settings.node_id,
            incarnation=settings.incarnation,
            queues=settings.queues,
        )
        self._live: dict[str, Live] = {}
        holder = Holder(settings.node_id, settings.incarnation, settings.alone)
        self._leftovers = Leftovers(database, holder, self._live)
        self._watch = Watch(database, self._live, settings.incarnation)
        self._in_flight = 0
        self._freed = trio.Event()
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
        self._claims.interrupt()
        self._freed.set()

    def fence(self) -> None:
        """The node's lease is no longer provable: stop every attempt before somebody else starts it."""
        for live in list(self._live.values()):
            live.stop(Stop.FENCE)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Works until ``stop`` is called, then returns with nothing left in its hands."""
        async with trio.open_nursery() as services:
            services.start_soon(self._recorder.run)
            services.start_soon(self._watch.flush_regularly)
            services.start_soon(self._watch.stop_cancelled)
            await services.start(self._leftovers.run)
            with self._database.wakeups.listening(self._on_topic):
                task_status.started()
                async with trio.open_nursery() as nursery:
                    await self._claim_until_stopped(nursery)
                    await self._drain()
            await self._put_away()
            services.cancel_scope.cancel()

    async def _drain(self) -> None:
        """Waits for attempts to end by themselves, then releases what is left."""
        with trio.move_on_after(self._settings.drain_timeout):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_stop_now, nursery.cancel_scope)
                nursery.start_soon(self._claims.return_all)
                while self._live:
                    self._freed = trio.Event()
                    await self._freed.wait()
                nursery.cancel_scope.cancel()
        for live in list(self._live.values()):
            live.stop(Stop.RELEASE)

    async def _put_away(self) -> None:
        """Sees to it that the database knows everything; what it cannot be told is left to the rescue."""
        with trio.move_on_after(_LAST_WORDS) as scope:
            await self._claims.return_all()
            await self._recorder.wait_idle()
            await self._watch.flush()
        if scope.cancelled_caught:
            log.error("the database does not answer; the last results are lost and their runs will be rescued")

    async def _wait_stop_now(self, scope: trio.CancelScope) -> None:
        await self._stop_now.wait()
        scope.cancel()

    def _on_topic(self, topic: str) -> None:
        self._claims.on_topic(topic)
        self._watch.on_topic(topic)

    def _recorded(self, count: int) -> None:
        self._in_flight -= count
        self._freed.set()

    async def _claim_until_stopped(self, nursery: trio.Nursery) -> None:
        while not self._stopping.is_set():
            try:
                # Without a good lease nothing may start, so nothing is claimed.
                if not self._lease_ok():
                    await self._pause()
                elif not await self._claim_some(nursery):
                    await self._claims.wait_news()
            except StoreError as error:
                log.warning("no work can be claimed", extra={"error": str(error)})
                self._claims.look_everywhere()
                await self._pause()

    async def _pause(self) -> None:
        with trio.move_on_after(_PAUSE):
            await self._stopping.wait()

    async def _claim_some(self, nursery: trio.Nursery) -> bool:
        """Fills the free capacity once; False when there is nothing to claim."""
        free = await self._wait_capacity()
        if self._stopping.is_set():
            return True
        runs = await self._claims.take(min(free, _BATCH))
        if runs is None:
            return False
        self._start(runs, nursery)
        return True

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

    def _start(self, runs: list[Claimed], nursery: trio.Nursery) -> None:
        if not self._lease_ok():
            # The answer came too late: another node may have these by now.
            self._claims.put_back(runs)
            return
        claimed_at = trio.current_time()
        self._in_flight += len(runs)
        secrets = self._settings.secrets.to_hide()
        for run in runs:
            plan = self._plans.find(run.job_id)
            assert plan is not None
            output = OutputBuffer(clock=self._clock.now_us)
            live = Live(run, plan, output, trio.CancelScope(), claimed_at, secrets=secrets)
            self._live[run.id] = live
            nursery.start_soon(self._attempt, live)

    async def _attempt(self, live: Live) -> None:
        ended = await attempts.execute(live, partial(self._call, live))
        if ended is not None and live.secrets is not None:
            ended = live.secrets.mask_ended(ended)
        ending, error = attempts.decide(live, ended, self._random)
        history = attempts.history(live, ending, ended, error, self._settings.node_id)
        del self._live[live.run.id]
        lines = live.output.close()
        chunks = [live.chunk(lines)] if lines else []
        self._recorder.put(
            Finished(live.plan.job.spec.name, ending, history, chunks, live.plan.frees_others, live.report(last=True))
        )

    def _call(self, live: Live) -> Call:
        run, plan = live.run, live.plan
        spec = plan.job.spec
        node_id = self._settings.node_id
        parameters: Mapping[str, object] = {} if run.parameters == "{}" else msgspec.json.decode(run.parameters)
        key = run.key or run.id
        env, secrets = spec.env, {}
        if plan.secrets:
            live.secrets = self._settings.secrets
            secrets = live.secrets.resolve(plan.secrets)
            env = {name: fill_secrets(text, secrets) for name, text in env.items()}
        context = Context(
            run.id, spec.name, run.attempt, key, run.token, node_id, parameters, run.slot_at, live.output,
            self._submit, None, self._lease_ok,
        )  # fmt: skip
        return Call(
            run.id, spec.name, run.attempt, run.token, run.claim_id, node_id, run.slot_at, key, parameters,
            plan.function, spec.command, spec.cwd, env, spec.kill_after, live.output, context, live,
            spec.request, secrets,
        )  # fmt: skip
