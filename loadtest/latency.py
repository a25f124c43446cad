"""How long it takes from the call of submit until the function starts, on a node that has nothing else to do.

Postgres: the submitter is another process. SQLite: it is the node's own, as only one process holds the file.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from typing import Any, Final

import trio

import trisched
from loadtest.stage import (
    POSTGRES,
    SQLITE,
    Store,
    arguments,
    at_most,
    database,
    milliseconds,
    percentile,
    print_line,
    sync_times,
    wait_until,
)
from trisched.app import collect_less

#: Milliseconds, half of all and 99 of 100.
BARS: Final = {SQLITE: (1.5, 4.0), POSTGRES: (2.5, 5.0)}
#: The first ones pay for what is prepared once.
WARM_UP: Final = 10
#: How long the last run may take before it counts as missing.
PATIENCE: Final = 10.0


async def submit_here(app: trisched.App, runs: int, rate: float) -> list[float]:
    """Submits at a pace from the node's own process; the moments before each."""
    stamps = []
    start = trio.current_time()
    for i in range(runs):
        await trio.sleep_until(start + i / rate)
        stamps.append(time.monotonic())
        await app.submit("noop", {"i": i})
    return stamps


async def submit_elsewhere(store: Store, runs: int, rate: float) -> list[float]:
    """Likewise from another process: both read the one monotonic clock of the host."""
    command = [sys.executable, "-m", "loadtest.submitter", store.url, "noop", str(runs), "--rate", str(rate)]
    done = await trio.run_process(command, capture_stdout=True)
    stamps: list[float] = json.loads(done.stdout)
    return stamps


async def measure(store: Store, runs: int, rate: float) -> dict[str, Any]:
    """The figures."""
    started: dict[int, float] = {}
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())

    @app.job()
    async def noop(i: int) -> None:
        started.setdefault(i, time.monotonic())

    async with app.running(web=False):
        await trio.sleep(1)
        if store.kind == POSTGRES:
            stamps = await submit_elsewhere(store, runs, rate)
        else:
            stamps = await submit_here(app, runs, rate)
        await wait_until(lambda: len(started) == runs, every=0.01, patience=PATIENCE)
    waits = [started[i] - stamps[i] for i in range(WARM_UP, runs)]
    syncs = await trio.to_thread.run_sync(sync_times, runs // 2, rate)
    return {
        "runs": len(waits),
        "p50_ms": milliseconds(percentile(waits, 0.5)),
        "p99_ms": milliseconds(percentile(waits, 0.99)),
        "max_ms": milliseconds(max(waits)),
        "disk_sync_p50_ms": milliseconds(percentile(syncs, 0.5)),
        "disk_sync_p99_ms": milliseconds(percentile(syncs, 0.99)),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, runs=410, rate=50.0)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.runs, given.rate))
    half, most = BARS[store.kind]
    print_line("latency", store.kind, figures, [at_most("p50_ms", half), at_most("p99_ms", most)])


if __name__ == "__main__":
    main()
