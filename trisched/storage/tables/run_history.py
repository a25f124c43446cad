"""The end of a run's history: removing runs that are over for long, with all that belongs to them."""

from __future__ import annotations

from typing import Final

from trisched.storage.database import Tx
from trisched.storage.statements import load

SQL: Final = load("run_history")
#: Ids carry the clock of the node that made them: leave an hour for clocks that are wrong.
_SKEW_US: Final = 3_600_000_000


def remove(tx: Tx, *, completed_before: int, others_before: int, most: int) -> int:
    """Removes up to ``most`` finished runs, the oldest first; answers how many."""
    bound = f"run-{max(completed_before + _SKEW_US, 0):014x}"
    rows = tx.rows(SQL.expired, bound=bound, completed_before=completed_before, others_before=others_before, most=most)
    ids = [row[0] for row in rows]
    if ids:
        for statement in (SQL.remove_output, SQL.remove_attempts, SQL.remove_runs):
            tx.count(statement, ids=ids)
    return len(ids)
