"""The run table: making runs, and every change of a run's status as a compare-and-set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from trisched.domain.lifecycle import Ending, Move
from trisched.domain.run import FINISHED, Run, RunStatus, rank
from trisched.storage.database import Duplicate, Row, Tx
from trisched.storage.statements import load
from trisched.storage.wakeup import CANCEL, DUE, queue_topic, run_topic

SQL: Final = load("run")
COLUMNS: Final = tuple(field.name for field in attrs.fields(Run))
_COLUMN_LIST: Final = ", ".join(COLUMNS)
_NEW_COLUMNS: Final = (
    "id", "job_id", "job_revision", "queue", "status", "priority", "rank", "due_at", "slot_at", "key", "origin",
    "parameters", "overrides", "retries", "attempt", "failures", "crashes", "token", "waits", "reason",
    "created_at", "finished_at", "limit_group", "unique_key", "flow_id", "upstream_when", "feeds",
)  # fmt: skip
_MOST_TOPICS: Final = 500
_PARAMETERS: Final = _NEW_COLUMNS.index("parameters")
_GET: Final = SQL.get.filled(columns=_COLUMN_LIST)
_CLAIM: Final = SQL.claim.filled(where="")
_CLAIM_EXCEPT: Final = SQL.claim.filled(where=SQL.except_jobs)


@attrs.define(slots=True, kw_only=True)
class NewRun:
    """A run that is about to be stored."""

    id: str
    job_id: str
    job_revision: int
    queue: str
    priority: int
    parameters: str
    retries: int
    origin: str
    status: RunStatus = RunStatus.QUEUED
    #: None: now.
    due_at: int | None = None
    slot_at: int | None = None
    key: str | None = None
    overrides: str | None = None
    waits: str | None = None
    reason: str | None = None
    limit_group: str | None = None
    unique_key: str | None = None
    flow_id: str | None = None
    upstream_when: str | None = None
    #: 1: other runs wait for this one.
    feeds: int = 0

    def row(self, now: int) -> tuple[object, ...]:
        """The values of the new columns, stamped with the database's time."""
        due = now if self.due_at is None else self.due_at
        return (
            self.id, self.job_id, self.job_revision, self.queue, self.status.value, self.priority,
            rank(due, self.priority), due, self.slot_at, self.key, self.origin, self.parameters, self.overrides,
            self.retries, 0, 0, 0, 0, self.waits, self.reason, now, now if self.status in FINISHED else None,
            self.limit_group, self.unique_key, self.flow_id, self.upstream_when, self.feeds,
        )  # fmt: skip


@attrs.define(slots=True)
class Claimed:
    """What a worker gets to know of a run it has claimed; made from a row of ``claim``."""

    id: str
    job_id: str
    parameters: str
    overrides: str | None
    retries: int
    attempt: int
    failures: int
    token: int
    claim_id: str
    slot_at: int | None
    key: str | None
    started_at: int
    rank: int


def now(tx: Tx) -> int:
    """The database's clock."""
    row = tx.one(SQL.now)
    assert row is not None
    return int(row[0])


def add(tx: Tx, runs: Sequence[NewRun]) -> None:
    """Stores fresh runs that no unique rule can meet: no slot, no key."""
    stamp = now(tx)
    tx.load("run", _NEW_COLUMNS, [run.row(stamp) for run in runs])
    _announce(tx, runs)


def add_alike(tx: Tx, groups: Iterable[tuple[NewRun, Sequence[str], Sequence[str]]], stamp: int) -> None:
    """Stores fresh runs in bulk: each group differs from its model in ids and parameters alone; no slot, no key.

    ``stamp`` is the database's time in this transaction, which the caller has read already.
    """
    models, rows = [], []
    for model, ids, parameters in groups:
        models.append(model)
        row = model.row(stamp)
        before, after = row[1:_PARAMETERS], row[_PARAMETERS + 1 :]
        rows += [(run_id, *before, text, *after) for run_id, text in zip(ids, parameters, strict=True)]
    tx.load("run", _NEW_COLUMNS, rows)
    _announce(tx, models)


def add_missing(tx: Tx, runs: Sequence[NewRun]) -> set[str]:
    """Stores the runs whose slot or key is not taken; answers the ids of those that were."""
    stamp = now(tx)
    rows = [run.row(stamp) for run in runs]
    try:
        tx.attempt(lambda part: part.load("run", _NEW_COLUMNS, rows))
    except Duplicate:
        fresh = {run.id for run, row in zip(runs, rows, strict=True) if _add_one(tx, row)}
    else:
        fresh = {run.id for run in runs}
    _announce(tx, [run for run in runs if run.id in fresh])
    return fresh


def _add_one(tx: Tx, row: Sequence[object]) -> bool:
    return tx.one(SQL.add, **dict(zip(_NEW_COLUMNS, row, strict=True))) is not None


def _announce(tx: Tx, runs: Iterable[NewRun]) -> None:
    """Wakes the workers of each queue, and the scheduler for what is to come."""
    topics = {queue_topic(run.queue) for run in runs if run.status is RunStatus.QUEUED}
    if any(run.status is RunStatus.PENDING for run in runs):
        topics.add(DUE)
    for topic in topics:
        tx.wake(topic)


def claim(
    tx: Tx, *, queue: str, node_id: str, incarnation: str, claim_id: str, most: int, excluded: list[str]
) -> list[Claimed]:
    """Up to ``most`` runs of ``queue``, now held by this node, the most urgent first."""
    statement = _CLAIM_EXCEPT if excluded else _CLAIM
    more: dict[str, Any] = {"excluded": excluded} if excluded else {}
    rows = tx.rows(
        statement, queue=queue, node_id=node_id, incarnation=incarnation, claim_id=claim_id, most=most, **more
    )
    claimed = [Claimed(*row) for row in rows]
    claimed.sort(key=lambda run: (run.rank, run.id))
    return claimed


def give_back(tx: Tx, claim_id: str) -> None:
    """Undoes a whole claim of which nothing was started."""
    for (queue,) in tx.rows(SQL.give_back, claim_id=claim_id):
        tx.wake(queue_topic(queue))


def give_back_run(tx: Tx, run: Claimed) -> None:
    """Undoes the claim of one run that was not started; others, not this node, are to find it."""
    tx.count(SQL.give_back_run, id=run.id, token=run.token, claim_id=run.claim_id)


def cancels_of(tx: Tx, incarnation: str) -> list[str]:
    """The runs held by ``incarnation`` that somebody asked to stop."""
    return [row[0] for row in tx.rows(SQL.cancels_of, incarnation=incarnation)]


def complete(tx: Tx, endings: Sequence[Ending]) -> set[str]:
    """Completes the runs that are still held by the attempts that did them; answers their ids."""
    by_token: dict[int, list[Ending]] = {}
    for ending in endings:
        by_token.setdefault(ending.token, []).append(ending)
    done: set[str] = set()
    for token, group in by_token.items():
        ids, claims = [ending.run_id for ending in group], list({ending.claim_id for ending in group})
        done.update(row[0] for row in tx.rows(SQL.complete, ids=ids, claims=claims, token=token))
    return done


def end_attempt(tx: Tx, ending: Ending) -> bool:
    """Applies any other end of an attempt; False if the run was not this attempt's any more."""
    row = _end(tx, ending)
    if row is None and ending.status in (RunStatus.QUEUED, RunStatus.RETRYING):
        # It may have been refused because somebody asked to stop the run meanwhile.
        row = _end(tx, attrs.evolve(ending, move=Move.CANCEL, delay=0.0, reason="cancelled"))
    if row is None:
        return False
    tx.wake(DUE if ending.move is Move.RETRY else queue_topic(row[1]))
    return True


def _end(tx: Tx, ending: Ending) -> Row | None:
    status = ending.status
    return tx.one(
        SQL.end_attempt,
        id=ending.run_id,
        token=ending.token,
        claim_id=ending.claim_id,
        status=status.value,
        reason=ending.reason,
        uncounted=int(ending.move is Move.RELEASE),
        failed=int(ending.move in (Move.RETRY, Move.BURY)),
        crashed=int(ending.move in (Move.LOSE, Move.HOLD)),
        delay_us=int(ending.delay * 1_000_000) if ending.move is Move.RETRY else -1,
        finished=int(status in FINISHED),
        requeues=int(status in (RunStatus.QUEUED, RunStatus.RETRYING)),
    )


def promote(tx: Tx, most: int) -> int:
    """Queues up to ``most`` runs whose time has come; answers how many."""
    queues = [row[0] for row in tx.rows(SQL.promote, most=most)]
    for queue in set(queues):
        tx.wake(queue_topic(queue))
    return len(queues)


def free_waiting(tx: Tx) -> int:
    """Lets the next run of each job go on whose earlier runs are over; answers how many jobs still wait."""
    jobs = [row[0] for row in tx.rows(SQL.waiting_jobs)]
    for job_id in jobs:
        row = tx.one(SQL.free_waiting, job_id=job_id)
        if row is not None:
            tx.wake(queue_topic(row[0]))
    return len(jobs)


def next_due(tx: Tx) -> int | None:
    """When the next waiting run is due."""
    row = tx.one(SQL.next_due)
    return None if row is None else row[0]


def cancel(tx: Tx, run_id: str, reason: str) -> RunStatus | None:
    """Ends a run that waits, or asks its worker to stop it; the status it has then, None if it was over."""
    row = tx.one(SQL.cancel, id=run_id, reason=reason)
    if row is None:
        return None
    status = RunStatus(row[1])
    for topic in (CANCEL,) if status is RunStatus.RUNNING else (run_topic(run_id), DUE):
        tx.wake(topic)
    return status


def cancel_job(tx: Tx, job_id: str, reason: str) -> None:
    """Ends every run of the job that waits, and asks for those that run to be stopped."""
    # Who waits for one of very many looks again by itself.
    for row in tx.rows(SQL.cancel_of, job_id=job_id, reason=reason)[:_MOST_TOPICS]:
        tx.wake(run_topic(row[0]))
    tx.wake(CANCEL)
    tx.wake(DUE)


def revive(tx: Tx, run_id: str) -> bool:
    """Puts a dead, cancelled or held run back in line; False if it is in none of these."""
    row = tx.one(SQL.revive, id=run_id)
    if row is not None:
        tx.wake(queue_topic(row[0]))
    return row is not None


def resolve(tx: Tx, run_id: str, reason: str) -> bool:
    """Marks a held run as done by a person's word."""
    return tx.one(SQL.resolve, id=run_id, reason=reason) is not None


def get(tx: Tx, run_id: str) -> Run | None:
    """The run of that id."""
    row = tx.one(_GET, id=run_id)
    return None if row is None else from_row(row)


def from_row(row: Row) -> Run:
    """A run from the columns of ``COLUMNS``."""
    values = dict(zip(COLUMNS, row, strict=True))
    return Run(**{**values, "status": RunStatus(values["status"])})
