"""An open database of each kind, with the newest schema and nothing in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import trio

from tests.servers import PostgresServer
from trisched.clock import SystemClock
from trisched.storage.connect import connect
from trisched.storage.database import Database
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.sqlite import SqliteDatabase

_TABLES = ("cluster", "node", "job", "job_tag", "dependency", "queue", "run", "attempt", "output")
_EMPTY = "; ".join(
    [f"DELETE FROM trisched.{table}" for table in _TABLES]
    + ["INSERT INTO trisched.cluster VALUES (1, 0, NULL, NULL, 0)"]
)


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database with the newest schema, for one test after the other."""
    dsn = postgres_server.create_database()

    async def migrate() -> None:
        database = PostgresDatabase(dsn, "first")
        await database.open()
        await database.close()

    trio.run(migrate)
    yield dsn
    postgres_server.drop_database(dsn)


@pytest.fixture
def schema_dsn(migrated_postgres: str) -> str:
    """The URL of a Postgres database with the newest schema and nothing in it.

    Emptying one is ten times as fast as making one; a test that changes the schema takes ``postgres_dsn``.
    """
    with psycopg.connect(migrated_postgres, autocommit=True) as connection:
        connection.execute(_EMPTY)
    return migrated_postgres


@pytest.fixture
async def postgres(schema_dsn: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(schema_dsn, "here")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def sqlite(sqlite_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(sqlite_path, SystemClock())
    await database.open()
    yield database
    await database.close()


@pytest.fixture(params=["sqlite", "sqlite-inline", "postgres"])
def store_address(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """Where a database with the newest schema is, and whether it is to run on the Trio thread."""
    if request.param == "postgres":
        return str(request.getfixturevalue("schema_dsn")), False
    path = request.getfixturevalue("sqlite_path")
    return f"sqlite:///{path}", request.param == "sqlite-inline"


@pytest.fixture
async def database(store_address: tuple[str, bool]) -> AsyncIterator[Database]:
    """Each kind in turn; a verb of storage must do the same on all."""
    address, inline = store_address
    store: Database = connect(address, clock=SystemClock(), origin="here")
    if inline and isinstance(store, SqliteDatabase):
        store = SqliteDatabase(store.path, SystemClock(), inline=True)
    await store.open()
    yield store
    await store.close()
