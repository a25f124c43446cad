"""What a claim of 100 runs costs when few or very many are queued, with very many finished ones beside them."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from functools import partial
from typing import Any, Final

import trio

import trisched
from loadtest.stage import POSTGRES, Store, arguments, at_most, database, milliseconds, print_line
from trisched.clock import Ids, SystemClock
from trisched.storage.connect import connect
from trisched.storage.database import Database
from trisched.storage.tables import run as run_table

RATIO_BAR: Final = 1.5
CLAIM: Final = 100
ROUNDS: Final = 40
_NUMBERS: Final = {
    POSTGRES: "SELECT n FROM generate_series({first}, {last}) AS n",
    "sqlite": "WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})"
    " SELECT n FROM numbers",
}
_FILL: Final = (
    "INSERT INTO run (id, job_id, job_revision, queue, status, priority, rank, due_at, origin, parameters, retries,"
    " attempt, failures, crashes, token, created_at, started_at, finished_at) "
    "SELECT 'run-fill-' || n, job.id, 1, job.queue, '{status}', 2, {rank}, n, 'submit', '{{}}', 0,"
    " {done}, 0, 0, {done}, n, {finished}, {finished} FROM ({numbers}) AS filling, job WHERE job.name = 'noop'"
)


def fill(store: Store, status: str, first: int, count: int) -> None:
    """Rows as trisched would have written them, numbered from ``first`` on."""
    numbers = _NUMBERS[store.kind].format(first=first, last=first + count - 1)
    done = status == "completed"
    store.do(_FILL.format(status=status, rank="n", done=int(done), finished="n" if done else "NULL", numbers=numbers))


async def claim_time(db: Database, ids: Ids, node_id: str, incarnation: str) -> float:
    """The median time of a claim, each given back before the next."""
    times = []
    for _ in range(ROUNDS):
        claim = partial(
            run_table.claim,
            queue="default",
            node_id=node_id,
            incarnation=incarnation,
            claim_id=ids.token(),
            most=CLAIM,
            excluded=[],
        )
        began = time.perf_counter()
        runs = await db.write(claim)
        times.append(time.perf_counter() - began)
        if len(runs) != CLAIM:
            raise SystemExit(f"a claim gave {len(runs)} runs instead of {CLAIM}")
        await db.write(partial(run_table.give_back, claim_id=runs[0].claim_id))
    return statistics.median(times)


async def measure(store: Store, few: int, many: int) -> dict[str, Any]:
    """The figures, by a node that holds a lease and does not work itself."""
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())

    @app.job()
    async def noop() -> None:
        return

    ids = Ids(SystemClock(), random.SystemRandom())
    db = connect(store.url, clock=SystemClock(), origin=ids.token())
    async with app.running(web=False, worker=False, scheduler=False) as node:
        await db.open()
        incarnation = store.ask("SELECT incarnation FROM node")
        await trio.to_thread.run_sync(fill, store, "completed", 1, many)
        await trio.to_thread.run_sync(fill, store, "queued", many + 1, few)
        with_few = await claim_time(db, ids, node.node_id, incarnation)
        await trio.to_thread.run_sync(fill, store, "queued", many + few + 1, many - few)
        with_many = await claim_time(db, ids, node.node_id, incarnation)
        await db.close()
    return {
        "few": few,
        "many": many,
        "finished_beside": many,
        "claim_ms_few": milliseconds(with_few),
        "claim_ms_many": milliseconds(with_many),
        "ratio": round(with_many / with_few, 2),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, few=1_000, many=1_000_000)
    with database(given.database) as store:
        figures = trio.run(partial(measure, store, given.few, given.many))
    print_line("claim_cost", store.kind, figures, [at_most("ratio", RATIO_BAR)])


if __name__ == "__main__":
    main()
