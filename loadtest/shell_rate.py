"""How many shell jobs a node runs in a second, silent ones and ones that print a line, with everything recorded."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from typing import Any, Final

import trio

import trisched
from loadtest.stage import CpuMeter, Store, arguments, at_least, database, print_line, wait_until
from trisched.app import collect_less

RATE_BAR: Final = 250
PATIENCE: Final = 300.0


async def measure(store: Store, runs: int, concurrency: int) -> dict[str, Any]:
    """The figures: from the start of the node until the store has every end."""
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())
    app.shell("silent", "/bin/true")
    app.shell("prints", 'echo "line of $TRISCHED_RUN_ID"')
    figures: dict[str, Any] = {"runs": runs}
    async with app.running(web=False, concurrency=concurrency):
        for job in ("silent", "prints"):
            meter, began = CpuMeter(store), time.monotonic()
            await app.submit_many(job, [{"i": i} for i in range(runs)])
            await wait_until(lambda: not store.unfinished(), every=0.02, patience=PATIENCE)
            figures[f"{job}_per_s"] = round(runs / (time.monotonic() - began))
            here, server = meter.read()
            figures[f"{job}_cpu_ms"] = round((here + server) / runs * 1000, 2)
    figures["completed"] = store.ask("SELECT count(*) FROM attempt WHERE outcome = 'completed' AND exit_code = 0")
    figures["outputs"] = store.ask("SELECT count(DISTINCT run_id) FROM output WHERE lines LIKE '%line of run-%'")
    return figures


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, runs=2_000, concurrency=100)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.runs, given.concurrency))
    bars = [
        at_least("silent_per_s", RATE_BAR),
        at_least("prints_per_s", RATE_BAR),
        at_least("completed", 2 * given.runs),
        at_least("outputs", given.runs),
    ]
    print_line("shell_rate", store.kind, figures, bars)


if __name__ == "__main__":
    main()
