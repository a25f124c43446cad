"""Answers why: gathers what is known of a run, a slot or a job, for the domain to put into words."""

from __future__ import annotations

from typing import Final

import attrs

from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.explain import Surroundings, explain_run, explain_slot
from trisched.domain.job import Job
from trisched.domain.ledger import Entry, ledger
from trisched.domain.run import Run
from trisched.domain.slot import next_slot
from trisched.operations.run_views import required_run
from trisched.operations.scope import Scope, required_job
from trisched.operations.slots import horizon_of, spans_of
from trisched.storage.database import Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import job as job_table
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup

#: How far before the moment in question a slot is looked for.
_BACK_US: Final = 400 * 86_400 * MICROSECONDS
_MOST: Final = 2000


@attrs.frozen(kw_only=True)
class Explanation:
    """Sentences, and what they are about."""

    job: str
    slot: int | None
    run_id: str | None
    state: str
    text: tuple[str, ...]


async def run(scope: Scope, run_id: str) -> Explanation:
    """Why the run stands where it stands."""
    return await scope.database.read(lambda tx: _run(tx, required_run(tx, run_id)))


async def job(scope: Scope, name: str, at: int | None) -> Explanation:
    """What became of the slot at ``at``, or the latest before it; without ``at``, how the job stands now."""

    def work(tx: Tx) -> Explanation:
        found = required_job(tx, name)
        return _now(tx, found) if at is None else _slot(tx, found, at)

    return await scope.database.read(work)


def _run(tx: Tx, found: Run, before: tuple[str, ...] = ()) -> Explanation:
    name = job_table.names_of_ids(tx, [found.job_id]).get(found.job_id, found.job_id)
    sentences = explain_run(found, attempt_table.of_run(tx, found.id), _around(tx, found))
    return Explanation(
        job=name, slot=found.slot_at, run_id=found.id, state=found.status.value, text=(*before, *sentences)
    )


def _around(tx: Tx, found: Run) -> Surroundings:
    leader = leader_table.seen(tx)
    stored = job_table.find(tx, found.job_id)
    return Surroundings(
        now=leader.now,
        paused_at=dict(job_table.queues(tx)).get(found.queue),
        alarm=None if stored is None else stored.alarm,
        leader_alive=leader.alive,
        workers_alive=len(node_table.abilities(tx)),
    )


def _slot(tx: Tx, found: Job, at: int) -> Explanation:
    entry = _latest(tx, found, at)
    if entry is None:
        text = f"{found.spec.name} had no slot at or before {format_instant(at)}" + _why_none(found, at)
        return Explanation(job=found.spec.name, slot=None, run_id=None, state="none", text=(text,))
    before = () if entry.slot == at else (f"The latest slot at or before {format_instant(at)} is meant.",)
    if entry.run is not None:
        return _run(tx, _required(tx, entry.run.id), before)
    told = (*before, *explain_slot(entry))
    return Explanation(job=found.spec.name, slot=entry.slot, run_id=None, state=entry.state, text=told)


def _required(tx: Tx, run_id: str) -> Run:
    found = run_table.get(tx, run_id)
    assert found is not None
    return found


def _latest(tx: Tx, found: Job, at: int) -> Entry | None:
    """The last slot at or before ``at``; looked for in ever longer stretches of time."""
    now, back = run_table.now(tx), 60 * MICROSECONDS
    while True:
        first = at - back
        runs = run_lookup.of_slots(tx, found.id, first, at, _MOST)
        entries = ledger(spans_of(tx, found, first, at), runs, first, at, horizon_of(found, now), _MOST)
        if entries or back >= _BACK_US:
            return entries[-1] if entries else None
        back *= 4


def _why_none(found: Job, at: int) -> str:
    if found.spec.schedule is None:
        return ": it has no schedule."
    if at < found.created_at:
        return f": it was made at {format_instant(found.created_at)}."
    return ": it was switched off, or had another schedule." if found.spec.enabled else ": it is disabled."


def _now(tx: Tx, found: Job) -> Explanation:
    """How the job stands: its newest run, and what comes next."""
    newest = run_lookup.last_of_jobs(tx, [found.id]).get(found.id)
    after = _next(tx, found)
    if newest is None:
        return Explanation(
            job=found.spec.name, slot=None, run_id=None, state="none", text=("It has never run.", *after)
        )
    told = _run(tx, newest)
    return attrs.evolve(told, text=(*told.text, *after))


def _next(tx: Tx, found: Job) -> list[str]:
    sentences = [] if found.alarm is None else [f"Something is wrong: {found.alarm}."]
    schedule = found.spec.schedule
    if schedule is None:
        return [*sentences, "It has no schedule: it runs when it is triggered, submitted or reached by a flow."]
    if not found.spec.enabled:
        return [*sentences, "It is disabled, so its schedule makes no runs; enable it."]
    if not leader_table.seen(tx).alive:
        sentences.append("No node leads at the moment, so no slot is made.")
    slot = found.next_slot_at if found.next_slot_at is not None else next_slot(schedule, run_table.now(tx))
    over = "Its schedule is over: no slot is to come."
    return [*sentences, over if slot is None else f"Its next slot is {format_instant(slot)}."]
