"""Retention: finished runs are kept for a while, completed ones shorter than those that people look into."""

from __future__ import annotations

import logging
from typing import Final

import trio

from trisched.domain.run import KEEP_COMPLETED_US, KEEP_OTHERS_US
from trisched.errors import StoreError
from trisched.storage.database import Database, Tx
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_history

log = logging.getLogger(__name__)
_PERIOD: Final = 3600.0
_BATCH: Final = 500
#: Between two batches, so that a large clean-up does not hold up claims.
_BREATH: Final = 0.1


async def run(database: Database, epoch: int) -> None:
    """Removes what is old enough, every hour while leading."""
    while True:
        try:
            removed = await database.write(lambda tx: remove_old(tx, epoch))
        except StoreError as error:
            log.warning("old runs could not be removed", extra={"error": str(error)})
            removed = 0
        await trio.sleep(_BREATH if removed == _BATCH else _PERIOD)


def remove_old(tx: Tx, epoch: int) -> int:
    """Removes one batch of runs with their attempts and output; answers how many runs."""
    leader_table.guard(tx, epoch)
    now = run_table.now(tx)
    return run_history.remove(
        tx, completed_before=now - KEEP_COMPLETED_US, others_before=now - KEEP_OTHERS_US, most=_BATCH
    )
