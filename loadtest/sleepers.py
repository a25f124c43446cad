"""Very many async jobs that all sleep at the same time on one node: how many at once, how long, how much memory."""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from typing import Any, Final

import attrs
import trio

import trisched
from loadtest.stage import Store, arguments, at_least, at_most, database, print_line, wait_until
from trisched.app import collect_less

#: Beyond the sleep itself.
OVERHEAD_BAR: Final = 0.6
MEMORY_BAR: Final = 150
PATIENCE: Final = 60.0


@attrs.define
class Crowd:
    """Who sleeps now, the most that ever did, and the first start and last end."""

    now: int = 0
    peak: int = 0
    ended: int = 0
    first: float = 0.0
    last: float = 0.0

    async def sleep(self, seconds: float) -> None:
        """One of them."""
        self.first = self.first or time.monotonic()
        self.now += 1
        self.peak = max(self.peak, self.now)
        await trio.sleep(seconds)
        self.now -= 1
        self.ended += 1
        self.last = time.monotonic()


def peak_memory_mb() -> float:
    """The most memory that this process ever had resident."""
    with open("/proc/self/status") as status:  # noqa: PTH123 - not a file that a path helps with
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def measure(store: Store, runs: int, seconds: float) -> dict[str, Any]:
    """The figures. The runs are submitted by another process, so that the memory is the node's alone."""
    crowd = Crowd()
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())

    @app.job()
    async def sleeper(i: int) -> None:  # noqa: ARG001 - every run has its own parameters, as in life
        await crowd.sleep(seconds)

    async with app.open():
        pass
    await trio.run_process(
        [sys.executable, "-m", "loadtest.submitter", store.url, "sleeper", str(runs)], capture_stdout=True
    )
    async with app.running(web=False, concurrency=runs):
        await wait_until(lambda: crowd.ended == runs and not store.unfinished(), every=0.1, patience=PATIENCE + seconds)
        memory = peak_memory_mb()
    return {
        "runs": runs,
        "peak_running": crowd.peak,
        "wall_s": round(crowd.last - crowd.first, 2),
        "rss_mb": round(memory, 1),
        "attempts_lost": store.ask("SELECT count(*) FROM attempt WHERE outcome = 'lost'"),
        "attempts": store.ask("SELECT count(*) FROM attempt"),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, runs=10_000, seconds=5.0)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.runs, given.seconds))
    bars = [
        at_least("peak_running", given.runs),
        at_most("wall_s", given.seconds + OVERHEAD_BAR),
        at_most("rss_mb", MEMORY_BAR),
        at_most("attempts_lost", 0),
        at_most("attempts", given.runs),
    ]
    print_line("sleepers", store.kind, figures, bars)


if __name__ == "__main__":
    main()
