"""Rescue: runs whose node is gone are put back in line, held, or buried; never while the claim may still be good."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import trio

from trisched.domain.lifecycle import Ending, Move, after_loss
from trisched.domain.node import LeaseTimes
from trisched.domain.run import Attempt, Outcome
from trisched.errors import StoreError
from trisched.storage.database import Database, Row, Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table

log = logging.getLogger(__name__)
_PERIOD: Final = 1.0
_BATCH: Final = 500
MAX_CRASHES: Final = 3


async def run(database: Database, times: LeaseTimes, epoch: int, quiet: Callable[[], bool]) -> None:
    """Looks for lost runs every second while leading.

    While it is ``quiet`` (this node itself had no contact with the database until lately) a lease that ran out
    proves nothing: nodes that were cut off together with this one must get the chance to renew first.
    """
    while True:
        try:
            look = partial(_gone, times=times, quiet=quiet())
            if await database.read(look):
                await database.write(partial(rescue, times=times, epoch=epoch, quiet=quiet()))
        except StoreError as error:
            log.warning("no rescue without the database", extra={"error": str(error)})
        await trio.sleep(_PERIOD)


def rescue(tx: Tx, times: LeaseTimes, epoch: int, *, quiet: bool = False) -> int:
    """Takes back what dead incarnations hold; answers how many runs."""
    gone = _gone(tx, times, quiet=quiet)
    if not gone:
        return 0
    leader_table.guard(tx, epoch)
    if not node_table.leader_lives(tx):
        # This node itself has just woken up from something: those it would judge may be about to renew, too.
        return 0
    rescued = 0
    for incarnation in gone:
        rows = tx.rows(run_table.SQL.claimed_by, incarnation=incarnation, most=_BATCH)
        rescued += sum(_take_back(tx, row) for row in rows)
    log.warning("runs of lost nodes were taken back", extra={"runs": rescued, "incarnations": gone})
    return rescued


def _gone(tx: Tx, times: LeaseTimes, *, quiet: bool) -> list[str]:
    return node_table.gone(tx, int(times.grace * 1_000_000), quiet=quiet)


def _take_back(tx: Tx, row: Row) -> bool:
    run_id, token, claim_id, number, crashes, node_id, started_at, spec = row
    move, reason = after_loss(_delivery(spec), crashes + 1, MAX_CRASHES)
    ending = Ending(run_id=run_id, token=token, claim_id=claim_id, move=move, outcome=Outcome.LOST, reason=reason)
    if not run_table.end_attempt(tx, ending):
        return False
    attempt = Attempt(
        run_id=run_id,
        token=token,
        claim_id=claim_id,
        number=number,
        node_id=node_id,
        started_at=started_at,
        ended_at=run_table.now(tx),
        outcome=Outcome.LOST,
        effective=True,
        error="its node was lost" if move is not Move.BURY else reason,
    )
    attempt_table.add(tx, [attempt])
    return True


def _delivery(spec: str) -> str:
    """What the job says about losing a node; a definition that cannot be read may have said never to run twice."""
    try:
        return str(msgspec.json.decode(spec, type=dict[str, object]).get("delivery", "retry"))
    except msgspec.MsgspecError:
        return "hold"
