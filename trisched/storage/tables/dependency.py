"""The dependency table: which job needs which, by name, so that a job can be declared before its neighbour changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trisched.storage.database import Tx
from trisched.storage.statements import load

SQL: Final = load("dependency")


def lock(tx: Tx) -> None:
    """Makes other changes of dependencies wait until this transaction is over."""
    tx.count(SQL.lock)


def edges(tx: Tx) -> dict[str, list[str]]:
    """Name → names it depends on."""
    found: dict[str, list[str]] = {}
    for name, needs in tx.rows(SQL.edges):
        found.setdefault(name, []).append(needs)
    return found


def dependents(tx: Tx, name: str) -> list[str]:
    """Names of the jobs that depend on ``name``."""
    return [row[0] for row in tx.rows(SQL.dependents, name=name)]


def add(tx: Tx, needs: Mapping[str, Sequence[str]]) -> None:
    """Writes down what each job, by its id, depends on."""
    rows = [{"job_id": job_id, "needs": name} for job_id, names in needs.items() for name in names]
    if rows:
        tx.many(SQL.add, rows)


def clear(tx: Tx, job_id: str) -> None:
    """Forgets what the job depends on."""
    tx.count(SQL.clear, job_id=job_id)
