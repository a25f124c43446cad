"""A command that prints 1 GiB: how fast it is read, what that costs the node in memory, and what is kept of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

import trisched
from loadtest.stage import Store, arguments, at_least, at_most, database, print_line
from trisched.app import collect_less

MEBIBYTE: Final = 1 << 20
#: The first prints one line without an end, the second very many short ones; both fail in the end, as they say.
COMMANDS: Final = {
    "line": "head -c {size} /dev/zero | tr '\\0' x; exit 3",
    "lines": "yes 'one of very many lines' | head -c {size}; exit 3",
}


def resident() -> int:
    """The memory of this process, in bytes."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


class Watcher:
    """The most memory, and the longest that Trio's loop did not get to turn: leases are renewed on it."""

    def __init__(self) -> None:
        self.memory, self.stall = 0, 0.0

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            before = trio.current_time()
            await trio.sleep(0.01)
            self.stall = max(self.stall, trio.current_time() - before - 0.01)
            self.memory = max(self.memory, resident())


@contextmanager
def watched(nursery: trio.Nursery) -> Iterator[Watcher]:
    """A watcher at work."""
    watcher, scope = Watcher(), trio.CancelScope()

    async def run() -> None:
        with scope:
            await watcher.run()

    nursery.start_soon(run)
    yield watcher
    scope.cancel()


def kept(store: Store, run_id: str) -> tuple[int, str]:
    """The bytes that are stored of a run's output, and its last chunk."""
    size = store.ask(f"SELECT sum(length(lines)) FROM output WHERE run_id = '{run_id}'")
    last = store.ask(f"SELECT lines FROM output WHERE run_id = '{run_id}' AND chunk < 1000000 ORDER BY chunk DESC")
    return int(size), str(last)


async def measure(store: Store, size: int) -> dict[str, Any]:
    """The figures of both commands."""
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())
    for name, command in COMMANDS.items():
        app.shell(name, command.format(size=size), retries=0)
    figures: dict[str, Any] = {"bytes": size, "exit_code": 0, "rss_delta_mb": 0.0, "stall_ms": 0.0, "kept_mb": 0.0}
    async with app.running(web=False), trio.open_nursery() as nursery:
        for name in COMMANDS:
            before, began = resident(), time.monotonic()
            with watched(nursery) as watcher:
                run = await app.submit(name)
                await run_over(store, run.id)
            seconds = time.monotonic() - began
            stored, last = kept(store, run.id)
            figures[f"{name}_s"] = round(seconds, 2)
            figures[f"{name}_mb_per_s"] = round(size / seconds / MEBIBYTE)
            figures["rss_delta_mb"] = max(figures["rss_delta_mb"], round((watcher.memory - before) / MEBIBYTE, 1))
            figures["stall_ms"] = max(figures["stall_ms"], round(watcher.stall * 1000, 1))
            figures["kept_mb"] = max(figures["kept_mb"], round(stored / MEBIBYTE, 3))
            figures["marked"] = figures.get("marked", True) and "left out" in json.dumps(
                json.loads(last), ensure_ascii=False
            )
        figures["exit_code"] = store.ask("SELECT min(exit_code) FROM attempt")
    return figures


async def run_over(store: Store, run_id: str) -> None:
    """Returns when the store has the attempt."""
    query = f"SELECT count(*) FROM attempt WHERE run_id = '{run_id}'"
    while not await trio.to_thread.run_sync(store.ask, query):  # noqa: ASYNC110 - a table cannot set an event
        await trio.sleep(0.05)


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, size=1 << 30)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.size))
    bars = [
        at_most("rss_delta_mb", 50),
        at_least("line_mb_per_s", 300),
        at_least("lines_mb_per_s", 300),
        at_most("kept_mb", 1),
        at_most("stall_ms", 200),
        at_least("exit_code", 3),
        at_least("marked", 1),
    ]
    print_line("output_flood", store.kind, figures, bars)


if __name__ == "__main__":
    main()
