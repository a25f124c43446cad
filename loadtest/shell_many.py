"""Very many commands that sleep at the same time on one node: how many at once, file descriptors, memory."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import trio

import trisched
from loadtest.sleepers import peak_memory_mb
from loadtest.stage import Store, arguments, at_least, at_most, database, print_line, wait_until
from trisched.app import collect_less
from trisched.worker.descriptors import PER_COMMAND, RESERVE, raise_limit

PATIENCE: Final = 300.0
_MEBIBYTE: Final = 1 << 10


def available_mb() -> float:
    """The memory of the machine that programs can still have."""
    return int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) / _MEBIBYTE


def children() -> int:
    """How many children this process has; one of them is the guardian."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            count += len((task / "children").read_text().split())
        except OSError:
            continue
    return count


@attrs.define
class Peak:
    """The most of each that was ever seen."""

    free_before: float
    commands: int = 0
    descriptors: int = 0
    used_mb: float = 0.0

    def look(self) -> None:
        """Notes what there is now."""
        self.commands = max(self.commands, children() - 1)
        self.descriptors = max(self.descriptors, len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        self.used_mb = max(self.used_mb, self.free_before - available_mb())


async def measure(store: Store, runs: int, seconds: float) -> dict[str, Any]:
    """The figures. The runs are submitted by another process, so that the memory is the node's alone."""
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())
    app.shell("sleeper", ["sleep", f"{seconds:g}"])
    async with app.open():
        pass
    await trio.run_process(
        [sys.executable, "-m", "loadtest.submitter", store.url, "sleeper", str(runs)], capture_stdout=True
    )
    peak = Peak(available_mb())

    def over() -> bool:
        peak.look()
        return not store.unfinished()

    async with app.running(web=False, concurrency=runs):
        began = time.monotonic()
        await wait_until(over, every=0.2, patience=PATIENCE + seconds)
        wall = time.monotonic() - began
        memory = peak_memory_mb()
    allowed = raise_limit()
    return {
        "runs": runs,
        "descriptor_limit": allowed.limit,
        "places": allowed.commands,
        "descriptors_for_all": runs * PER_COMMAND + RESERVE,
        "peak_running": peak.commands,
        "peak_descriptors": peak.descriptors,
        "wall_s": round(wall, 1),
        "node_rss_mb": round(memory),
        "system_mb": round(peak.used_mb),
        "completed": store.ask("SELECT count(*) FROM attempt WHERE outcome = 'completed' AND exit_code = 0"),
        "attempts": store.ask("SELECT count(*) FROM attempt"),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, runs=10_000, seconds=10.0)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.runs, given.seconds))
    bars = [
        at_least("peak_running", min(given.runs, figures["places"])),
        at_least("completed", given.runs),
        at_most("attempts", given.runs),
        at_most("node_rss_mb", 400),
    ]
    print_line("shell_many", store.kind, figures, bars)


if __name__ == "__main__":
    main()
