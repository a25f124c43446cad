"""How late runs start, and are queued, when very many schedules are due in the same second."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
import time
from functools import partial
from typing import Any, Final

import trio

import trisched
from loadtest.stage import Store, arguments, at_most, database, milliseconds, percentile, print_line, wait_until
from trisched.app import collect_less

CONCURRENCY: Final = 1_000
START_P99_BAR: Final = 200.0
QUEUED_BAR: Final = 2_000.0
PATIENCE: Final = 30.0
_MICROSECONDS: Final = 1_000_000


def cron_of(moment: int) -> str:
    """The schedule with this second of the epoch as its next slot."""
    due = dt.datetime.fromtimestamp(moment, dt.UTC)
    return f"{due.second} {due.minute} {due.hour} {due.day} {due.month} *"


async def measure(store: Store, schedules: int, lead: float) -> dict[str, Any]:
    """The figures; lateness counts from the slot, by the clock of the host."""
    due = math.ceil(time.time() + lead)
    starts: list[float] = []
    app = trisched.App(store.url, data_dir=tempfile.gettempdir())

    async def noop() -> None:
        starts.append(time.time() - due)

    for number in range(schedules):
        app.job(name=f"due-{number}", schedule=cron_of(due), timezone="UTC")(noop)
    async with app.running(web=False, concurrency=CONCURRENCY):
        if time.time() > due - 1:
            raise SystemExit("the node was not up in time for the slot; give a longer --lead")
        await trio.sleep(due - time.time())
        await wait_until(lambda: len(starts) == schedules, every=0.05, patience=PATIENCE)
    queued = store.ask("SELECT max(created_at) FROM run") / _MICROSECONDS - due
    return {
        "schedules": schedules,
        "started": len(starts),
        "start_p50_ms": milliseconds(percentile(starts, 0.5)),
        "start_p99_ms": milliseconds(percentile(starts, 0.99)),
        "start_max_ms": milliseconds(max(starts)),
        "queued_max_ms": milliseconds(queued),
    }


def main() -> None:
    """Measures and prints."""
    given = arguments(__doc__, schedules=1_000, lead=0.0)
    lead = given.lead or 4 + given.schedules / 500
    with database(given.database) as store:
        collect_less()
        figures = trio.run(partial(measure, store, given.schedules, lead))
    bars = [at_most("queued_max_ms", QUEUED_BAR)]
    if given.schedules <= CONCURRENCY:
        bars.append(at_most("start_p99_ms", START_P99_BAR))
    print_line("same_second", store.kind, figures, bars)


if __name__ == "__main__":
    main()
