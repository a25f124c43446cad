"""How fast a node works off a queue of no-op runs, how fast they are submitted, and the CPU that a run costs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio

import trisched
from loadtest.stage import SQLITE, CpuMeter, Store, arguments, at_least, at_most, database, print_line, wait_until
from trisched.app import collect_less

CONCURRENCY: Final = 1_000
#: The Postgres bar is what the fastest other Python queue reaches; adapter/ measures both in one run.
DRAIN_BARS: Final = {SQLITE: 30_000, "postgres": 26_800}
SUBMIT_BAR: Final = 60_000
CPU_BAR: Final = 0.07
#: From the last start until its end is stored.
PATIENCE: Final = 60.0


class Body:
    """Counts the runs that started, and says when all have."""

    def __init__(self, runs: int) -> None:
        self.runs, self.count = runs, 0
        self.first = 0.0
        self.all_started = trio.Event()
        self.on_first: Callable[[], None] = lambda: None

    def start(self) -> None:
        """One more has started."""
        if not self.count:
            self.on_first()
            self.first = time.monotonic()
        self.count += 1
        if self.count == self.runs:
            self.all_started.set()


async def submit(app: trisched.App, runs: int, chunk: int) -> float:
    """Submits all runs; answers how many seconds that took."""
    async with app.open():
        began = time.monotonic()
        for first in range(0, runs, chunk):
            await app.submit_many("noop", [{"i": i} for i in range(first, min(first + chunk, runs))])
        return time.monotonic() - began


async def drain(app: trisched.App, body: Body, store: Store) -> tuple[float, float, float]:
    """Seconds from the first start until the store has every end, CPU seconds here and in the server."""
    meters: list[CpuMeter] = []
    body.on_first = lambda: meters.append(CpuMeter(store))
    async with app.running(web=False, concurrency=CONCURRENCY):
        await body.all_started.wait()
        await wait_until(lambda: not store.unfinished(), every=0.005, patience=PATIENCE)
        seconds = time.monotonic() - body.first
        here, server = meters[0].read()
    return seconds, here, server


async def measure(store: Store, runs: int, chunk: int) -> dict[str, Any]:
    """The figures."""
    body = Body(runs)
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())

    @app.job()
    async def noop(i: int) -> None:  # noqa: ARG001 - every run has its own parameters, as in life
        body.start()

    submitting = await submit(app, runs, chunk)
    seconds, here, server = await drain(app, body, store)
    return {
        "runs": runs,
        "drain_per_s": round(runs / seconds),
        "submit_per_s": round(runs / submitting),
        "cpu_per_1000": round((here + server) / runs * 1000, 4),
        "cpu_per_1000_node": round(here / runs * 1000, 4),
        "cpu_per_1000_server": round(server / runs * 1000, 4),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, runs=50_000, chunk=5_000)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.runs, given.chunk))
    bars = [
        at_least("drain_per_s", DRAIN_BARS[store.kind]),
        at_least("submit_per_s", SUBMIT_BAR),
        at_most("cpu_per_1000", CPU_BAR),
    ]
    print_line("drain", store.kind, figures, bars)


if __name__ == "__main__":
    main()
