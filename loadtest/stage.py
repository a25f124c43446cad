"""What the benchmarks share: a database for one measurement, evidence read beside trisched, and the line they print."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import attrs
import psycopg
import trio

from tests.servers import PostgresServer

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgres"
#: The servers of the tests save the disk the trouble; figures are worth nothing without it.
_DURABLE: Final = ("-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen
class Bar:
    """What a figure has to reach."""

    figure: str
    limit: float
    at_least: bool = False

    def met(self, figures: Mapping[str, Any]) -> bool:
        """Whether the figure reaches it."""
        value = figures[self.figure]
        return bool(value >= self.limit if self.at_least else value <= self.limit)


def at_least(figure: str, limit: float) -> Bar:
    """The figure may not be smaller."""
    return Bar(figure, limit, at_least=True)


def at_most(figure: str, limit: float) -> Bar:
    """The figure may not be greater."""
    return Bar(figure, limit)


def print_line(bench: str, database: str, figures: Mapping[str, Any], bars: Sequence[Bar]) -> None:
    """The one line of a benchmark."""
    line = {
        "bench": bench,
        "database": database,
        "met": all(bar.met(figures) for bar in bars),
        "missed": [bar.figure for bar in bars if not bar.met(figures)],
        "figures": figures,
        "bars": {bar.figure: f"{'>=' if bar.at_least else '<='} {bar.limit:g}" for bar in bars},
        "load": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(line), flush=True)


def arguments(description: str | None, **numbers: float) -> argparse.Namespace:
    """The command line: the database, and the sizes of the benchmark with what they are unless said otherwise."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--database", default=SQLITE, help="sqlite, postgres (a server is started), or the URL of an empty database"
    )
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default: {value:g}")
    return parser.parse_args()


@contextmanager
def database(wish: str) -> Iterator[Store]:
    """A database for one measurement, gone afterwards; one that was named by URL stays."""
    if wish == SQLITE:
        with tempfile.TemporaryDirectory(prefix="trisched-bench-") as directory:
            yield Store(str(Path(directory) / "trisched.db"))
    elif wish == POSTGRES:
        server = PostgresServer.start()
        try:
            server.process.argv = [*server.process.argv, *_DURABLE]
            server.restart()
            yield Store(server.create_database())
        finally:
            server.stop()
    else:
        yield Store(wish)


class Store:
    """A database as an outsider sees it: evidence comes from here, not from what trisched says of itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kind = POSTGRES if url.startswith(("postgres://", "postgresql://")) else SQLITE

    def ask(self, query: str) -> Any:
        """The first value of the answer."""
        if self.kind == POSTGRES:
            with psycopg.connect(self.url, options="-c search_path=trisched", autocommit=True) as postgres:
                row = postgres.execute(query).fetchone()
        else:
            sqlite = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                row = sqlite.execute(query).fetchone()
            finally:
                sqlite.close()
        return row[0] if row else None

    def do(self, *statements: str) -> None:
        """Changes the tables behind trisched's back: to fill them."""
        if self.kind == POSTGRES:
            with psycopg.connect(self.url, options="-c search_path=trisched") as postgres:
                for statement in statements:
                    postgres.execute(statement)
        else:
            sqlite = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                for statement in statements:
                    sqlite.execute(statement)
                sqlite.commit()
            finally:
                sqlite.close()

    def unfinished(self) -> int:
        """How many runs are not over."""
        return int(self.ask("SELECT count(*) FROM run WHERE finished_at IS NULL"))

    def server_pid(self) -> int | None:
        """The Postgres server, if it runs on this host."""
        if self.kind == SQLITE:
            return None
        with psycopg.connect(self.url) as connection:
            backend = processes().get(connection.info.backend_pid)
        return backend.parent if backend is not None and backend.name == "postgres" else None


@attrs.frozen
class Process:
    """A line of the process table."""

    name: str
    parent: int
    cpu: float
    memory: int

    @classmethod
    def read(cls, stat: str) -> Self:
        """From /proc/PID/stat; the CPU includes that of children that are gone."""
        before, _, after = stat.rpartition(")")
        fields = after.split()
        return cls(
            before.partition("(")[2], int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE
        )


def processes() -> dict[int, Process]:
    """The process table of this host."""
    table = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            table[int(path.parent.name)] = Process.read(path.read_text(errors="replace"))
        except OSError:
            continue
    return table


def cpu_of(root: int, *, without: int | None = None) -> float:
    """CPU seconds of a process and all below it, but for the part below ``without``."""
    table = processes()
    seconds, todo = 0.0, [root]
    while todo:
        pid = todo.pop()
        if pid in table and pid != without:
            seconds += table[pid].cpu
            todo += [child for child, process in table.items() if process.parent == pid]
    return seconds


class CpuMeter:
    """CPU seconds of this process with its children, and of the Postgres server, since it was made."""

    def __init__(self, store: Store) -> None:
        self._server = store.server_pid()
        self._before = self._now()

    def _now(self) -> tuple[float, float]:
        # A server that was started for the measurement is a descendant of this process.
        here = cpu_of(os.getpid(), without=self._server)
        return here, cpu_of(self._server) if self._server else 0.0

    def read(self) -> tuple[float, float]:
        """Here, and in the server."""
        here, server = self._now()
        return here - self._before[0], server - self._before[1]


async def wait_until(holds: Callable[[], bool], *, every: float, patience: float) -> None:
    """Asks again and again, on a thread: what is waited for lies outside of Trio."""
    with trio.move_on_after(patience):
        while not await trio.to_thread.run_sync(holds):  # noqa: ASYNC110 - a table cannot set an event
            await trio.sleep(every)
        return
    raise SystemExit(f"what was to happen did not within {patience:g} s")


def sync_times(count: int, rate: float) -> list[float]:
    """How long the disk takes to make a small write durable: no figure with a commit in it can be better."""
    times = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(count):
            time.sleep(1 / rate)
            file.write(bytes(_PAGE))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return times


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which ``part`` of all lie."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def milliseconds(seconds: float) -> float:
    """Rounded for people."""
    return round(seconds * 1000, 2)
