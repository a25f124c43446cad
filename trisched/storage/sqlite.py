"""SQLite: one file, one node, one writer thread that commits everything that waits in one go."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import outcome
import trio

from trisched.clock import Clock
from trisched.errors import Misconfigured, StoreFull, StoreUnavailable
from trisched.storage.database import Duplicate, Row, Work
from trisched.storage.lane import Lane
from trisched.storage.migrate import migrate
from trisched.storage.statements import Statement
from trisched.storage.wakeup import Wakeups

T = TypeVar("T")
_GROUP: Final = 64
_BUSY_MS: Final = 5000
_SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    # FULL, not NORMAL: an acknowledged run must survive a power cut.
    "PRAGMA synchronous = FULL",
    f"PRAGMA busy_timeout = {_BUSY_MS}",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",
    "PRAGMA wal_autocheckpoint = 4000",
)


class SqliteTx:
    """A transaction on one SQLite connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.topics: list[str] = []

    def rows(self, statement: Statement, **parameters: object) -> list[Row]:
        return self._connection.execute(statement.sqlite, _plain(parameters)).fetchall()

    def one(self, statement: Statement, **parameters: object) -> Row | None:
        rows = self.rows(statement, **parameters)
        return rows[0] if rows else None

    def count(self, statement: Statement, **parameters: object) -> int:
        return self._connection.execute(statement.sqlite, _plain(parameters)).rowcount

    def many(self, statement: Statement, parameters: Sequence[Mapping[str, object]]) -> None:
        self._connection.executemany(statement.sqlite, parameters)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        marks = ", ".join("?" * len(columns))
        names = ", ".join(columns)
        self._connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608 - our names

    def attempt(self, work: Callable[[SqliteTx], T]) -> T:
        kept = len(self.topics)
        self._connection.execute("SAVEPOINT part")
        try:
            answer = work(self)
        except BaseException as error:
            del self.topics[kept:]
            # A full disk may have undone the whole transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO part")
                self._connection.execute("RELEASE part")
            raise translated(error) from error
        self._connection.execute("RELEASE part")
        return answer

    def wake(self, topic: str) -> None:
        self.topics.append(topic)


def _plain(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Lists go in as JSON arrays, which json_each opens again."""
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in parameters.items()}


def translated(error: BaseException) -> BaseException:
    """``error`` as one of ours, where it is about the store and not about the work."""
    text = str(error)
    if isinstance(error, sqlite3.IntegrityError) and "UNIQUE" in text:
        return Duplicate(text)
    if isinstance(error, sqlite3.OperationalError):
        if "full" in text:
            return StoreFull("the disk that holds the database is full; free some space")
        if "locked" in text or "busy" in text or "unable to open" in text or "disk I/O" in text:
            return StoreUnavailable(f"SQLite: {text}")
    return error


class SqliteConnection:
    """One connection to the file; ``writer`` decides what its transactions may do."""

    def __init__(self, path: str, clock: Clock, *, writer: bool) -> None:
        try:
            self.raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"SQLite cannot open {path}: {error}") from error
        try:
            for setting in _SETTINGS:
                self.raw.execute(setting)
        except sqlite3.Error as error:
            self.raw.close()
            raise StoreUnavailable(f"SQLite cannot use {path}: {error}") from error
        self.raw.create_function("now_us", 0, clock.now_us)
        self._begin = "BEGIN IMMEDIATE" if writer else "BEGIN"
        if not writer:
            self.raw.execute("PRAGMA query_only = ON")
        self._topics: list[str] = []

    def transact(self, works: Sequence[Work[Any]]) -> list[outcome.Outcome[Any]]:
        try:
            self.raw.execute(self._begin)
            tx = SqliteTx(self.raw)
            answers = []
            for work in works:
                answers.append(self._run(tx, work, alone=len(works) == 1))
                if len(works) > 1 and not self.raw.in_transaction:
                    # SQLite undid the whole group: what goes on now would commit piece by piece.
                    answers[-1].unwrap()
            if self.raw.in_transaction:
                self.raw.execute("COMMIT")
        except BaseException as error:
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
            raise translated(error) from error
        self._topics = tx.topics
        return answers

    def _run(self, tx: SqliteTx, work: Work[Any], *, alone: bool) -> outcome.Outcome[Any]:
        if not alone:
            return outcome.capture(tx.attempt, work)
        try:
            return outcome.Value(work(tx))
        except Exception as error:  # noqa: BLE001 - handed to whoever asked for the work
            tx.topics.clear()
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
            return outcome.Error(translated(error))

    def topics(self) -> list[str]:
        topics, self._topics = self._topics, []
        return topics

    def usable(self) -> bool:
        return True

    def close(self) -> None:
        self.raw.close()


class SqliteDatabase:
    """A SQLite file. ``inline`` runs everything on the Trio thread, for virtual time."""

    kind = "sqlite"

    def __init__(self, path: str | Path, clock: Clock, *, inline: bool = False) -> None:
        self.path = str(path)
        self.label = f"SQLite {self.path}"
        self.wakeups = Wakeups()
        self._clock, self._inline = clock, inline
        self._lanes: list[Lane] = []
        self._here: SqliteConnection | None = None

    async def open(self) -> None:
        try:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"the directory of {self.path} cannot be made: {error.strerror}") from error
        if self._inline:
            self._here = self._connect(writer=True)
        else:
            publish = self.wakeups.publish
            self._lanes = [
                Lane("sqlite-writer", lambda: self._connect(writer=True), publish, group=_GROUP),
                Lane("sqlite-reader", lambda: self._connect(writer=False), publish, threads=2),
            ]
        try:
            await self.write(migrate)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.close()
            raise

    async def close(self) -> None:
        lanes, self._lanes = self._lanes, []
        # Readers first: the last connection to close is the writer's, which folds the log into the file.
        for lane in reversed(lanes):
            await lane.close()
        if self._here is not None:
            self._here.close()
            self._here = None

    async def listen(self) -> None:
        await trio.sleep_forever()

    async def read(self, work: Work[T]) -> T:
        return await self._at_once(work) if self._inline else await self._lane(1).run(work)

    async def write(self, work: Work[T]) -> T:
        return await self._at_once(work) if self._inline else await self._lane(0).run(work)

    control = write

    def _lane(self, number: int) -> Lane:
        if not self._lanes:
            raise trio.ClosedResourceError("the database is closed")
        return self._lanes[number]

    async def _at_once(self, work: Work[T]) -> T:
        await trio.lowlevel.checkpoint()
        if self._here is None:
            raise trio.ClosedResourceError("the database is closed")
        [answer] = self._here.transact([work])
        self.wakeups.publish(self._here.topics())
        unwrapped: T = answer.unwrap()
        return unwrapped

    def _connect(self, *, writer: bool) -> SqliteConnection:
        return SqliteConnection(self.path, self._clock, writer=writer)
