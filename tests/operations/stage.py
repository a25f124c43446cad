"""A stage for operations: an open database of either kind, ids, and tasks that tests name themselves."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs

from trisched.clock import Ids, SystemClock
from trisched.domain.lifecycle import Ending, Move
from trisched.domain.run import Attempt, Outcome, RunStatus
from trisched.errors import FieldError, Invalid
from trisched.operations import run_views
from trisched.operations.scope import Scope
from trisched.storage.connect import connect
from trisched.storage.database import Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.node import Registration
from trisched.storage.tables.run import Claimed


@attrs.define
class Functions:
    """Tasks by name, with the parameters that each takes; None: any."""

    known: dict[str, frozenset[str] | None] = attrs.field(factory=dict)

    def knows(self, function: str) -> bool:
        return function in self.known

    def check(self, function: str, parameters: Mapping[str, object]) -> None:
        takes = self.known.get(function)
        if takes is not None and (unknown := parameters.keys() - takes):
            raise Invalid(FieldError(f"parameters.{name}", "is unknown") for name in sorted(unknown))


TASKS = {"reports.daily": frozenset({"recipients", "day"}), "mail.send": None, "noop": None}


class ShiftedClock:
    """The wall clock, moved by a test; it moves what SQLite takes for now, not Postgres."""

    def __init__(self) -> None:
        self.shift_us = 0
        self._wall = SystemClock()

    def now_us(self) -> int:
        return self._wall.now_us() + self.shift_us


@asynccontextmanager
async def opened(url: str, clock: ShiftedClock | None = None) -> AsyncIterator[Scope]:
    """A scope on the database at ``url``."""
    source = clock or ShiftedClock()
    ids = Ids(source, random.Random())
    database = connect(url, clock=source, origin=ids.token())
    await database.open()
    try:
        yield Scope(database=database, ids=ids, tasks=Functions(dict(TASKS)))
    finally:
        await database.close()


def shell(name: str, **fields: object) -> dict[str, object]:
    """The fields of a job that does nothing."""
    return {"name": name, "type": "shell", "command": "true", **fields}


async def claim(scope: Scope, queue: str = "default", *, node: str = "node-1", most: int = 1) -> list[Claimed]:
    """Lets a node take runs from a queue, as its worker would."""
    incarnation = f"{node}-life"
    registration = Registration(
        id=node,
        incarnation=incarnation,
        host="host",
        pid=1,
        version="0",
        tags=("a",),
        queues=(),
        tasks=(),
        concurrency=10,
    )

    def work(tx: Tx) -> list[Claimed]:
        node_table.register(tx, registration, nonce="n", lease_us=60_000_000, dead=incarnation)
        return run_table.claim(
            tx,
            queue=queue,
            node_id=node,
            incarnation=incarnation,
            claim_id=scope.ids.token(),
            most=most,
            excluded=[],
        )

    return await scope.database.write(work)


async def finish(
    scope: Scope, run: Claimed, move: Move = Move.COMPLETE, *, result: str | None = None, error: str | None = None
) -> None:
    """Ends an attempt, as the worker's recorder would."""
    outcome = Outcome.COMPLETED if move is Move.COMPLETE else Outcome.FAILED
    ending = Ending(run_id=run.id, token=run.token, claim_id=run.claim_id, move=move, outcome=outcome, reason=error)

    def work(tx: Tx) -> None:
        if move is Move.COMPLETE:
            assert run_table.complete(tx, [ending])
        else:
            assert run_table.end_attempt(tx, ending)
        attempt = Attempt(
            run_id=run.id,
            token=run.token,
            claim_id=run.claim_id,
            number=run.attempt,
            node_id="node-1",
            started_at=run.started_at,
            ended_at=run_table.now(tx),
            outcome=outcome,
            effective=True,
            error=error,
            result=result,
        )
        attempt_table.add(tx, [attempt])

    await scope.database.write(work)


async def run_status(scope: Scope, run_id: str) -> RunStatus:
    """Where a run stands."""
    return (await run_views.get(scope, run_id)).run.status
