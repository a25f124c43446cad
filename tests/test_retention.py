"""Old finished runs go, with their attempts and output; young and unfinished ones stay."""

from __future__ import annotations

from pathlib import Path

import trisched
from trisched.clock import SystemClock
from trisched.coordinator import retention
from trisched.storage.connect import connect
from trisched.storage.database import Database
from trisched.storage.statements import rendered
from trisched.storage.tables import leader as leader_table

DAY_US = 86_400 * 1_000_000
#: Attempts follow their runs to the ids that ``age`` gave them.
FOLLOW = "UPDATE attempt SET run_id = (SELECT id FROM run WHERE substr(run.id, 19) = substr(attempt.run_id, 19))"


async def one(database: Database, text: str) -> int:
    row = await database.read(lambda tx: tx.one(rendered("test", text)))
    assert row is not None
    return int(row[0])


async def age(database: Database, status: str, days: int, count: int) -> None:
    """Makes ``count`` completed runs look as if they had ended with ``status`` that many days ago."""
    text = (
        "UPDATE run SET status = :status, finished_at = finished_at - :age, id = :prefix || substr(id, 19) "
        "WHERE id IN (SELECT id FROM run WHERE status = 'completed' AND finished_at > now_us() - 3600000000 "
        "ORDER BY id LIMIT :most)"
    )
    stamp = SystemClock().now_us() - days * DAY_US
    await database.write(
        lambda tx: tx.count(
            rendered("age", text), status=status, age=days * DAY_US, prefix=f"run-{stamp:014x}", most=count
        )
    )


async def test_what_is_old_enough_goes(database_url: str, tmp_path: Path) -> None:
    app = trisched.App(database_url, data_dir=str(tmp_path), web=False)

    @app.job()
    async def nothing() -> None: ...

    async with app.running():
        for run in await nothing.submit_many({} for _ in range(12)):
            await run.wait(timeout="20s")
        await nothing.submit(delay="1d")

    database = connect(database_url, clock=SystemClock(), origin="test")
    await database.open()
    try:
        for status, days in [("completed", 8), ("dead", 8), ("dead", 91), ("completed", 6)]:
            await age(database, status, days, 3)
        await database.write(lambda tx: tx.count(rendered("follow", FOLLOW)))
        epoch = await one(database, "SELECT leader_epoch FROM cluster")
        await database.write(
            lambda tx: leader_table.take(
                tx, epoch=epoch, node_id="n", incarnation="i", lease_us=60_000_000, only_one=True
            )
        )
        assert await database.write(lambda tx: retention.remove_old(tx, epoch + 1)) == 6
        assert await database.write(lambda tx: retention.remove_old(tx, epoch + 1)) == 0
        assert await one(database, "SELECT count(*) FROM run") == 7
        assert await one(database, "SELECT count(*) FROM attempt") == 6
    finally:
        await database.close()
