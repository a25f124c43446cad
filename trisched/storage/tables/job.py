"""The job table: definitions, what they depend on, and where each schedule stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec

from trisched.domain.job import Job, JobSpec
from trisched.domain.job_fields import job_fields, parse_job
from trisched.domain.schedule import jitter_us, next_slot
from trisched.errors import Conflict, Invalid, Stale, TrischedError
from trisched.storage.database import Duplicate, Row, Tx
from trisched.storage.statements import Statement, load
from trisched.storage.tables import dependency, schedule_span
from trisched.storage.wakeup import DUE, JOBS

SQL: Final = load("job")
_COUNT_BY_LAST: Final = SQL.count_by_last.filled(newest=load("run").newest_of_job)
_COLUMNS: Final = (
    "id, origin, revision, spec, next_slot_at, dispatch_failures, coalesce(alarm, unrunnable), "
    "created_at, updated_at, deleted_at"
)


def _with_columns(statement: Statement) -> Statement:
    return statement.filled(columns=_COLUMNS)


#: How strongly ``find`` holds the job until the transaction is over; SQLite has one writer and needs no lock.
#: STAY: it is not removed meanwhile. ALONE: other callers with ALONE wait. GO: everybody waits.
STAY, ALONE, GO = "KEY SHARE", "NO KEY UPDATE", "UPDATE"
_LOCKS: Final = {lock: Statement("lock", "", f"FOR {lock}" if lock else "") for lock in ("", STAY, ALONE, GO)}
_GET: Final = {lock: _with_columns(SQL.get).filled(lock=text) for lock, text in _LOCKS.items()}
_BY_NAME: Final = {lock: _with_columns(SQL.by_name).filled(lock=text) for lock, text in _LOCKS.items()}
_OF_NAMES: Final = _with_columns(SQL.of_names)
_WITH_FUNCTION: Final = _with_columns(SQL.with_function)
_ALL: Final = _with_columns(SQL.all)
_CHANGED: Final = _with_columns(SQL.changed)
#: What a job may be sorted by, and the SQL that does it.
SORTS: Final = {
    "name": "name, id",
    "-name": "name DESC, id",
    "created_at": "created_at, id",
    "-created_at": "created_at DESC, id",
    "updated_at": "updated_at, id",
    "-updated_at": "updated_at DESC, id",
    "next_run": "CASE WHEN next_slot_at IS NULL THEN 1 ELSE 0 END, next_slot_at, name",
    "-next_run": "CASE WHEN next_slot_at IS NULL THEN 1 ELSE 0 END, next_slot_at DESC, name",
}


def due_for(job_id: str, spec: JobSpec, slot_at: int | None) -> int | None:
    """When the scheduler must look at ``slot_at``: the slot and its jitter; never for a disabled job."""
    if slot_at is None or spec.schedule is None or not spec.enabled:
        return None
    return slot_at + jitter_us(spec.schedule, slot_at, job_id)


def first_slot(spec: JobSpec, now: int) -> int | None:
    """The slot a job starts with: the first after now."""
    if spec.schedule is None or not spec.enabled:
        return None
    return next_slot(spec.schedule, now)


def from_row(row: Row) -> Job:
    """A job from the columns above; fields that were stored are trusted to be valid, or the error says which."""
    job_id, origin, revision, spec, next_slot_at, failures, alarm, created_at, updated_at, _ = row
    return Job(
        id=job_id,
        origin=origin,
        revision=revision,
        spec=_stored_spec(spec, created_at),
        next_slot_at=next_slot_at,
        dispatch_failures=failures,
        alarm=alarm,
        created_at=created_at,
        updated_at=updated_at,
    )


@lru_cache(maxsize=4096)
def _stored_spec(spec: str, created_at: int) -> JobSpec:
    """The specification in a stored text. Remembered, for every submit reads the same few jobs."""
    return parse_job(_stored_fields(spec), now=created_at, stored=True)


def _stored_fields(spec: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(spec, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise Invalid.at("", f"not the JSON object it should be: {error}") from None


def _values(job_id: str, spec: JobSpec, slot_at: int | None, now: int) -> dict[str, Any]:
    return {
        "id": job_id,
        "name": spec.name,
        "spec": msgspec.json.encode(job_fields(spec)).decode(),
        "type": spec.type,
        "queue": spec.queue,
        "schedule_kind": "none" if spec.schedule is None else spec.schedule.kind,
        "next_slot_at": slot_at,
        "next_due_at": due_for(job_id, spec, slot_at),
        "disabled_at": None if spec.enabled else now,
    }


def add(tx: Tx, jobs: Mapping[str, JobSpec], origin: str, now: int) -> None:
    """Stores new jobs by their ids; Conflict if a name is taken."""
    added = {"origin": origin, "revision": 1, "dispatch_failures": 0, "created_at": now, "updated_at": now}
    rows = [{**_values(job_id, spec, first_slot(spec, now), now), **added} for job_id, spec in jobs.items()]
    if not rows:
        return
    try:
        tx.attempt(lambda part: part.load("job", tuple(rows[0]), [tuple(row.values()) for row in rows]))
    except Duplicate:
        names = ", ".join(repr(spec.name) for spec in jobs.values())
        raise Conflict(f"there is a job named {names} already") from None
    schedule_span.open_spans(tx, jobs.items(), now)
    _add_parts(tx, jobs)


def change(tx: Tx, job: Job, spec: JobSpec, slot_at: int | None, now: int) -> None:
    """Stores a new revision of ``job``; Stale if it is not the newest any more."""
    try:
        changed = tx.attempt(
            lambda part: part.count(SQL.change, **_values(job.id, spec, slot_at, now), revision=job.revision)
        )
    except Duplicate:
        raise Conflict(f"there is a job named {spec.name!r} already") from None
    if not changed:
        raise Stale(f"the job {job.spec.name!r} was changed by someone else; read it again")
    schedule_span.change(tx, job.id, job.spec, spec, now)
    dependency.clear(tx, job.id)
    tx.count(SQL.clear_tags, job_id=job.id)
    _add_parts(tx, {job.id: spec})


def _add_parts(tx: Tx, jobs: Mapping[str, JobSpec]) -> None:
    dependency.add(tx, {job_id: spec.depends_on for job_id, spec in jobs.items()})
    tags = [{"job_id": job_id, "tag": tag} for job_id, spec in jobs.items() for tag in spec.tags]
    if tags:
        tx.many(SQL.add_tag, tags)
    for queue in sorted({spec.queue for spec in jobs.values()}):
        add_queue(tx, queue)
    tx.wake(JOBS)
    tx.wake(DUE)


def add_queue(tx: Tx, name: str) -> None:
    """Makes the queue known; workers look for work only on known queues."""
    tx.count(SQL.add_queue, name=name)


def queues(tx: Tx) -> list[tuple[str, int | None]]:
    """The names of all queues, and since when those are paused that are."""
    return [(row[0], row[1]) for row in tx.rows(SQL.queues)]


def remove(tx: Tx, job_id: str) -> bool:
    """Takes the job out of sight; its runs and their history stay."""
    gone = tx.count(SQL.remove, id=job_id) > 0
    schedule_span.close_now(tx, job_id)
    dependency.clear(tx, job_id)
    tx.count(SQL.clear_tags, job_id=job_id)
    tx.wake(JOBS)
    tx.wake(DUE)
    return gone


def find(tx: Tx, id_or_name: str, *, lock: str = "") -> Job | None:
    """The job with that id, else with that name; held by ``lock`` until the transaction is over."""
    row = tx.one(_GET[lock], ref=id_or_name) if id_or_name.startswith("job-") else None
    row = row or tx.one(_BY_NAME[lock], ref=id_or_name)
    return None if row is None else from_row(row)


def named(tx: Tx, name: str) -> Job | None:
    """The job with that name."""
    row = tx.one(_BY_NAME[""], ref=name)
    return None if row is None else from_row(row)


def of_names(tx: Tx, names: list[str]) -> dict[str, Job]:
    """The jobs of these names, by name."""
    jobs = [from_row(row) for row in tx.rows(_OF_NAMES, names=names)]
    return {job.spec.name: job for job in jobs}


def find_id(tx: Tx, id_or_name: str) -> str | None:
    """The id of the job with that id or name, also of one that was removed if the id is given."""
    if names_of_ids(tx, [id_or_name]):
        return id_or_name
    row = tx.one(_BY_NAME[""], ref=id_or_name)
    return None if row is None else row[0]


def names_of_ids(tx: Tx, ids: list[str]) -> dict[str, str]:
    """Id → name, also of jobs that were removed; definitions are not read."""
    return dict(tx.rows(SQL.names_of_ids, ids=ids))


def known_names(tx: Tx, names: list[str]) -> set[str]:
    """Those of ``names`` that are names of jobs."""
    return {row[0] for row in tx.rows(SQL.known_names, names=names)}


def with_function(tx: Tx, function: str) -> list[Job]:
    """The jobs made by code that call ``function``."""
    pattern = f'%"function":"{like_literal(function)}"%'
    jobs, _ = readable(tx.rows(_WITH_FUNCTION, pattern=pattern))
    return [job for job in jobs if job.spec.function == function]


def like_literal(text: str) -> str:
    """``text`` as a part of a LIKE pattern whose escape character is ``!``."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def readable(rows: Sequence[Row]) -> tuple[list[Job], dict[str, str]]:
    """The jobs of ``rows``, and for those that cannot be read (written by another version) the reason, by id."""
    jobs, broken = [], {}
    for row in rows:
        try:
            jobs.append(from_row(row))
        except TrischedError as error:
            broken[row[0]] = f"its stored definition cannot be read: {error}"
    return jobs, broken


def all_jobs(tx: Tx) -> list[Row]:
    """The rows of all jobs, for ``readable``."""
    return tx.rows(_ALL)


def changed_since(tx: Tx, since: int) -> list[Row]:
    """The rows of jobs written since then, removed ones among them."""
    return tx.rows(_CHANGED, since=since)


def is_removed(row: Row) -> bool:
    """Whether a row of ``changed_since`` is of a job that was taken away."""
    return row[-1] is not None


@attrs.frozen(kw_only=True)
class Page:
    """Some of the jobs that were asked for, and how many there are in all."""

    jobs: list[Job]
    #: Jobs of the page whose stored definition this version cannot read: id → reason.
    broken: dict[str, str]
    total: int


def list_jobs(
    tx: Tx, conditions: Sequence[str], parameters: Mapping[str, Any], *, sort: str, most: int, skip: int
) -> Page:
    """One page of the jobs that meet all ``conditions`` (SQL of ours)."""
    where = " AND ".join(conditions) or "1 = 1"
    page = _with_columns(SQL.list).filled(where=where, order=SORTS[sort])
    total = tx.one(SQL.count.filled(where=where), **parameters)
    jobs, broken = readable(tx.rows(page, **parameters, most=most, skip=skip))
    return Page(jobs=jobs, broken=broken, total=0 if total is None else int(total[0]))


@attrs.frozen(kw_only=True)
class Counts:
    """How many jobs there are, and how they are."""

    total: int
    disabled: int
    alarmed: int
    #: Jobs with at least one run that a worker holds.
    running: int
    #: Jobs by the status of their newest run.
    by_last: dict[str, int]


def counts(tx: Tx) -> Counts:
    """The figures over all jobs."""
    total, disabled, alarmed = tx.rows(SQL.totals)[0]
    [[running]] = tx.rows(SQL.count_running)
    by_last: dict[str, int] = dict(tx.rows(_COUNT_BY_LAST))
    return Counts(total=total, disabled=disabled, alarmed=alarmed, running=running, by_last=by_last)


def alarms(tx: Tx, most: int) -> list[tuple[str, str, str]]:
    """Id, name and text of jobs that something keeps from running."""
    return [(row[0], row[1], row[2]) for row in tx.rows(SQL.alarms, most=most)]
