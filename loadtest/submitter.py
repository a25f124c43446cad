"""A process that only submits: at a pace, printing when it began each, or everything at once."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial

import trio

import trisched


async def paced(app: trisched.App, job: str, runs: int, rate: float) -> list[float]:
    """One run after another; answers the moments before each."""
    stamps = []
    async with app.open():
        start = trio.current_time()
        for i in range(runs):
            await trio.sleep_until(start + i / rate)
            stamps.append(time.monotonic())
            await app.submit(job, {"i": i})
    return stamps


async def bulk(app: trisched.App, job: str, runs: int, chunk: int = 5_000) -> list[float]:
    """All runs as fast as it goes."""
    async with app.open():
        for first in range(0, runs, chunk):
            await app.submit_many(job, [{"i": i} for i in range(first, min(first + chunk, runs))])
    return []


def main() -> None:
    """Submits and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("job")
    parser.add_argument("runs", type=int)
    parser.add_argument("--rate", type=float, default=0.0, help="runs a second; 0: all at once")
    given = parser.parse_args()
    app = trisched.App(given.database, data_dir=tempfile.gettempdir())
    work = partial(paced, rate=given.rate) if given.rate else bulk
    print(json.dumps(trio.run(partial(work, app, given.job, given.runs))))


if __name__ == "__main__":
    main()
