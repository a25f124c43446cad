"""How far runs are: written while they go on, by who holds them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from trisched.storage.database import Tx
from trisched.storage.tables.run import SQL


@attrs.frozen
class Report:
    """How far the attempt that holds a run is, as JSON text."""

    id: str
    claim_id: str
    progress: str


def report(tx: Tx, reports: Sequence[Report]) -> None:
    """Stores how far attempts are, as long as they hold their runs."""
    tx.many(SQL.report, [attrs.asdict(each) for each in sorted(reports, key=lambda each: each.id)])
