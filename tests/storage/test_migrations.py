"""The schema: made from nothing, left alone when it is there, refused when it is not what it should be."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

import psycopg
import pytest
import trio

from tests.storage.stage import add_job, execute, rows
from trisched.clock import SystemClock
from trisched.errors import Misconfigured, SchemaTooNew, StoreError
from trisched.storage.connect import connect
from trisched.storage.database import Database
from trisched.storage.migrate import known
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.sqlite import SqliteDatabase

TABLES = {
    "attempt",
    "cluster",
    "dependency",
    "job",
    "job_tag",
    "limit_group",
    "migration",
    "node",
    "output",
    "queue",
    "rate_start",
    "run",
    "run_need",
    "schedule_span",
}
INDEXES = {
    "job_due",
    "job_name",
    "run_active",
    "run_attention",
    "run_claimed",
    "run_due",
    "run_finished",
    "run_flow",
    "run_key",
    "run_limited",
    "run_need_needs",
    "run_parked",
    "run_queued",
    "run_slot",
    "run_unique",
    "run_waiting",
}

Open = Callable[[], Database]


@pytest.fixture
def fresh_store(database_url: str) -> Open:
    """Makes one more object for the same database, which has no schema at first."""
    return lambda: connect(database_url, clock=SystemClock(), origin="here")


async def _once(store: Database, text: str) -> None:
    """Opens, changes something, and closes."""
    await store.open()
    await execute(store, text)
    await store.close()


async def _names(database: Database, kind: str) -> set[str]:
    if database.kind == "sqlite":
        found = await rows(database, "SELECT name FROM sqlite_master WHERE type = :kind", kind=kind)
    else:
        view, column = {"table": ("pg_tables", "tablename"), "index": ("pg_indexes", "indexname")}[kind]
        found = await rows(database, f"SELECT {column} FROM {view} WHERE schemaname = 'trisched'")
    # Both make indexes of their own for primary keys.
    return {name for (name,) in found if not name.startswith("sqlite_") and not name.endswith("_pkey")}


async def _columns(database: Database) -> dict[str, list[str]]:
    if database.kind == "sqlite":
        text = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    else:
        text = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'trisched'"
    found: dict[str, list[str]] = {}
    for table, column in sorted(await rows(database, text)):
        found.setdefault(table, []).append(column)
    return found


async def test_an_empty_database_gets_the_newest_schema(fresh_store: Open) -> None:
    database = fresh_store()
    await database.open()
    applied = await rows(database, "SELECT version, name, checksum FROM migration ORDER BY version")
    assert applied == [(step.version, step.name, step.checksum) for step in known()]
    assert await _names(database, "table") == TABLES
    assert await _names(database, "index") == INDEXES
    await database.close()


async def test_both_databases_have_the_same_columns(sqlite: SqliteDatabase, postgres: PostgresDatabase) -> None:
    assert await _columns(sqlite) == await _columns(postgres)


async def test_opening_again_changes_nothing(fresh_store: Open) -> None:
    first = fresh_store()
    await first.open()
    job = await add_job(first)
    applied = await rows(first, "SELECT * FROM migration")
    await first.close()
    second = fresh_store()
    await second.open()
    assert await rows(second, "SELECT * FROM migration") == applied
    assert await rows(second, "SELECT id FROM job") == [(job.id,)]
    await second.close()


async def test_a_database_object_can_be_opened_again(fresh_store: Open) -> None:
    database = fresh_store()
    for _ in range(2):
        await database.open()
        assert await rows(database, "SELECT count(*) FROM run") == [(0,)]
        await database.close()


async def test_a_migration_that_was_changed_is_refused(fresh_store: Open) -> None:
    await _once(fresh_store(), "UPDATE migration SET checksum = 'other' WHERE version = 1")
    with pytest.raises(Misconfigured, match="0001"):
        await fresh_store().open()


async def test_a_newer_schema_is_refused(fresh_store: Open) -> None:
    await _once(fresh_store(), "INSERT INTO migration VALUES (9999, 'future', 'x', 0)")
    with pytest.raises(SchemaTooNew) as caught:
        await fresh_store().open()
    assert (caught.value.found, caught.value.known) == (9999, known()[-1].version)


async def test_a_refused_database_leaves_no_thread_and_can_be_asked_nothing(fresh_store: Open) -> None:
    await _once(fresh_store(), "INSERT INTO migration VALUES (9999, 'future', 'x', 0)")
    before = _own_threads()
    database = fresh_store()
    with pytest.raises(SchemaTooNew):
        await database.open()
    with trio.fail_after(30):
        # The watcher of Postgres looks twice a second whether it is needed.
        while _own_threads() - before:  # noqa: ASYNC110
            await trio.sleep(0.01)
    with pytest.raises(trio.ClosedResourceError):
        await rows(database, "SELECT 1")


def _own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("trisched-")}


async def test_a_migration_that_fails_leaves_nothing_behind(fresh_store: Open) -> None:
    """The last table of the schema is in the way: none of those before it may stay."""
    database = fresh_store()
    await database.open()
    for table in sorted(TABLES - {"output"}):
        await execute(database, f"DROP TABLE {table}")
    await database.close()
    with pytest.raises(Exception, match="output") as caught:
        await fresh_store().open()
    assert not isinstance(caught.value, StoreError)
    await _assert_only_output(fresh_store())


async def _assert_only_output(store: Database) -> None:
    with pytest.raises(Exception, match="output"):
        await store.open()
    if isinstance(store, SqliteDatabase):
        connection = sqlite3.connect(store.path)
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        connection.close()
    else:
        assert isinstance(store, PostgresDatabase)
        with psycopg.connect(store.dsn) as session:
            text = "SELECT tablename FROM pg_tables WHERE schemaname = 'trisched'"
            names = {row[0] for row in session.execute(text)}
    assert names == {"output"}


async def test_nodes_that_start_together_wait_for_each_other(postgres_dsn: str) -> None:
    stores = [PostgresDatabase(postgres_dsn, f"node-{number}") for number in range(4)]
    async with trio.open_nursery() as nursery:
        for store in stores:
            nursery.start_soon(store.open)
    assert await rows(stores[0], "SELECT version FROM migration") == [(step.version,) for step in known()]
    assert await rows(stores[3], "SELECT count(*) FROM cluster") == [(1,)]
    for store in stores:
        await store.close()


async def test_the_cluster_has_exactly_one_row(fresh_store: Open) -> None:
    database = fresh_store()
    await database.open()
    assert await rows(database, "SELECT id, leader_epoch, leader_until FROM cluster") == [(1, 0, 0)]
    await database.close()


def test_migrations_are_numbered_without_gaps_and_stay_as_they_are() -> None:
    assert [step.version for step in known()] == list(range(1, len(known()) + 1))
    assert all(step.statements for step in known())
