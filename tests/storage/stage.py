"""What the storage tests play with: jobs, runs and nodes made in one line, and a run brought to any status."""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import trio

from trisched.domain.job import ORIGIN_API, Job, JobSpec
from trisched.domain.job_fields import parse_job
from trisched.domain.lifecycle import Ending, Move
from trisched.domain.run import Attempt, Outcome, Run, RunStatus
from trisched.storage.database import Database, Tx, Work
from trisched.storage.statements import rendered
from trisched.storage.tables import job as job_table
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.node import Registration
from trisched.storage.tables.run import Claimed, NewRun

P = ParamSpec("P")
T = TypeVar("T")

SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
#: Long enough that no lease ends while a test runs, however busy the machine is.
LEASE: Final = HOUR
#: The end of an attempt that each move tells of.
OUTCOMES: Final = {
    Move.COMPLETE: Outcome.COMPLETED,
    Move.RETRY: Outcome.FAILED,
    Move.BURY: Outcome.FAILED,
    Move.RELEASE: Outcome.RELEASED,
    Move.LOSE: Outcome.LOST,
    Move.HOLD: Outcome.LOST,
    Move.CANCEL: Outcome.CANCELLED,
}
_numbers = itertools.count(1)


def fresh(prefix: str) -> str:
    """An id that is greater than all before it."""
    return f"{prefix}-{next(_numbers):08}"


async def write(database: Database, verb: Callable[Concatenate[Tx, P], T], *args: P.args, **more: P.kwargs) -> T:
    """The answer of one verb in a transaction of its own."""
    return await database.write(lambda tx: verb(tx, *args, **more))


async def rows(database: Database, text: str, **parameters: object) -> list[tuple[Any, ...]]:
    """The answer to plain SQL."""
    return await database.read(lambda tx: tx.rows(rendered("test", text), **parameters))


async def execute(database: Database, statement: str, **parameters: object) -> int:
    """The number of rows that plain SQL changed."""
    return await database.write(lambda tx: tx.count(rendered("test", statement), **parameters))


async def now(database: Database) -> int:
    return await database.read(run_table.now)


def spec(name: str = "report", **fields: object) -> JobSpec:
    """A job that runs ``true``, with other fields as given."""
    return parse_job({"name": name, "type": "shell", "command": "true", **fields}, now=0)


async def add_job(database: Database, name: str = "report", *, origin: str = ORIGIN_API, **fields: object) -> Job:
    """The stored job."""
    wish, stamp = spec(name, **fields), await now(database)
    await write(database, job_table.add, {fresh("job"): wish}, origin, stamp)
    return await stored_job(database, name)


async def stored_job(database: Database, name: str) -> Job:
    job = await write(database, job_table.named, name)
    assert job is not None
    return job


def new_run(job_id: str = "job-1", **fields: Any) -> NewRun:
    """A run about to be stored: queued for now on the default queue unless ``fields`` say otherwise."""
    defaults: dict[str, Any] = {
        "id": fresh("run"),
        "job_id": job_id,
        "job_revision": 1,
        "queue": "default",
        "priority": 2,
        "parameters": "{}",
        "retries": 3,
        "origin": "submit",
    }
    return NewRun(**(defaults | fields))


async def add_runs(database: Database, runs: Sequence[NewRun]) -> list[str]:
    """The ids of the stored runs."""
    await write(database, run_table.add, runs)
    return [run.id for run in runs]


async def add_run(database: Database, **fields: Any) -> str:
    [run_id] = await add_runs(database, [new_run(**fields)])
    return run_id


async def stored_run(database: Database, run_id: str) -> Run:
    run = await database.read(lambda tx: run_table.get(tx, run_id))
    assert run is not None
    return run


def registration(node_id: str = "node-a", incarnation: str = "a-1", **fields: Any) -> Registration:
    defaults: dict[str, Any] = {
        "id": node_id,
        "incarnation": incarnation,
        "host": "here",
        "pid": 1,
        "version": "1",
        "tags": (),
        "queues": ("default",),
        "tasks": (),
        "concurrency": 10,
    }
    return Registration(**(defaults | fields))


async def register(
    database: Database, node_id: str = "node-a", incarnation: str = "a-1", *, lease_us: int = LEASE
) -> bool:
    """Whether the node got its row. A negative lease is over already."""
    node = registration(node_id, incarnation)
    return await write(database, node_table.register, node, nonce=f"{incarnation}-0", lease_us=lease_us, dead=None)


async def claim(database: Database, **fields: Any) -> list[Claimed]:
    """What node-a, which must be registered, gets when it claims."""
    defaults: dict[str, Any] = {
        "queue": "default",
        "node_id": "node-a",
        "incarnation": "a-1",
        "claim_id": fresh("claim"),
        "most": 100,
        "excluded": [],
    }
    return await database.write(lambda tx: run_table.claim(tx, **(defaults | fields)))


async def claimed_run(database: Database, **fields: Any) -> Claimed:
    """A new run, held by node-a; it must be the only one on its queue."""
    await register(database)
    run_id = await add_run(database, **fields)
    [held] = await claim(database, queue=fields.get("queue", "default"))
    assert held.id == run_id
    return held


def ending(held: Claimed, move: Move, **fields: Any) -> Ending:
    """The end of the attempt that holds the run."""
    pair: dict[str, Any] = {"run_id": held.id, "token": held.token, "claim_id": held.claim_id}
    return Ending(**(pair | {"move": move, "outcome": OUTCOMES[move]} | fields))


def attempt_of(held: Claimed, **fields: Any) -> Attempt:
    """The attempt that held the run, as it is stored."""
    defaults: dict[str, Any] = {
        "run_id": held.id,
        "token": held.token,
        "claim_id": held.claim_id,
        "number": held.attempt,
        "node_id": "node-a",
        "started_at": held.started_at,
        "ended_at": held.started_at + SECOND,
        "outcome": Outcome.COMPLETED,
        "effective": True,
    }
    return Attempt(**(defaults | fields))


async def run_in(database: Database, status: RunStatus, **fields: Any) -> Run:
    """A run that came to ``status`` by the verbs that lead there."""
    queue = fields.setdefault("queue", fresh("queue"))
    if status is RunStatus.PENDING:
        fields.setdefault("due_at", await now(database) + HOUR)
    if status in (RunStatus.PENDING, RunStatus.QUEUED, RunStatus.SKIPPED):
        return await stored_run(database, await add_run(database, status=status, **fields))
    held = await claimed_run(database, **fields)
    if status is RunStatus.COMPLETED:
        await write(database, run_table.complete, [ending(held, Move.COMPLETE)])
    elif status is not RunStatus.RUNNING:
        moves = {
            RunStatus.RETRYING: Move.RETRY,
            RunStatus.DEAD: Move.BURY,
            RunStatus.CANCELLED: Move.CANCEL,
            RunStatus.HELD: Move.HOLD,
        }
        await write(database, run_table.end_attempt, ending(held, moves[status], delay=3600.0, reason="why"))
    run = await stored_run(database, held.id)
    assert (run.status, run.queue) == (status, queue)
    return run


@asynccontextmanager
async def held_open(database: Database, work: Work[T]) -> AsyncIterator[T]:
    """The answer of ``work``, whose transaction stays open until the block ends."""
    answer: list[T] = []
    done, go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def hold(tx: Tx) -> None:
        answer.append(work(tx))
        token.run_sync_soon(done.set)
        go_on.wait(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, hold)
        try:
            await done.wait()
            yield answer[0]
        finally:
            go_on.set()


async def wait_for_lock(database: Database) -> None:
    """Returns when a session of this Postgres database waits for the lock of another."""
    text = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with trio.fail_after(30):
        # Nobody tells of a lock that is waited for: it must be looked for.
        while await rows(database, text) == [(0,)]:  # noqa: ASYNC110
            await trio.sleep(0.01)
