"""The servers that tests rely on: they answer, come back, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import redis

from tests.servers import CannotStart, PostgresServer, RedisServer
from tests.servers.postgres_programs import postgres_programs, wheel_postgres
from tests.servers.process import PortTaken, retry_ports
from tests.servers.redis import redis_program

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0

STARTS_A_SERVER = """
import sys
from tests.servers import PostgresServer, RedisServer
server = {kind}.start()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


def _scalar(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _wait_until_gone(pid: int, directory: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while _is_alive(pid) or directory.exists():
        assert time.monotonic() < deadline, f"pid {pid} or {directory} is still there"
        time.sleep(0.02)


def test_postgres_answers_over_tcp_and_is_new_enough(postgres_server: PostgresServer) -> None:
    version = _scalar(postgres_server.dsn("postgres"), "SELECT current_setting('server_version_num')::int")
    assert isinstance(version, int)
    assert version >= 130000


def test_a_new_postgres_database_is_empty(postgres_server: PostgresServer, postgres_dsn: str) -> None:
    other = postgres_server.create_database()
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE mark (n int)")
    assert _scalar(other, "SELECT to_regclass('mark')") is None
    postgres_server.drop_database(other)


def test_a_postgres_database_can_be_copied_from_a_template(postgres_server: PostgresServer, postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE mark AS SELECT 42 AS n")
    copy = postgres_server.create_database(template=postgres_dsn)
    assert _scalar(copy, "SELECT n FROM mark") == 42
    postgres_server.drop_database(copy)


def test_redis_answers(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("greeting", "hello")
        assert client.get("greeting") == b"hello"


def test_a_postgres_killed_with_9_comes_back_with_its_data_and_its_url() -> None:
    server = PostgresServer.start()
    try:
        dsn = server.create_database()
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE mark AS SELECT 42 AS n")
        first_pid = server.pid
        os.kill(first_pid, signal.SIGKILL)
        server.restart()
        assert server.pid != first_pid
        assert _scalar(dsn, "SELECT n FROM mark") == 42
    finally:
        server.stop()
    _wait_until_gone(server.pid, server.directory)


def test_a_stopped_redis_is_away_until_it_is_restarted_empty() -> None:
    server = RedisServer.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            client.set("greeting", "hello")
            server.stop(keep_data=True)
            with pytest.raises(redis.ConnectionError):
                client.get("greeting")
            server.restart()
            assert client.get("greeting") is None
    finally:
        server.stop()
    _wait_until_gone(server.pid, server.directory)


@pytest.mark.parametrize("kind", ["PostgresServer", "RedisServer"])
def test_a_server_dies_with_its_starter_even_when_that_is_killed_with_9(kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER.format(kind=kind)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        pid, directory = starter.stdout.readline().split()
        assert _is_alive(int(pid))
        starter.kill()
    _wait_until_gone(int(pid), Path(directory))


def test_the_wheel_serves_where_the_system_has_no_postgres() -> None:
    server = PostgresServer.start_from(list(wheel_postgres()))
    try:
        assert _scalar(server.dsn("postgres"), "SELECT 1") == 1
    finally:
        server.stop()


def test_without_any_postgres_the_failure_says_what_to_install() -> None:
    with pytest.raises(CannotStart, match=r"apt install postgresql.*TRISCHED_TEST_POSTGRES"):
        PostgresServer.start_from([])


def test_programs_that_do_not_work_are_named_in_the_failure(tmp_path: Path) -> None:
    for name in ("initdb", "postgres"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho broken on purpose\nexit 1\n")
        program.chmod(0o755)
    tmp_path.chmod(0o755)
    with pytest.raises(CannotStart) as failure:
        PostgresServer.start_from([tmp_path])
    assert str(tmp_path) in str(failure.value)


def test_a_port_that_somebody_else_took_is_replaced_by_another() -> None:
    tried = []

    def start(port: int) -> int:
        tried.append(port)
        if len(tried) < 3:
            raise PortTaken
        return port

    assert retry_ports(start) == tried[-1]
    assert len(tried) == 3


def test_a_redis_that_meets_a_taken_port_says_so(redis_server: RedisServer) -> None:
    taken = int(redis_server.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(PortTaken):
        RedisServer.start_on(taken, program=redis_program())


def test_a_postgres_that_meets_a_taken_port_says_so(postgres_server: PostgresServer) -> None:
    taken = int(postgres_server.dsn("postgres").rpartition(":")[2].partition("/")[0])
    with pytest.raises(PortTaken):
        PostgresServer.start_on(taken, programs=next(postgres_programs()))
