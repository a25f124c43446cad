"""Postgres: official synchronous driver, connections on threads of our own, wake-ups by LISTEN."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import outcome
import psycopg
import trio

from trisched.errors import Misconfigured, StoreUnavailable
from trisched.storage.database import Tx, Work
from trisched.storage.lane import Lane
from trisched.storage.migrate import migrate
from trisched.storage.postgres_tx import CHANNEL, IN_THE_WAY, PostgresTx, translated
from trisched.storage.statements import Statement
from trisched.storage.wakeup import EVERYTHING, Wakeups

T = TypeVar("T")
#: Any text works as a number for the advisory lock of migrations; this one spells our name.
_MIGRATION_LOCK: Final = 0x7472697363686564
_SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS trisched",
    """
    CREATE OR REPLACE FUNCTION trisched.now_us() RETURNS bigint LANGUAGE sql VOLATILE
    AS 'SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)'
    """,
)
#: A dead link is noticed by these; a frozen server by the call limit.
_LINK: Final[dict[str, Any]] = {
    "connect_timeout": 3,
    "tcp_user_timeout": 3000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "target_session_attrs": "read-write",
}


class PostgresConnection:
    """One connection; its calls are bounded by the server and, for a frozen one, by ``abort``."""

    def __init__(self, dsn: str, limit: float, origin: str) -> None:
        self.limit, self._origin = limit, origin
        self._topics: list[str] = []
        self.busy_since: float | None = None
        options = f"-c search_path=trisched,public -c statement_timeout={int(limit * 1000)} -c lock_timeout=5000"
        try:
            self.raw = psycopg.connect(
                dsn, options=options, application_name="trisched", autocommit=True, prepare_threshold=3, **_LINK
            )
        except psycopg.Error as error:
            raise translated(error) from error

    def transact(self, works: Sequence[Work[Any]]) -> list[outcome.Outcome[Any]]:
        [work] = works
        self.busy_since = time.monotonic()
        self._topics = []
        try:
            return [outcome.Value(self._run_again(work))]
        except Exception as error:
            if self.raw.closed or isinstance(error, psycopg.OperationalError):
                raise translated(error) from error
            return [outcome.Error(translated(error))]
        finally:
            self.busy_since = None

    def _run_again(self, work: Work[T]) -> T:
        """Runs ``work``, a second time if the first got in another's way: that one is through by then."""
        try:
            return self._run(work)
        except IN_THE_WAY:
            return self._run(work)

    def _run(self, work: Work[T]) -> T:
        tx = PostgresTx(self.raw)
        with self.raw.transaction():
            answer = work(tx)
            if tx.topics:
                tx.notify(self._origin)
        self._topics = tx.topics
        return answer

    def topics(self) -> list[str]:
        topics, self._topics = self._topics, []
        return topics

    def abort(self) -> None:
        """Breaks the link from another thread: the call under way ends with an error."""
        try:
            with socket.socket(fileno=socket.dup(self.raw.fileno())) as link:
                link.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error):
            return

    def usable(self) -> bool:
        """An idle connection has nothing to read: if there is something, it is the server's farewell."""
        if self.raw.closed:
            return False
        poll = select.poll()
        poll.register(self.raw.fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self.raw.close()


class PostgresDatabase:
    """One Postgres database; several nodes may share it. Our tables live in the schema ``trisched``."""

    kind = "postgres"

    def __init__(self, dsn: str, origin: str) -> None:
        self.dsn = dsn
        self.label = f"Postgres {_address(dsn)}"
        self.wakeups = Wakeups()
        self._origin = origin
        self._lanes: dict[str, Lane] = {}
        self._connections: list[PostgresConnection] = []
        self._closed = threading.Event()

    async def open(self) -> None:
        self._closed.clear()
        threading.Thread(target=self._watch, name="trisched-postgres-watch", daemon=True).start()
        publish = self.wakeups.publish
        self._lanes = {
            "control": Lane("pg-control", lambda: self._connect(3.0), publish),
            "write": Lane("pg-write", lambda: self._connect(30.0), publish, threads=2),
            "read": Lane("pg-read", lambda: self._connect(30.0), publish, threads=2),
        }
        try:
            await self.write(self._prepare)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.close()
            raise

    async def close(self) -> None:
        self._closed.set()
        lanes, self._lanes = self._lanes, {}
        for connection in list(self._connections):
            # Whoever asked has its answer or has given up: only a frozen server still keeps a call.
            if connection.busy_since is not None:
                connection.abort()
        for lane in lanes.values():
            await lane.close()

    async def read(self, work: Work[T]) -> T:
        return await self._lane("read").run(work)

    async def write(self, work: Work[T]) -> T:
        return await self._lane("write").run(work)

    async def control(self, work: Work[T]) -> T:
        return await self._lane("control").run(work)

    async def listen(self) -> None:
        """Passes on the wake-ups of other nodes, for as long as it is let; reconnects when it must."""
        while True:
            try:
                await self._listen_once()
            except StoreUnavailable:
                await trio.sleep(1)

    async def _listen_once(self) -> None:
        connection = await trio.to_thread.run_sync(self._connect, 3.0)
        try:
            await trio.to_thread.run_sync(connection.raw.execute, f"LISTEN {CHANNEL}")
            # What was told while nobody listened is gone: look everywhere once.
            self.wakeups.publish([EVERYTHING])
            while True:
                await trio.lowlevel.wait_readable(connection.raw.fileno())
                for notice in connection.raw.notifies(timeout=0):
                    origin, *topics = notice.payload.split("\n")
                    if origin != self._origin:
                        self.wakeups.publish(topics)
        except psycopg.Error as error:
            raise translated(error) from error
        finally:
            connection.close()

    def _lane(self, name: str) -> Lane:
        if name not in self._lanes:
            raise trio.ClosedResourceError("the database is closed")
        return self._lanes[name]

    def _connect(self, limit: float) -> PostgresConnection:
        connection = PostgresConnection(self.dsn, limit, self._origin)
        self._connections.append(connection)
        return connection

    def _prepare(self, tx: Tx) -> None:
        """Schema and migrations under one lock, so that nodes that start together wait for each other."""
        tx.one(Statement("lock", "", f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        version = tx.one(Statement("version", "", "SELECT current_setting('server_version_num')"))
        if version is None or int(version[0]) < 130_000:
            raise Misconfigured("trisched needs Postgres 13 or newer; this server is older")
        for text in _SCHEMA:
            tx.count(Statement("schema", "", text))
        migrate(tx)

    def _watch(self) -> None:
        """Breaks calls that a frozen server keeps past their limit; no time-out of its own can."""
        while not self._closed.wait(0.5):
            now = time.monotonic()
            for connection in list(self._connections):
                if connection.raw.closed:
                    self._connections.remove(connection)
                since = connection.busy_since
                if since is not None and now - since > connection.limit + 1.0:
                    connection.abort()


def _address(dsn: str) -> str:
    """Host and database of ``dsn`` without user and password."""
    parts = urlsplit(dsn)
    if not parts.scheme:
        return "database"
    return f"{parts.hostname or 'local'}{f':{parts.port}' if parts.port else ''}{parts.path}"
