"""Attempts and their output: the history of runs, written once and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from trisched.domain.run import Attempt, Outcome
from trisched.storage.database import Duplicate, Row, Tx
from trisched.storage.statements import load

SQL: Final = load("attempt")
#: The number of the chunk with the latest lines: behind all others, also behind the tail that makes it needless.
LATEST: Final = 1 << 30
COLUMNS: Final = tuple(field.name for field in attrs.fields(Attempt))
_COLUMN_LIST: Final = ", ".join(COLUMNS)
_ADD: Final = SQL.add.filled(columns=_COLUMN_LIST)
_OF_RUN: Final = SQL.of_run.filled(columns=_COLUMN_LIST)
_OF_RUNS: Final = SQL.of_runs.filled(columns=_COLUMN_LIST)


def _row(attempt: Attempt) -> tuple[object, ...]:
    return (
        attempt.run_id, attempt.token, attempt.claim_id, attempt.number, attempt.node_id, attempt.started_at,
        attempt.ended_at, attempt.outcome.value, int(attempt.effective), attempt.exit_code, attempt.error_type,
        attempt.error, attempt.traceback, attempt.result,
    )  # fmt: skip


def add(tx: Tx, attempts: Sequence[Attempt]) -> None:
    """Stores attempts that ended; one that is stored already (its commit had got lost on the way) stays."""
    rows = [_row(attempt) for attempt in attempts]
    try:
        tx.attempt(lambda part: part.load("attempt", COLUMNS, rows))
    except Duplicate:
        for row in rows:
            tx.count(_ADD, **dict(zip(COLUMNS, row, strict=True)))


def effective_outcome(tx: Tx, run_id: str, token: int, claim_id: str) -> Outcome | None:
    """How this attempt ended as far as its run is concerned; None if nothing of it is stored yet."""
    row = tx.one(SQL.outcome_of, run_id=run_id, token=token, claim_id=claim_id)
    return None if row is None else Outcome(row[0])


def of_run(tx: Tx, run_id: str) -> list[Attempt]:
    """The attempts of a run that ended, the earliest first."""
    return [_from_row(row) for row in tx.rows(_OF_RUN, run_id=run_id)]


def of_runs(tx: Tx, run_ids: list[str]) -> list[Attempt]:
    """The attempts of these runs that ended, the latest first."""
    return [_from_row(row) for row in tx.rows(_OF_RUNS, ids=run_ids)]


def claims_of(tx: Tx, run_ids: list[str]) -> list[tuple[str, str]]:
    """The claims of these runs whose attempts ended, as run and claim."""
    return [(row[0], row[1]) for row in tx.rows(SQL.claims_of, ids=run_ids)]


def _from_row(row: Row) -> Attempt:
    values = dict(zip(COLUMNS, row, strict=True))
    values["outcome"], values["effective"] = Outcome(values["outcome"]), bool(values["effective"])
    return Attempt(**values)


@attrs.frozen
class Chunk:
    """Some lines of output, as JSON text."""

    run_id: str
    token: int
    number: int
    lines: str


def add_output(tx: Tx, chunks: Sequence[Chunk]) -> None:
    """Stores output; a chunk that is stored already stays."""
    tx.many(
        SQL.add_output,
        [
            {"run_id": chunk.run_id, "token": chunk.token, "chunk": chunk.number, "lines": chunk.lines}
            for chunk in chunks
        ],
    )


def put_latest(tx: Tx, chunks: Sequence[Chunk]) -> None:
    """Stores the latest lines of long outputs, in the place of those before."""
    tx.many(
        SQL.put_latest,
        [{"run_id": chunk.run_id, "token": chunk.token, "chunk": LATEST, "lines": chunk.lines} for chunk in chunks],
    )


def output_of(tx: Tx, run_id: str, token: int) -> list[str]:
    """The chunks of one attempt's output, in order, as JSON text; the latest lines may have come before as the tail."""
    return [row[2] for row in tx.rows(SQL.output_of, run_id=run_id, token=token)]
