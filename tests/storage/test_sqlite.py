"""SQLite: durable settings, one commit for a group, neighbours that do not harm each other, a full disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from tests.storage.stage import add_run, add_runs, new_run, rows, stored_run, write
from trisched.clock import SystemClock
from trisched.errors import Misconfigured, StoreFull, StoreUnavailable
from trisched.storage.database import Duplicate, Tx
from trisched.storage.sqlite import SqliteConnection, SqliteDatabase, SqliteTx
from trisched.storage.statements import rendered
from trisched.storage.tables import run as run_table


class Oops(Exception):
    """A fault of the work, not of the store."""


@pytest.fixture(params=["threads", "inline"])
async def database(request: pytest.FixtureRequest, sqlite_path: Path) -> AsyncIterator[SqliteDatabase]:
    """A database on threads of its own, and one on the Trio thread."""
    store = SqliteDatabase(sqlite_path, SystemClock(), inline=request.param == "inline")
    await store.open()
    yield store
    await store.close()


def _raw(tx: Tx) -> sqlite3.Connection:
    return cast("SqliteTx", tx)._connection


@asynccontextmanager
async def _writer_busy(database: SqliteDatabase) -> AsyncIterator[None]:
    """While the block lasts, the writer is busy: what is asked for meanwhile becomes one group."""
    busy, go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def hold(_: Tx) -> None:
        token.run_sync_soon(busy.set)
        go_on.wait(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, hold)
        await busy.wait()
        try:
            yield
        finally:
            go_on.set()


async def _together(database: SqliteDatabase, works: list[Callable[[Tx], Any]]) -> list[object]:
    """What becomes of each work when all are taken as one group."""
    answers: list[object] = [None] * len(works)

    async def ask(index: int) -> None:
        try:
            answers[index] = await database.write(works[index])
        except Exception as error:  # noqa: BLE001 - the answer is what the test looks at
            answers[index] = error

    async with trio.open_nursery() as nursery, _writer_busy(database):
        for index in range(len(works)):
            nursery.start_soon(ask, index)
            # One after the other, so that the order of the group is known.
            await trio.testing.wait_all_tasks_blocked()
    return answers


def _add(run_id: str) -> Callable[[Tx], None]:
    return lambda tx: run_table.add(tx, [new_run(id=run_id)])


async def _ids(database: SqliteDatabase) -> list[str]:
    return [row[0] for row in await rows(database, "SELECT id FROM run ORDER BY id")]


@pytest.mark.parametrize("ask", ["read", "write", "control"])
async def test_what_is_acknowledged_survives_a_power_cut(sqlite: SqliteDatabase, ask: str) -> None:
    def settings(tx: Tx) -> list[Any]:
        names = ("journal_mode", "synchronous")
        return [tx.rows(rendered("pragma", f"PRAGMA {name}"))[0][0] for name in names]

    assert await getattr(sqlite, ask)(settings) == ["wal", 2]


async def test_what_waits_is_committed_in_one_go(sqlite: SqliteDatabase) -> None:
    log: list[str] = []
    await sqlite.write(lambda tx: _raw(tx).set_trace_callback(log.append))
    log.clear()
    await _together(sqlite, [_add(f"run-{number}") for number in range(5)])
    await sqlite.write(lambda tx: _raw(tx).set_trace_callback(None))
    assert await _ids(sqlite) == [f"run-{number}" for number in range(5)]
    inserts = [number for number, line in enumerate(log) if line.startswith("INSERT")]
    commits = [number for number, line in enumerate(log) if line == "COMMIT"]
    assert len(inserts) == 5
    assert [number for number in commits if inserts[0] < number < inserts[-1]] == []


async def test_a_work_that_fails_does_not_harm_its_neighbours(sqlite: SqliteDatabase) -> None:
    def fail(tx: Tx) -> None:
        _add("run-bad")(tx)
        tx.wake("bad")
        raise Oops

    def good(tx: Tx) -> str:
        _add("run-2")(tx)
        tx.wake("good")
        return "done"

    told: list[str] = []
    with sqlite.wakeups.listening(told.append):
        answers = await _together(sqlite, [_add("run-1"), fail, _add("run-1"), good])
    assert answers[0] is None
    assert isinstance(answers[1], Oops)
    assert isinstance(answers[2], Duplicate)
    assert answers[3] == "done"
    assert await _ids(sqlite) == ["run-1", "run-2"]
    assert "good" in told
    assert "bad" not in told


async def test_a_work_that_fails_alone_leaves_nothing(database: SqliteDatabase) -> None:
    def fail(tx: Tx) -> None:
        _add("run-bad")(tx)
        tx.wake("bad")
        raise Oops

    told: list[str] = []
    with database.wakeups.listening(told.append), pytest.raises(Oops):
        await database.write(fail)
    assert (await rows(database, "SELECT count(*) FROM run"), told) == ([(0,)], [])
    await add_run(database)


async def test_a_part_that_fails_is_undone_alone(database: SqliteDatabase) -> None:
    def part(tx: Tx) -> None:
        _add("run-part")(tx)
        tx.wake("part")
        tx.attempt(_add("run-inner"))
        raise Oops

    def work(tx: Tx) -> None:
        _add("run-before")(tx)
        with pytest.raises(Oops):
            tx.attempt(part)
        _add("run-after")(tx)

    told: list[str] = []
    with database.wakeups.listening(told.append):
        await database.write(work)
    assert await rows(database, "SELECT id FROM run ORDER BY id") == [("run-after",), ("run-before",)]
    assert "part" not in told


async def test_work_that_still_waits_is_taken_back_when_its_caller_is_cancelled(sqlite: SqliteDatabase) -> None:
    done: list[str] = []
    async with _writer_busy(sqlite), trio.open_nursery() as nursery:
        nursery.start_soon(sqlite.write, lambda _: done.append("ran"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await sqlite.write(lambda _: done.append("later"))
    assert done == ["later"]


async def test_work_that_has_begun_is_finished_though_its_caller_is_cancelled(sqlite: SqliteDatabase) -> None:
    begun, go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def work(tx: Tx) -> None:
        token.run_sync_soon(begun.set)
        go_on.wait(30)
        _add("run-1")(tx)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sqlite.write, work)
        await begun.wait()
        nursery.cancel_scope.cancel()
        go_on.set()
    assert await _ids(sqlite) == ["run-1"]


async def test_a_reader_cannot_write(sqlite: SqliteDatabase) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await sqlite.read(_add("run-1"))
    assert await _ids(sqlite) == []


async def test_a_reader_sees_what_was_committed_and_nothing_else(sqlite: SqliteDatabase) -> None:
    begun, go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def work(tx: Tx) -> None:
        _add("run-1")(tx)
        token.run_sync_soon(begun.set)
        go_on.wait(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sqlite.write, work)
        try:
            await begun.wait()
            assert await _ids(sqlite) == []
        finally:
            go_on.set()
    assert await _ids(sqlite) == ["run-1"]


def _leave_no_room(tx: Tx) -> None:
    pages = tx.rows(rendered("pragma", "PRAGMA page_count"))[0][0]
    tx.rows(rendered("pragma", f"PRAGMA max_page_count = {pages}"))


def _make_room(tx: Tx) -> None:
    tx.rows(rendered("pragma", "PRAGMA max_page_count = 1000000"))


async def test_a_full_disk_is_called_by_its_name_and_forgotten_when_there_is_room(database: SqliteDatabase) -> None:
    await add_run(database, id="run-kept")
    await database.write(_leave_no_room)
    told: list[str] = []
    with database.wakeups.listening(told.append), pytest.raises(StoreFull, match="full"):
        await add_runs(database, [new_run(parameters="x" * 3000) for _ in range(50)])
    assert (await rows(database, "SELECT id FROM run"), told) == ([("run-kept",)], [])
    await database.write(_make_room)
    await add_run(database, parameters="x" * 300_000)


async def test_when_the_disk_is_full_nobody_of_a_group_believes_to_be_stored(sqlite: SqliteDatabase) -> None:
    """SQLite undoes the whole transaction: neighbours before and after the one that did not fit are told."""
    await sqlite.write(_leave_no_room)
    await add_run(sqlite, id="run-0")

    def too_much(tx: Tx) -> None:
        run_table.add(tx, [new_run(parameters="x" * 3000) for _ in range(50)])

    answers = await _together(sqlite, [_add("run-1"), too_much, _add("run-2")])
    stored = set(await _ids(sqlite)) - {"run-0"}
    for run_id, answer in (("run-1", answers[0]), ("run-2", answers[2])):
        assert (run_id in stored) is (answer is None), answer
        assert answer is None or isinstance(answer, StoreFull)
    assert isinstance(answers[1], StoreFull)
    assert len(stored - {"run-1", "run-2"}) == 0
    await sqlite.write(_make_room)
    await add_run(sqlite, id="run-3", parameters="x" * 300_000)
    assert (await stored_run(sqlite, "run-3")).parameters == "x" * 300_000


async def test_a_group_that_sqlite_undid_is_not_continued(sqlite_path: Path) -> None:
    """What follows would commit piece by piece, and be reported as lost."""
    connection = SqliteConnection(str(sqlite_path), SystemClock(), writer=True)
    connection.raw.execute("CREATE TABLE t (x INTEGER)")

    def undone(_: Tx) -> None:
        connection.raw.execute("ROLLBACK")
        raise Oops

    def insert(tx: Tx) -> None:
        tx.count(rendered("insert", "INSERT INTO t VALUES (1)"))

    with pytest.raises(Oops):
        connection.transact([insert, undone, insert])
    assert connection.raw.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    connection.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_a_closed_database_says_so(sqlite_path: Path, inline: bool) -> None:
    database = SqliteDatabase(sqlite_path, SystemClock(), inline=inline)
    for _ in range(2):
        for ask in (database.read, database.write, database.control):
            with pytest.raises(trio.ClosedResourceError):
                await ask(run_table.now)
        await database.open()
        await write(database, run_table.now)
        await database.close()


async def test_closing_folds_the_log_into_the_file(sqlite_path: Path) -> None:
    database = SqliteDatabase(sqlite_path, SystemClock())
    await database.open()
    await add_run(database)
    await rows(database, "SELECT 1")
    log = trio.Path(f"{sqlite_path}-wal")
    assert await log.exists()
    await database.close()
    assert not await log.exists()


async def test_missing_directories_are_made(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a" / "b" / "c.db", SystemClock())
    await database.open()
    await database.close()
    assert (tmp_path / "a" / "b" / "c.db").exists()


@pytest.mark.parametrize("inline", [False, True])
async def test_what_cannot_be_a_database_is_refused_with_its_path(tmp_path: Path, inline: bool) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look like one at first sight " * 20)
    for path, error in (
        (text, StoreUnavailable),
        (tmp_path, StoreUnavailable),
        (text / "x.db", Misconfigured),
    ):
        with pytest.raises(error, match=str(path)):
            await SqliteDatabase(path, SystemClock(), inline=inline).open()


async def test_a_file_that_another_program_locks_is_unavailable_and_then_not(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trisched.storage.sqlite._SETTINGS", ("PRAGMA journal_mode = WAL", "PRAGMA busy_timeout = 1"))
    database = SqliteDatabase(sqlite_path, SystemClock())
    await database.open()
    other = sqlite3.connect(sqlite_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await add_run(database)
    other.execute("ROLLBACK")
    other.close()
    await add_run(database)
    await database.close()


async def test_time_is_the_clock_that_was_given(sqlite_path: Path) -> None:
    class Still:
        def now_us(self) -> int:
            return 42

    database = SqliteDatabase(sqlite_path, Still())
    await database.open()
    assert await database.read(run_table.now) == 42
    assert (await stored_run(database, await add_run(database))).created_at == 42
    await database.close()


async def test_inline_work_runs_on_the_trio_thread_after_a_checkpoint(sqlite_path: Path) -> None:
    database = SqliteDatabase(sqlite_path, SystemClock(), inline=True)
    await database.open()
    assert await database.write(lambda _: threading.current_thread()) is threading.current_thread()
    with trio.CancelScope() as scope:
        scope.cancel()
        await database.write(_add("run-1"))
    assert scope.cancelled_caught
    assert await rows(database, "SELECT count(*) FROM run") == [(0,)]
    await database.close()
