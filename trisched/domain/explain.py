"""Explanations: why a run stands where it stands, or why a slot has none, as sentences for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from trisched.domain.duration import MICROSECONDS, format_duration, format_instant
from trisched.domain.ledger import Entry
from trisched.domain.run import WAITS_LIMIT, WAITS_OVERLAP, WAITS_UPSTREAM, Attempt, Outcome, Run, RunStatus

#: Below this nobody asks why it was late.
_ON_TIME: Final = 1.0
_WAITS: Final = {
    WAITS_OVERLAP: "It waits for an earlier run of its job to end.",
    WAITS_LIMIT: "It waits for a place: as many runs of its job are running as may run at once.",
    WAITS_UPSTREAM: "It waits for the runs that it depends on.",
}


@attrs.frozen(kw_only=True)
class Surroundings:
    """What around a run may keep it from starting."""

    now: int
    paused_at: int | None
    #: Why no living node can run the job, or why its slots cannot be made.
    alarm: str | None
    leader_alive: bool
    workers_alive: int


def explain_run(run: Run, attempts: Sequence[Attempt], around: Surroundings) -> list[str]:
    """How the run came to where it is."""
    return [*_origin(run), *_lateness(run, attempts), *_tries(attempts), *_present(run, around)]


def _origin(run: Run) -> Iterator[str]:
    made = {
        "schedule": f"{run.id} was made by the slot {_at(run.slot_at)}",
        "backfill": f"{run.id} was made by a backfill, for the slot {_at(run.slot_at)}",
        "trigger": f"{run.id} was triggered at {_at(run.created_at)}",
        "retry": f"{run.id} repeats a completed run; it was asked for at {_at(run.created_at)}",
    }.get(run.origin, f"{run.id} was submitted at {_at(run.created_at)}")
    yield made + "."


def _lateness(run: Run, attempts: Sequence[Attempt]) -> Iterator[str]:
    started = min([attempt.started_at for attempt in attempts], default=run.started_at)
    if started is None:
        return
    due = run.created_at if run.slot_at is None else run.slot_at
    late = (started - due) / MICROSECONDS
    waited = f"{_at(started)}, {format_duration(round(max(late, 0.0), 3))} after it was due"
    if late < _ON_TIME or run.slot_at is None:
        yield f"It first started at {waited}."
        return
    made = max(run.created_at - due, 0) / MICROSECONDS
    queued = max(started - run.created_at, 0) / MICROSECONDS
    yield (
        f"It first started at {waited}: made {format_duration(round(made, 3))} after its slot, "
        f"then waited {format_duration(round(queued, 3))} for its turn."
    )


def _tries(attempts: Sequence[Attempt]) -> Iterator[str]:
    for attempt in attempts:
        took = format_duration(round(max(attempt.ended_at - attempt.started_at, 0) / MICROSECONDS, 3))
        text = f"Attempt {attempt.number} on {attempt.node_id} {_word(attempt.outcome)} after {took}"
        first = (attempt.error or "").splitlines()[:1]
        why = f": {attempt.error_type + ': ' if attempt.error_type else ''}{first[0]}" if first else ""
        stale = "" if attempt.effective else "; its result came too late and was discarded"
        yield f"{text}{why}{stale}."


def _word(outcome: Outcome) -> str:
    return {Outcome.TIMED_OUT: "timed out", Outcome.LOST: "was lost", Outcome.RELEASED: "was given back"}.get(
        outcome, outcome.value
    )


def _present(run: Run, around: Surroundings) -> Iterator[str]:
    if run.status is RunStatus.RUNNING:
        yield f"It is running on {run.node_id} since {_at(run.started_at)}."
    elif run.status is RunStatus.QUEUED:
        yield from _queued(run, around)
    elif run.status in (RunStatus.PENDING, RunStatus.RETRYING):
        yield from _pending(run, around)
    else:
        reason = "" if run.reason is None else f": {run.reason}"
        yield f"It is {run.status}{'' if run.finished_at is None else ' since ' + _at(run.finished_at)}{reason}."


def _queued(run: Run, around: Surroundings) -> Iterator[str]:
    if around.paused_at is not None:
        yield f"It waits: the queue {run.queue!r} is paused since {_at(around.paused_at)}."
    elif around.alarm is not None:
        yield f"It waits: {around.alarm}."
    elif not around.workers_alive:
        yield "It waits: no node that executes runs is alive."
    else:
        yield f"It is queued in {run.queue!r} since {_at(run.due_at)} and waits for a free worker."


def _pending(run: Run, around: Surroundings) -> Iterator[str]:
    if run.waits is not None:
        yield _WAITS.get(run.waits, f"It waits: {run.waits}.")
    elif run.status is RunStatus.RETRYING:
        yield f"It will be tried again at {_at(run.due_at)}."
    else:
        yield f"It is due at {_at(run.due_at)}{'' if run.reason is None else ': ' + run.reason}."
    if not around.leader_alive:
        yield "No node leads at the moment, so nothing that waits is looked at."


def explain_slot(entry: Entry) -> list[str]:
    """What became of a slot that has no run."""
    text = f"The slot {_at(entry.slot)} ({entry.local}) has no run"
    if entry.state == "upcoming":
        text = f"The slot {_at(entry.slot)} ({entry.local}) is still to come"
    return [f"{text}{'' if entry.reason is None else ': ' + entry.reason}.", *([entry.note] if entry.note else [])]


def _at(moment: int | None) -> str:
    return "?" if moment is None else format_instant(moment)
