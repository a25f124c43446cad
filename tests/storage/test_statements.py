"""Every statement is taken by both databases and used, and the hot ones keep their plans when statistics lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from psycopg import sql

import trisched
from tests.servers import PostgresServer
from tests.storage.stage import HOUR, claim, execute, fresh, new_run, now, register, rows, write
from trisched.storage.database import Database
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.sqlite import SqliteDatabase
from trisched.storage.statements import Statement, for_postgres, for_sqlite, load, rendered
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table

PACKAGE = Path(trisched.__file__).parent
TABLES = sorted(path.stem for path in (PACKAGE / "storage" / "tables").glob("*.sql"))
STATEMENTS: dict[str, Statement] = {
    f"{table}.{name}": statement for table in TABLES for name, statement in vars(load(table)).items()
}
HOLES = {"where": "1 = 1", "order": "name, id", "lock": ""}
COLUMNS = {
    "run": ", ".join(run_table.COLUMNS),
    "attempt": ", ".join(attempt_table.COLUMNS),
    "job": job_table._COLUMNS,
}
QUEUED = 20_000
HISTORY = 100_000
each_statement = pytest.mark.parametrize("name", STATEMENTS)


def _whole(name: str) -> Statement:
    """The statement with its holes filled; a fragment stands in the statement it is made for."""
    statement, table = STATEMENTS[name], name.partition(".")[0]
    if statement.postgres.startswith("AND "):
        return rendered(name, f"SELECT 1 FROM {table} WHERE 1 = 1 {{hole}}").filled(hole=statement)
    if statement.postgres.startswith("("):
        return rendered(name, "SELECT {hole} FROM job").filled(hole=statement)
    fillings = dict(HOLES)
    if name == "run.claim":
        fillings["where"] = ""
    newest = STATEMENTS["run.newest_of_job"]
    return statement.filled(**fillings, columns=COLUMNS.get(table, "1"), newest=newest)


def _parameters(text: str, pattern: str) -> dict[str, None]:
    return dict.fromkeys(re.findall(pattern, text))


def test_there_are_statements_to_test() -> None:
    assert {"run.claim", "run.complete", "job.advance", "node.beat", "leader.guard", "attempt.add"} <= STATEMENTS.keys()


@each_statement
async def test_sqlite_takes_the_statement(name: str, sqlite: SqliteDatabase) -> None:
    text = _whole(name).sqlite
    parameters: dict[str, Any] = _parameters(text, r"(?<![:\w]):([a-z]\w*)")
    await sqlite.read(lambda tx: tx.rows(Statement(name, f"EXPLAIN {text}", ""), **parameters))


@each_statement
def test_postgres_takes_the_statement(name: str, schema_dsn: str) -> None:
    text = _whole(name).postgres
    parameters = _parameters(text, r"%\((\w+)\)s")
    with psycopg.connect(schema_dsn, options="-c search_path=trisched") as connection:
        assert connection.execute(f"EXPLAIN {text}".encode(), parameters).fetchall()


@each_statement
def test_the_statement_is_used(name: str) -> None:
    assert name in set(_used()), "no module runs it: remove it"


def _used() -> Iterator[str]:
    """The statements that modules name: as SQL.x where the table is loaded or SQL imported, else as table.SQL.x."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        own = re.search(r'load\("(\w+)"\)', text) or re.search(
            r"from trisched\.storage\.tables\.(\w+) import [^\n]*\bSQL\b", text
        )
        if own:
            yield from (f"{own[1]}.{name}" for name in re.findall(r"(?<![\w.])SQL\.(\w+)", text))
        yield from (f"{table}.{name}" for table, name in re.findall(r"\b(\w+?)_table\.SQL\.(\w+)", text))


def test_names_of_parameters_are_told_from_casts_and_times() -> None:
    text = "SELECT a::text, :b, '12:30', x:y FROM t WHERE c LIKE 'a%' AND d {in:ids} {skip_locked}"
    assert for_postgres(text) == (
        "SELECT a::text, %(b)s, '12:30', x:y FROM t WHERE c LIKE 'a%%' "
        "AND d = ANY (CAST(%(ids)s AS text[])) FOR UPDATE SKIP LOCKED"
    )
    assert for_sqlite("d {in:ids} {skip_locked}") == "d IN (SELECT value FROM json_each(:ids)) "


def test_comments_are_no_part_of_a_statement() -> None:
    assert not any("--" in statement.postgres for statement in STATEMENTS.values())


Stale = tuple[psycopg.Connection[Any], list[str], str]


@pytest.fixture(scope="module")
def stale(postgres_server: PostgresServer) -> Iterator[Stale]:
    """A queue that was measured when it had filled up and is being worked off since, as queues are.

    A connection, the ids of claimed runs, and the id of the claim.
    """
    dsn = postgres_server.create_database()
    held = trio.run(_fill_and_claim, dsn)
    with psycopg.connect(dsn, options="-c search_path=trisched", autocommit=True, prepare_threshold=None) as connection:
        yield connection, [run.id for run in held], held[0].claim_id
    postgres_server.drop_database(dsn)


async def _fill_and_claim(dsn: str) -> list[run_table.Claimed]:
    database = PostgresDatabase(dsn, "here")
    await database.open()
    await execute(database, "ALTER TABLE run SET (autovacuum_enabled = off)")
    await _fill(database)
    # What was done long ago stays in the table: its size is that of the history, not of the queue.
    columns = "job_id, job_revision, queue, priority, rank, due_at, origin, parameters, retries, attempt, failures"
    history = f"INSERT INTO run (id, status, finished_at, created_at, crashes, token, {columns})"
    model = (
        f"SELECT 'run-0-' || number, 'completed', 1, 1, 0, 1, {columns} FROM run, generate_series(1, :count) AS number"
    )
    await execute(database, f"{history} {model} WHERE id = (SELECT min(id) FROM run)", count=HISTORY)
    await execute(database, "ANALYZE run")
    held = await claim(database, most=4000)
    await database.close()
    return held


async def _fill(database: Database) -> None:
    await register(database)
    ids = [fresh("run") for _ in range(QUEUED)]
    due = await now(database) - HOUR
    halves = [(new_run(due_at=due, priority=number), ids[number::2], ["{}"] * (QUEUED // 2)) for number in (0, 1)]
    await write(database, run_table.add_alike, halves, await now(database))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _explained(
    connection: psycopg.Connection[Any], statement: Statement, mode: str, **parameters: object
) -> list[dict[str, Any]]:
    """The nodes of the plan that a prepared statement gets."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement.postgres)))
    text = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement.postgres)
    connection.execute(f"SET plan_cache_mode = {mode}".encode())
    connection.execute("DEALLOCATE ALL")
    connection.execute(f"PREPARE hot AS {text}".encode())
    values = sql.SQL(", ").join(sql.Literal(parameters[name]) for name in names)
    row = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE hot ({})").format(values), prepare=False).fetchone()
    assert row is not None
    return list(_nodes(row[0][0]["Plan"]))


def _indexes_of_run(nodes: list[dict[str, Any]]) -> set[str]:
    scans = [node for node in nodes if "Scan" in node["Node Type"] and node.get("Relation Name") == "run"]
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"]
    return {node["Index Name"] for node in nodes if node.get("Index Name", "").startswith("run_")}


MODES = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])


@MODES
@pytest.mark.parametrize("count", [1, 100, 500])
async def test_completing_many_uses_the_primary_key_though_statistics_are_stale(
    stale: Stale, mode: str, count: int
) -> None:
    assert _indexes_of_run(_plan_of_complete(stale, mode, count)) == {"run_pkey"}


@MODES
async def test_completing_more_than_is_ever_sent_passes_over_the_table_at_most_once(stale: Stale, mode: str) -> None:
    """The cliff is a scan for each id; one scan for all, where the table is small, is fair."""
    nodes = _plan_of_complete(stale, mode, 2000)
    assert not [node for node in nodes if "Join" in node["Node Type"] or "Loop" in node["Node Type"]]
    assert {node["Index Name"] for node in nodes if "Index Name" in node} <= {"run_pkey"}


def _plan_of_complete(stale: Stale, mode: str, count: int) -> list[dict[str, Any]]:
    connection, ids, claim_id = stale
    array = "{" + ",".join(ids[:count]) + "}"
    claims = "{" + claim_id + "}"
    return _explained(connection, run_table.SQL.complete, mode, ids=array, token=1, claims=claims)


@MODES
@pytest.mark.parametrize("most", [1, 100, 500])
async def test_a_claim_reads_the_queue_in_order_without_a_sort(stale: Stale, mode: str, most: int) -> None:
    connection, _, _ = stale
    nodes = _explained(
        connection,
        run_table._CLAIM,
        mode,
        queue="default",
        node_id="node-a",
        incarnation="a-1",
        claim_id="claim-x",
        most=most,
    )
    [picked] = [list(_nodes(node)) for node in nodes if node.get("Subplan Name") == "CTE picked"]
    assert not [node for node in picked if "Sort" in node["Node Type"]]
    assert _indexes_of_run(picked) == {"run_queued"}


@pytest.mark.parametrize("name", ["_CLAIM", "_CLAIM_EXCEPT"])
async def test_sqlite_reads_the_queue_in_order_without_a_sort(sqlite: SqliteDatabase, name: str) -> None:
    await _fill(sqlite)
    text = getattr(run_table, name).sqlite
    parameters: dict[str, Any] = _parameters(text, r"(?<![:\w]):([a-z]\w*)")
    plan = await sqlite.read(lambda tx: tx.rows(Statement(name, f"EXPLAIN QUERY PLAN {text}", ""), **parameters))
    steps = " / ".join(row[-1] for row in plan)
    assert "USING INDEX run_queued" in steps or "USING COVERING INDEX run_queued" in steps, steps
    assert "TEMP B-TREE" not in steps
    assert "SCAN run" not in steps


async def test_sqlite_completes_by_the_primary_key(sqlite: SqliteDatabase) -> None:
    text = run_table.SQL.complete.sqlite
    plan = await rows(sqlite, f"EXPLAIN QUERY PLAN {text}", ids="[]", claims="[]", token=1)
    assert any("SEARCH run USING INDEX sqlite_autoindex_run_1" in row[-1] for row in plan), plan
