"""The inside of a Postgres transaction: parameters, rows, COPY, wake-ups, and errors in our own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import psycopg

from trisched.errors import StoreFull, StoreUnavailable
from trisched.storage.database import Duplicate, Row
from trisched.storage.statements import Statement
from trisched.storage.wakeup import EVERYTHING

T = TypeVar("T")
CHANNEL: Final = "trisched"
#: Postgres refuses payloads of 8,000 bytes.
_PAYLOAD_LIMIT: Final = 7000
_FEW: Final = 3
#: The transaction may simply be run once more.
IN_THE_WAY: Final = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_WAKE: Final = Statement("wake", "", f"SELECT pg_notify('{CHANNEL}', %(payload)s)")


class PostgresTx:
    """A transaction on one Postgres connection."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection
        self.topics: list[str] = []

    def rows(self, statement: Statement, **parameters: object) -> list[Row]:
        return self._connection.execute(statement.postgres, _plain(parameters)).fetchall()

    def one(self, statement: Statement, **parameters: object) -> Row | None:
        return self._connection.execute(statement.postgres, _plain(parameters)).fetchone()

    def count(self, statement: Statement, **parameters: object) -> int:
        return self._connection.execute(statement.postgres, _plain(parameters)).rowcount

    def many(self, statement: Statement, parameters: Sequence[Mapping[str, object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.postgres, parameters)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        names = ", ".join(columns)
        rows = list(rows)
        if len(rows) <= _FEW:
            # COPY is a conversation of several messages; for a row or two a prepared INSERT is quicker.
            marks = ", ".join(["%s"] * len(columns))
            for row in rows:
                self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)  # noqa: S608 - our names
            return
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def attempt(self, work: Callable[[PostgresTx], T]) -> T:
        kept = len(self.topics)
        try:
            with self._connection.transaction():
                return work(self)
        except BaseException as error:
            del self.topics[kept:]
            if isinstance(error, IN_THE_WAY):
                raise
            raise translated(error) from error

    def wake(self, topic: str) -> None:
        if topic not in self.topics:
            self.topics.append(topic)

    def notify(self, origin: str) -> None:
        """Sends the wake-ups to the other nodes with the commit; too many become one that means all."""
        payload = "\n".join([origin, *self.topics])
        if len(payload.encode()) > _PAYLOAD_LIMIT:
            payload = f"{origin}\n{EVERYTHING}"
        self.one(_WAKE, payload=payload)


def _plain(parameters: Mapping[str, object]) -> Mapping[str, object]:
    return {key: array_literal(value) if isinstance(value, list) else value for key, value in parameters.items()}


def array_literal(values: list[str]) -> str:
    """A list of texts as the literal of an array: much cheaper than adapting each one."""
    quoted = '","'.join(values) if values else ""
    if "\\" in quoted or quoted.count('"') != 2 * (len(values) - 1):
        quoted = '","'.join(value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return '{"' + quoted + '"}' if values else "{}"


def translated(error: BaseException) -> BaseException:
    """``error`` as one of ours, where it is about the store and not about the work."""
    if isinstance(error, psycopg.errors.UniqueViolation):
        return Duplicate(error.diag.constraint_name or str(error))
    if isinstance(error, psycopg.errors.DiskFull):
        return StoreFull("the disk of the Postgres server is full; free some space")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(f"Postgres: {str(error).strip() or type(error).__name__}")
    return error
