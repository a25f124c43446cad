"""From an address to a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from trisched.clock import SystemClock
from trisched.errors import Misconfigured
from trisched.storage.connect import connect
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.sqlite import SqliteDatabase


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("sqlite:///trisched.db", "trisched.db"),
        ("sqlite:////var/lib/trisched.db", "/var/lib/trisched.db"),
        ("sqlite:///a b/ü.db", "a b/ü.db"),
        ("trisched.db", "trisched.db"),
        ("/var/lib/trisched.db", "/var/lib/trisched.db"),
    ],
)
def test_sqlite_is_named_by_a_path(address: str, path: str) -> None:
    database = connect(address, clock=SystemClock(), origin="x")
    assert isinstance(database, SqliteDatabase)
    assert Path(database.path) == Path(path)
    assert path in database.label


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgres_is_named_by_a_url_and_shown_without_the_password(scheme: str) -> None:
    database = connect(f"{scheme}://me:s3cret@db.example:5433/jobs", clock=SystemClock(), origin="x")
    assert isinstance(database, PostgresDatabase)
    assert database.label == "Postgres db.example:5433/jobs"


def test_a_local_postgres_is_called_local() -> None:
    assert connect("postgresql:///jobs", clock=SystemClock(), origin="x").label == "Postgres local/jobs"


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///", "mysql://host/db", "http://x"])
def test_other_addresses_are_refused_with_what_would_do(address: str) -> None:
    with pytest.raises(Misconfigured, match="sqlite:///"):
        connect(address, clock=SystemClock(), origin="x")
