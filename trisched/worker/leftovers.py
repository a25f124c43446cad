"""Kills processes on this host whose attempts are over: what a killed node and guardian left, what escaped before.

    /proc ──▶ marks (claim, run) of this user's processes ──▶ the database: is the claim over? ──▶ SIGKILL

Who has no mark, or one that this database does not know, is left alone: it is another user's, another database's, or
was started without ``TRISCHED_CLAIM_ID`` on purpose.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs
import trio

from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import run_lookup
from trisched.worker.attempt import Live
from trisched.worker.guardian_child import Mark, kill_marked, process_ids, read_mark

log = logging.getLogger(__name__)
_PERIOD: Final = 30.0
_PAUSE: Final = 1.0
#: One that is killed may have started another meanwhile.
_ROUNDS: Final = 4
_BATCH: Final = 500
_STEP: Final = 32


@attrs.frozen
class Holder:
    """The node that looks, and whether it is known to be the only one that lives."""

    node_id: str
    incarnation: str
    alone: bool


class Leftovers:
    """Looks for them before the worker claims, and now and then afterwards."""

    def __init__(self, database: Database, holder: Holder, live: Mapping[str, Live]) -> None:
        self._database, self._holder, self._live = database, holder, live

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Looks until it is cancelled; has started when the first look is done."""
        started = False
        while True:
            pause = _PERIOD
            try:
                await self.kill()
            except StoreError as error:
                log.warning("no look for leftovers without the database", extra={"error": str(error)})
                pause = _PAUSE
            if not started:
                started = True
                task_status.started()
            await trio.sleep(pause)

    async def kill(self) -> int:
        """Kills all processes on this host that no attempt under way accounts for; answers how many."""
        killed = 0
        for _ in range(_ROUNDS):
            found = await _marked_processes()
            strange = {pid: mark for pid, mark in found.items() if not self._is_live(mark)}
            over = await self._over(sorted(set(strange.values())))
            count = sum(kill_marked(pid, mark) for pid, mark in strange.items() if mark in over)
            if not count:
                break
            killed += count
        if killed:
            log.warning("processes of attempts that are over were killed", extra={"count": killed})
        return killed

    def _is_live(self, mark: Mark) -> bool:
        live = self._live.get(mark[1].decode(errors="replace"))
        return live is not None and live.run.claim_id.encode() == mark[0]

    async def _over(self, marks: list[Mark]) -> set[Mark]:
        over: set[Mark] = set()
        for first in range(0, len(marks), _BATCH):
            asked = [mark for mark in marks[first : first + _BATCH] if all(part.isascii() for part in mark)]
            over |= await self._database.read(partial(claims_over, marks=asked, holder=self._holder))
        return over


async def _marked_processes() -> dict[int, Mark]:
    """In small steps: there may be thousands, and the lease does not wait."""
    found = {}
    for count, pid in enumerate(process_ids()):
        if count % _STEP == 0:
            await trio.lowlevel.checkpoint()
        if pid != os.getpid() and (mark := read_mark(pid)) is not None:
            found[pid] = mark
    return found


def claims_over(tx: Tx, marks: list[Mark], holder: Holder) -> set[Mark]:
    """Which of these claims have an attempt that ended, or are held by a node that cannot be alive.

    An attempt is written down when its processes have ended, or when its node is lost: then they must not live on.
    """
    run_ids = sorted({run.decode() for _, run in marks})
    ended = {(claim.encode(), run.encode()) for run, claim in attempt_table.claims_of(tx, run_ids)}
    for run, claim, node_id, incarnation in run_lookup.claims_of(tx, run_ids):
        # This node's id, but another incarnation: the one before, which this one has replaced.
        if incarnation != holder.incarnation and (holder.alone or node_id == holder.node_id):
            ended.add((claim.encode(), run.encode()))
    return ended.intersection(marks)
