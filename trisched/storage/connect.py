"""From the address of a database to the object that speaks with it."""

from __future__ import annotations

from pathlib import Path

from trisched.clock import Clock
from trisched.errors import Misconfigured, MissingExtra
from trisched.storage.database import Database
from trisched.storage.sqlite import SqliteDatabase


def connect(address: str, *, clock: Clock, origin: str) -> Database:
    """The database at ``address``: ``sqlite:///path``, a plain path, or ``postgresql://…``.

    ``origin`` tells this process's own wake-ups from those of others.
    """
    scheme, mark, rest = address.partition("://")
    if not mark:
        return SqliteDatabase(Path(address), clock)
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not path:
            raise Misconfigured("database: sqlite:// needs a path, such as sqlite:///trisched.db")
        return SqliteDatabase(Path(path), clock)
    if scheme in ("postgresql", "postgres"):
        try:
            from trisched.storage.postgres import PostgresDatabase
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise MissingExtra("postgres") from None
        return PostgresDatabase(address, origin)
    raise Misconfigured(f"database: {scheme}:// is not known; use sqlite:///path or postgresql://…")
