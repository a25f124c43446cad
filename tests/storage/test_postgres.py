"""Postgres: outages have a name and an end, frozen servers are left, wake-ups travel, and lists arrive whole."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import PostgresServer
from tests.storage.stage import add_job, add_run, execute, held_open, rows, wait_for_lock
from trisched.errors import StoreFull, StoreUnavailable
from trisched.storage.database import Duplicate, Tx
from trisched.storage.postgres import PostgresConnection, PostgresDatabase
from trisched.storage.postgres_tx import array_literal, translated
from trisched.storage.statements import Statement, rendered
from trisched.storage.tables import run as run_table
from trisched.storage.wakeup import EVERYTHING


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that these tests may stop and freeze."""
    server = PostgresServer.start()
    yield server
    server.stop()


@pytest.fixture
async def own_database(own_server: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(own_server.create_database(), "here")
    await database.open()
    yield database
    await database.close()


async def _recovers(database: PostgresDatabase) -> None:
    """Asks until every connection that broke has been replaced: each costs one answer at most."""
    failures = 0
    while True:
        try:
            await rows(database, "SELECT 1")
            await database.write(run_table.now)
            await database.control(run_table.now)
            return
        except StoreUnavailable:
            failures += 1
            assert failures <= 5


async def test_a_server_that_is_gone_is_unavailable_and_welcome_when_it_is_back(
    own_server: PostgresServer, own_database: PostgresDatabase
) -> None:
    kept = await add_run(own_database)
    own_server.stop(keep_data=True)
    for ask in (own_database.read, own_database.write, own_database.control):
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="Postgres"):
                await ask(run_table.now)
    own_server.restart()
    await _recovers(own_database)
    assert await rows(own_database, "SELECT id FROM run") == [(kept,)]


async def test_a_database_that_does_not_exist_stops_the_start(own_server: PostgresServer) -> None:
    url = own_server.dsn("no_such_database")
    with pytest.raises(StoreUnavailable, match="no_such_database"):
        await PostgresDatabase(url, "here").open()


async def test_a_session_that_was_ended_in_the_middle_leaves_nothing(postgres: PostgresDatabase) -> None:
    def work(tx: Tx) -> None:
        tx.count(rendered("add", "INSERT INTO queue (name) VALUES ('lost')"))
        tx.rows(rendered("end", "SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(StoreUnavailable):
        await postgres.write(work)
    await _recovers(postgres)
    assert await rows(postgres, "SELECT * FROM queue") == []


async def test_a_session_that_was_ended_while_idle_costs_no_work(postgres: PostgresDatabase) -> None:
    [[backend]] = await postgres.control(lambda tx: tx.rows(rendered("pid", "SELECT pg_backend_pid()")))
    [idle] = [known for known in postgres._connections if known.raw.info.backend_pid == backend]
    await rows(postgres, "SELECT pg_terminate_backend(:pid)", pid=backend)
    with trio.fail_after(30):
        # The farewell is on its way: only the socket tells when it is there.
        while idle.usable():  # noqa: ASYNC110
            await trio.sleep(0.01)
    await postgres.control(run_table.now)


async def test_a_frozen_server_is_left_after_the_limit(own_database: PostgresDatabase) -> None:
    """No time-out of the server can fire: its process stands still."""
    [[backend]] = await own_database.control(lambda tx: tx.rows(rendered("pid", "SELECT pg_backend_pid()")))
    for connection in own_database._connections:
        connection.limit = 0.1
    os.kill(backend, signal.SIGSTOP)
    try:
        with trio.fail_after(30), pytest.raises(StoreUnavailable):
            await own_database.control(run_table.now)
    finally:
        os.kill(backend, signal.SIGCONT)
    await own_database.control(run_table.now)


async def test_a_call_is_broken_from_another_thread(schema_dsn: str) -> None:
    connection = PostgresConnection(schema_dsn, 60.0, "here")
    sleep = Statement("sleep", "", "SELECT pg_sleep(60)")

    def abort_when_busy() -> None:
        while connection.busy_since is None:
            time.sleep(0.001)
        connection.abort()

    breaker = threading.Thread(target=abort_when_busy)
    breaker.start()
    with pytest.raises(StoreUnavailable):
        connection.transact([lambda tx: tx.rows(sleep)])
    breaker.join()
    assert connection.busy_since is None
    connection.close()
    connection.abort()


def test_the_server_ends_a_call_beyond_its_limit(schema_dsn: str) -> None:
    connection = PostgresConnection(schema_dsn, 0.05, "here")
    sleep = Statement("sleep", "", "SELECT pg_sleep(60)")
    with pytest.raises(StoreUnavailable, match="timeout"):
        connection.transact([lambda tx: tx.rows(sleep)])
    connection.close()


async def test_leases_are_renewed_while_the_other_ways_are_clogged(postgres: PostgresDatabase) -> None:
    async with held_open(postgres, run_table.now), held_open(postgres, run_table.now):
        with trio.fail_after(30):
            await postgres.control(run_table.now)
            await postgres.read(run_table.now)


async def test_work_that_fell_into_a_deadlock_is_run_once_more(postgres: PostgresDatabase) -> None:
    await execute(postgres, "INSERT INTO queue (name) VALUES ('a'), ('b')")
    both, runs = threading.Barrier(2, timeout=30), list[str]()

    async def update(first: str, second: str) -> None:
        def part(tx: Tx) -> None:
            tx.count(rendered("x", "UPDATE queue SET paused_at = 1 WHERE name = :name"), name=second)

        def work(tx: Tx) -> None:
            runs.append(first)
            tx.count(rendered("x", "UPDATE queue SET paused_at = 1 WHERE name = :name"), name=first)
            if runs.count(first) == 1:
                both.wait()
            tx.wake(first)
            tx.attempt(part)

        await postgres.write(work)

    told: list[str] = []
    with postgres.wakeups.listening(told.append):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(update, "a", "b")
            nursery.start_soon(update, "b", "a")
    assert sorted(told) == ["a", "b"]
    assert len(runs) == 3
    assert sorted(set(runs)) == ["a", "b"]


async def test_a_second_deadlock_is_told_in_our_words(schema_dsn: str) -> None:
    connection = PostgresConnection(schema_dsn, 5.0, "here")
    tries: list[int] = []

    def work(_: Tx) -> None:
        tries.append(1)
        raise psycopg.errors.DeadlockDetected

    with pytest.raises(StoreUnavailable, match="DeadlockDetected"):
        connection.transact([work])
    assert len(tries) == 2
    connection.close()


async def test_a_lock_that_is_not_freed_is_no_reason_to_wait_for_ever(postgres: PostgresDatabase) -> None:
    await add_job(postgres)

    def impatient(tx: Tx) -> None:
        tx.count(rendered("limit", "SET LOCAL lock_timeout = 50"))
        tx.count(rendered("job", "UPDATE job SET alarm = 'x'"))

    async with held_open(postgres, lambda tx: tx.count(rendered("job", "UPDATE job SET alarm = 'y'"))):
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            await postgres.write(impatient)
    assert await rows(postgres, "SELECT alarm FROM job") == [("y",)]


async def test_a_unique_rule_is_named(postgres: PostgresDatabase) -> None:
    with pytest.raises(Duplicate, match="queue_pkey"):
        await execute(postgres, "INSERT INTO queue (name) VALUES ('a'), ('a')")


def test_errors_of_the_driver_get_our_names() -> None:
    assert isinstance(translated(psycopg.errors.DiskFull()), StoreFull)
    assert isinstance(translated(psycopg.errors.AdminShutdown()), StoreUnavailable)
    assert isinstance(translated(psycopg.InterfaceError("the connection is closed")), StoreUnavailable)
    mistake = psycopg.errors.UndefinedColumn("no such column")
    assert translated(mistake) is mistake


async def test_a_mistake_in_the_work_does_not_cost_the_connection(postgres: PostgresDatabase) -> None:
    pid = rendered("pid", "SELECT pg_backend_pid()")
    before = {(await postgres.control(lambda tx: tx.rows(pid)))[0] for _ in range(2)}
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await postgres.control(lambda tx: tx.rows(rendered("bad", "SELECT nothing FROM run")))
    assert {(await postgres.control(lambda tx: tx.rows(pid)))[0]} == before


@asynccontextmanager
async def _listening(dsn: str, origin: str) -> AsyncIterator[tuple[PostgresDatabase, trio.MemoryReceiveChannel[str]]]:
    """A node that listens, and what it hears."""
    database = PostgresDatabase(dsn, origin)
    await database.open()
    send, heard = trio.open_memory_channel[str](1000)
    async with trio.open_nursery() as nursery:
        with database.wakeups.listening(send.send_nowait):
            nursery.start_soon(database.listen)
            with trio.fail_after(30):
                assert await heard.receive() == EVERYTHING, "what was told before nobody heard"
            yield database, heard
        nursery.cancel_scope.cancel()
    await database.close()


async def _hears(heard: trio.MemoryReceiveChannel[str], last: str) -> list[str]:
    """All topics up to ``last``."""
    topics: list[str] = []
    with trio.fail_after(30):
        while last not in topics:
            topics.append(await heard.receive())
    return topics


def _wake(*topics: str) -> Any:
    def work(tx: Tx) -> None:
        for topic in topics:
            tx.wake(topic)

    return work


async def test_wake_ups_reach_other_nodes_and_the_sender_once(schema_dsn: str) -> None:
    async with _listening(schema_dsn, "one") as (one, at_one), _listening(schema_dsn, "two") as (two, at_two):
        await one.write(_wake("queue:ü", "due", "queue:ü"))
        await one.control(_wake("cancel"))
        assert await _hears(at_two, "cancel") == ["queue:ü", "due", "cancel"]
        # Notices come in the order of commits: after this one, all of its own have come back.
        await two.write(_wake("end"))
        assert await _hears(at_one, "end") == ["queue:ü", "due", "cancel", "end"]


async def test_what_was_undone_wakes_nobody(schema_dsn: str) -> None:
    def work(tx: Tx) -> None:
        tx.wake("undone")
        raise KeyError

    async with _listening(schema_dsn, "one") as (one, at_one), _listening(schema_dsn, "two") as (_, at_two):
        with pytest.raises(KeyError):
            await one.write(work)
        await one.write(_wake("end"))
        assert await _hears(at_one, "end") == ["end"]
        assert await _hears(at_two, "end") == ["end"]


async def test_too_many_topics_become_one_that_means_all(schema_dsn: str) -> None:
    topics = [f"run:{number:030}" for number in range(500)]
    async with _listening(schema_dsn, "one") as (one, at_one), _listening(schema_dsn, "two") as (_, at_two):
        await one.write(_wake(*topics))
        assert await _hears(at_two, EVERYTHING) == [EVERYTHING]
        assert await _hears(at_one, topics[-1]) == topics


async def test_a_listener_comes_back_after_its_connection_broke(schema_dsn: str) -> None:
    async with _listening(schema_dsn, "one") as (_, heard):
        with psycopg.connect(schema_dsn, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
            assert await _hears(heard, EVERYTHING) == [EVERYTHING]
            other.execute("SELECT pg_notify('trisched', E'other\\nnews')")
        assert await _hears(heard, "news") == ["news"]


def test_lists_of_any_texts_arrive_as_they_were(schema_dsn: str) -> None:
    texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
        ["", '"', "\\", '","', "NULL", "{}", "a,b", "'", '\\"', " ", "\n"]
    )
    with psycopg.connect(schema_dsn) as connection:

        @given(st.lists(texts, max_size=6))
        def arrives(values: list[str]) -> None:
            row = connection.execute("SELECT CAST(%s AS text[])", [array_literal(values)]).fetchone()
            assert row == (values,)

        arrives()


async def test_waiting_for_a_lock_can_be_seen_by_these_tests(postgres: PostgresDatabase) -> None:
    """Proof of the tool that other tests rely on: without a held lock it does not return."""
    with trio.move_on_after(0.2) as scope:
        await wait_for_lock(postgres)
    assert scope.cancelled_caught
