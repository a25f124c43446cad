"""The CPU of a node with many schedules and nothing to do."""

from __future__ import annotations

import datetime as dt
import tempfile
from functools import partial
from typing import Any, Final

import trio

import trisched
from loadtest.stage import CpuMeter, Store, arguments, at_most, database, print_line
from trisched.app import collect_less

CPU_BAR: Final = 1.0
#: Declaring the jobs, opening connections and the first elections are over by then.
SETTLE: Final = 3.0


def far_away(now: dt.datetime) -> str:
    """A schedule that is about half a year off."""
    return f"0 0 1 {(now.month + 5) % 12 + 1} *"


async def measure(store: Store, schedules: int, seconds: float) -> dict[str, Any]:
    """The figures."""
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())

    async def noop() -> None:
        return

    schedule = far_away(dt.datetime.now(dt.UTC))
    for number in range(schedules):
        app.job(name=f"idle-{number}", schedule=schedule)(noop)
    async with app.running(web=False):
        await trio.sleep(SETTLE)
        meter = CpuMeter(store)
        await trio.sleep(seconds)
        here, server = meter.read()
    return {
        "schedules": schedules,
        "cpu_percent": round(here / seconds * 100, 2),
        "cpu_percent_server": round(server / seconds * 100, 2),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, schedules=1_000, seconds=10.0)
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.schedules, given.seconds))
    print_line("idle", store.kind, figures, [at_most("cpu_percent", CPU_BAR)])


if __name__ == "__main__":
    main()
