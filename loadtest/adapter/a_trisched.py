"""The trisched adapter of an outside harness that runs job queues side by side; README.md says how it is plugged in.

The harness starts this file once for each step, gives its wishes in the environment, and keeps the evidence that the
job bodies write down (``_common.rec``).
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any, Final

import _common as C  # type: ignore[import-not-found]  # noqa: N812 - the harness has it, and calls it so
import trio

import trisched
from trisched.version import __version__

CHUNK: Final = 5_000
CONCURRENCY: Final = C.opt("conc", {"W1": 1_000, "W3": 10_000, "W4": 1_000}.get(C.W, 100))
PROCESSES: Final = C.opt("procs", 1)
DATABASE: Final = C.PG if C.VARIANT == "pg" else C.SQLITE

INFO: Final = {
    "version": __version__,
    "bulk": "submit_many, 5,000 runs in a transaction",
    "w1": "1 process, concurrency 1,000",
    "w2": "1 process, defaults",
    "w3": "1 process, concurrency 10,000",
    "w4": "1 process, concurrency 1,000, default misfire and overlap policies",
    "w5": "1 process, concurrency 100, default leases",
    "durable": "yes: every run and attempt kept, synchronous_commit on (Postgres), synchronous FULL (SQLite)",
}

app = trisched.App(DATABASE, data_dir=tempfile.gettempdir(), web=False, concurrency=CONCURRENCY)


@app.job()
async def noop(i: int) -> None:
    """Writes down that it started."""
    C.rec(C.START, i)


@app.job()
async def sleep(i: int, secs: float) -> None:
    """Writes down that it started and, some seconds later, that it ended."""
    C.rec(C.START, i)
    await trio.sleep(secs)
    C.rec(C.FINISH, i)


def setup() -> None:
    """Makes the tables and the jobs in the empty store."""
    trio.run(_open_and_close)


async def _open_and_close() -> None:
    async with app.open():
        pass


def bulk(kind: str, n: int, secs: float) -> None:
    """Submits runs 0 to n-1."""
    trio.run(_bulk, kind, n, secs)


async def _bulk(kind: str, n: int, secs: float) -> None:
    more: dict[str, Any] = {"secs": secs} if kind == "sleep" else {}
    async with app.open():
        for chunk in C.chunks(n, CHUNK):
            await app.submit_many(kind, [{"i": i, **more} for i in chunk])


def paced(ticks: Any) -> None:
    """Submits one run at each tick."""
    trio.run(_paced, ticks)


async def _paced(ticks: Any) -> None:
    start = trio.current_time() + 0.05
    async with app.open():
        for i in range(int(ticks.rate * ticks.secs)):
            await trio.sleep_until(start + i / ticks.rate)
            C.rec(C.ENQ, i)
            await noop.submit(i=i)
            C.rec(C.ENQD, i)


def worker(w: str) -> None:
    """Runs the node until it is killed."""
    C.me(w, PROCESSES)


def worker1(w: str) -> None:
    """One node."""
    if w == "W4":
        for k in range(C.NSCHED):
            app.job(name=f"every-minute-{k}", schedule="* * * * *", parameters={"i": k})(noop.function)
    app.run()


if __name__ == "__main__":
    sys.exit(C.main())
