"""Fixtures that every room may ask for: databases, fresh for each test, and the servers behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import CannotStart, PostgresServer, RedisServer

# A busy machine must not turn a slow example into a failure: time is judged by pytest-timeout alone.
settings.register_profile("trisched", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trisched")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole session, started when the first test asks. To stop one, start your own."""
    try:
        server = PostgresServer.find_or_start()
    except CannotStart as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the whole session, started when the first test asks. To stop one, start your own."""
    try:
        server = RedisServer.find_or_start()
    except CannotStart as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest.fixture
def postgres_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty Postgres database."""
    dsn = postgres_server.create_database()
    yield dsn
    postgres_server.drop_database(dsn)


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """Where a SQLite database may be made."""
    return tmp_path / "trisched.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_dsn"))
    return f"sqlite:///{request.getfixturevalue('sqlite_path')}"
