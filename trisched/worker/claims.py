"""Claims: which queue to look at next, what to take from it, and giving back what cannot be started.

Wake-ups name queues with new work; a look at all queues, once a second, makes up for those that got lost. A claim
whose answer did not come may exist or not: it is given back, and once more when a slow server can no longer carry
it out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from trisched.clock import Ids
from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import run as run_table
from trisched.storage.tables.run import Claimed
from trisched.storage.wakeup import EVERYTHING, JOBS, queue_of
from trisched.worker.plan import Plans

log = logging.getLogger(__name__)
_POLL: Final = 1.0
#: For so long a server may still carry out a call that was given up here.
_LATE: Final = 40.0


@attrs.frozen
class _Doubt:
    """A claim that must not exist: when to give it back, and whether that is the last time."""

    claim_id: str
    at: float
    last: bool


class Claims:
    """The runs that one worker takes from the queues it serves."""

    def __init__(
        self, database: Database, plans: Plans, *, ids: Ids, node_id: str, incarnation: str, queues: Sequence[str]
    ) -> None:
        self._database, self._plans, self._ids = database, plans, ids
        self._node_id, self._incarnation, self._queues = node_id, incarnation, frozenset(queues)
        #: Queues that may have work.
        self._hints: set[str] = set()
        #: Queues that had nothing for this node when it last looked: their heads, if any, are others' work.
        self._barren: set[str] = set()
        self._look_at = float("-inf")
        self._jobs_changed = True
        self._doubts: list[_Doubt] = []
        self._unwanted: list[Claimed] = []
        self._news = trio.Event()

    def on_topic(self, topic: str) -> None:
        """Takes a wake-up."""
        queue = queue_of(topic)
        if queue is not None:
            self._hints.add(queue)
            self._barren.discard(queue)
        elif topic in (JOBS, EVERYTHING):
            self._jobs_changed = True
            self.look_everywhere()
        else:
            return
        self._news.set()

    def look_everywhere(self) -> None:
        """Trusts no wake-up: the next ``take`` asks the database which queues have work."""
        self._look_at = float("-inf")

    def interrupt(self) -> None:
        """Ends a ``wait_news`` that is under way."""
        self._news.set()

    async def wait_news(self) -> None:
        """Returns when there may be work again."""
        pause = self._look_at - trio.current_time()
        if not self._hints and pause > 0:
            self._news = trio.Event()
            with trio.move_on_after(pause):
                await self._news.wait()

    async def take(self, most: int) -> list[Claimed] | None:
        """Up to ``most`` runs that are this node's now, the most urgent first; None when no queue has any."""
        await self._give_back()
        if self._jobs_changed:
            await self._refresh()
        queue = await self._choose_queue()
        if queue is None:
            return None
        # Before the claim, not after: a wake-up that comes while it is under way must not be forgotten.
        self._hints.discard(queue)
        self._barren.add(queue)
        runs = await self._claim(queue, most)
        if len(runs) == most:
            self._hints.add(queue)
            self._barren.discard(queue)
        if any(self._plans.find(run.job_id) is None for run in runs):
            return await self._without_unknown(runs)
        return runs

    def put_back(self, runs: Sequence[Claimed]) -> None:
        """Takes back claims of which nothing was started; the database is told with the next ``take``."""
        now = trio.current_time()
        self._doubts += [_Doubt(claim_id, now, last=True) for claim_id in {run.claim_id for run in runs}]
        self.look_everywhere()

    async def return_all(self) -> None:
        """Gives back what is to be given back, for as long as the database takes to answer."""
        while self._unwanted or self._due_doubts():
            try:
                await self._give_back()
            except StoreError as error:
                log.warning("claims cannot be given back yet", extra={"error": str(error)})
                await trio.sleep(_POLL)

    async def _refresh(self) -> None:
        self._jobs_changed = False
        try:
            await self._plans.refresh()
        except StoreError:
            self._jobs_changed = True
            raise

    async def _choose_queue(self) -> str | None:
        """The queue with the most urgent run; asked of the database only when several may have one."""
        now = trio.current_time()
        if now < self._look_at and len(self._hints) <= 1:
            self._hints = {queue for queue in self._hints if self._serves(queue)}
            return next(iter(self._hints), None)
        if now >= self._look_at:
            self._look_at = now + _POLL
            self._barren.clear()
        self._hints.clear()
        heads = await self._database.read(lambda tx: [row[0] for row in tx.rows(run_table.SQL.queue_heads)])
        mine = [queue for queue in heads if self._serves(queue) and queue not in self._barren]
        self._hints.update(mine)
        return mine[0] if mine else None

    def _serves(self, queue: str) -> bool:
        return not self._queues or queue in self._queues

    async def _claim(self, queue: str, most: int) -> list[Claimed]:
        claim_id, asked = self._ids.token(), trio.current_time()

        def work(tx: Tx) -> list[Claimed]:
            return run_table.claim(
                tx,
                queue=queue,
                node_id=self._node_id,
                incarnation=self._incarnation,
                claim_id=claim_id,
                most=most,
                excluded=self._plans.excluded,
            )

        # Until the answer is here the claim may or may not exist.
        doubt = _Doubt(claim_id, asked, last=False)
        self._doubts.append(doubt)
        runs = await self._database.write(work)
        self._doubts.remove(doubt)
        return runs

    async def _without_unknown(self, runs: list[Claimed]) -> list[Claimed]:
        """The runs whose jobs this node can run, after reading the jobs again; the others go back to the queue."""
        try:
            await self._plans.refresh()
        except StoreError:
            self._jobs_changed = True
        else:
            # What is still unknown is not for this node: claiming it again would only turn in circles.
            self._plans.leave({run.job_id for run in runs if self._plans.find(run.job_id) is None})
        self._unwanted += [run for run in runs if self._plans.find(run.job_id) is None]
        return [run for run in runs if self._plans.find(run.job_id) is not None]

    def _due_doubts(self) -> list[_Doubt]:
        now = trio.current_time()
        return [doubt for doubt in self._doubts if doubt.at <= now]

    async def _give_back(self) -> None:
        doubts, unwanted = self._due_doubts(), list(self._unwanted)
        if not doubts and not unwanted:
            return

        def work(tx: Tx) -> None:
            for doubt in doubts:
                run_table.give_back(tx, doubt.claim_id)
            for run in unwanted:
                run_table.give_back_run(tx, run)

        await self._database.write(work)
        del self._unwanted[: len(unwanted)]
        again = [_Doubt(doubt.claim_id, doubt.at + _LATE, last=True) for doubt in doubts if not doubt.last]
        self._doubts = [doubt for doubt in self._doubts if doubt not in doubts] + again
