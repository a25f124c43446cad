"""One attempt: execute under its own cancel scope, then decide what its end means for the run."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import attrs
import msgspec
import trio

from trisched.domain.backoff import delay
from trisched.domain.duration import format_duration
from trisched.domain.job import JobSpec
from trisched.domain.lifecycle import Ending, Move, after_failure
from trisched.domain.progress import Progress, to_json
from trisched.domain.run import Attempt, Outcome
from trisched.storage.tables.attempt import LATEST, Chunk
from trisched.storage.tables.run import Claimed
from trisched.storage.tables.run_progress import Report
from trisched.worker.executors import Call, Ended, Failure
from trisched.worker.executors.failure import ending as ending_of
from trisched.worker.output import Line, OutputBuffer
from trisched.worker.plan import Plan
from trisched.worker.secrets import Secrets, UnknownSecret

_MICROSECONDS: Final = 1_000_000


class Stop(Enum):
    """Why an attempt is stopped from outside."""

    CANCEL = "cancelled"
    RELEASE = "node shutdown"
    FENCE = "its node lost contact with the database"


@attrs.define(slots=True, eq=False)
class Live:
    """An attempt that is under way on this node."""

    run: Claimed
    plan: Plan
    output: OutputBuffer
    scope: trio.CancelScope
    #: Trio's time when the claim was answered, and thereby the database's time of now.
    claimed_at: float
    began_at: float = 0.0
    chunks: int = 0
    #: The progress that was last handed to the database.
    told: Progress | None = None
    waiting: bool = False
    stopped: Stop | None = None
    #: What must not show in anything that is stored; None on a node without secrets.
    secrets: Secrets | None = None

    def stop(self, why: Stop) -> None:
        """Cancels the attempt; the first reason counts."""
        self.stopped = self.stopped or why
        self.scope.cancel()

    def waits(self) -> None:
        """It stands in line for a place: nothing of it has begun, and its time does not count."""
        self.waiting = True
        self.scope.deadline = math.inf

    def begins(self) -> None:
        """It has its place: its time counts from now."""
        self.waiting = False
        self.began_at = trio.current_time()
        self.scope.deadline = self.began_at + timeout_of(self.run, self.plan.job.spec)

    def database_time(self, at: float) -> int:
        """Trio's time ``at`` by the database's clock, counted from the claim."""
        return self.run.started_at + int((at - self.claimed_at) * _MICROSECONDS)

    def chunk(self, lines: Sequence[Line]) -> Chunk:
        """New lines as the next piece of output to store."""
        number, self.chunks = self.chunks, self.chunks + 1
        return Chunk(self.run.id, self.run.token, number, self._encoded(lines))

    def latest(self, lines: Sequence[Line]) -> Chunk:
        """The last lines of what is too long to be stored as it comes."""
        return Chunk(self.run.id, self.run.token, LATEST, self._encoded(lines))

    def _encoded(self, lines: Sequence[Line]) -> str:
        hidden = str if self.secrets is None else self.secrets.mask
        return msgspec.json.encode([(line.number, line.at, line.stream, hidden(line.text)) for line in lines]).decode()

    def report(self, *, last: bool = False) -> Report | None:
        """How far the attempt is, if that is news; the last word is said in any case."""
        progress = self.output.progress
        if progress is None or (progress is self.told and not last):
            return None
        self.told = progress
        if self.secrets is not None:
            progress = attrs.evolve(progress, text=self.secrets.mask_start(progress.text))
        text = to_json(progress, self.run.token, self.database_time(trio.current_time()))
        return Report(self.run.id, self.run.claim_id, text)


def timeout_of(run: Claimed, spec: JobSpec) -> float:
    """The time-out of this run: its own if it was submitted with one, else the job's."""
    if run.overrides is None:
        return spec.timeout
    overrides: dict[str, float] = msgspec.json.decode(run.overrides)
    return overrides.get("timeout", spec.timeout)


async def execute(live: Live, make_call: Callable[[], Call]) -> Ended | None:
    """What the executor answered; None if the attempt was stopped or ran out of time."""
    live.began_at = trio.current_time()
    try:
        live.scope.relative_deadline = timeout_of(live.run, live.plan.job.spec)
        with live.scope:
            return await live.plan.executor.execute(make_call())
    except UnknownSecret as error:
        return Ended(completed=False, error=Failure("UnknownSecret", str(error)))
    except Exception as error:  # noqa: BLE001 - unreadable parameters, a faulty executor: this attempt's alone
        return ending_of(error)
    return None


def decide(live: Live, ended: Ended | None, randomness: random.Random) -> tuple[Ending, Failure | None]:
    """The move that follows from how the attempt ended, and the error to show."""
    run, spec = live.run, live.plan.job.spec
    if ended is not None and ended.completed:
        return Ending(
            run_id=run.id,
            token=run.token,
            claim_id=run.claim_id,
            move=Move.COMPLETE,
            outcome=Outcome.COMPLETED,
        ), None
    if ended is None and live.stopped is not None:
        return _stopped(live, live.stopped)
    if ended is None:
        outcome = Outcome.TIMED_OUT
        error = Failure("TimedOut", f"timed out after {format_duration(timeout_of(run, spec))}", None)
    else:
        outcome = Outcome.FAILED
        error = ended.error or Failure("Failed", "failed", None)
    failures = run.failures + 1
    ending = after_failure(
        run_id=run.id,
        token=run.token,
        claim_id=run.claim_id,
        outcome=outcome,
        failures=failures,
        retries=run.retries,
        delay=delay(spec.backoff, failures, randomness),
        reason=_reason(error),
    )
    return ending, error


def _reason(error: Failure) -> str:
    first = error.message.splitlines()[0] if error.message else ""
    text = first if error.type in ("TimedOut", "ExitCode", "Signal") else f"{error.type}: {first}"
    return text.replace("\0", "␀")[:500]


def _stopped(live: Live, why: Stop) -> tuple[Ending, None]:
    run = live.run
    move, outcome = {
        Stop.CANCEL: (Move.CANCEL, Outcome.CANCELLED),
        Stop.RELEASE: (Move.RELEASE, Outcome.RELEASED),
        Stop.FENCE: (Move.RELEASE, Outcome.LOST),
    }[why]
    if move is Move.RELEASE and live.plan.job.spec.delivery == "hold" and not live.waiting:
        # It had begun, and it must never begin twice: a person decides.
        move = Move.HOLD
    return Ending(
        run_id=run.id, token=run.token, claim_id=run.claim_id, move=move, outcome=outcome, reason=why.value
    ), None


def history(live: Live, ending: Ending, ended: Ended | None, error: Failure | None, node_id: str) -> Attempt:
    """The attempt as it is stored."""
    run = live.run
    ended_at = trio.current_time()
    return Attempt(
        run_id=run.id,
        token=run.token,
        claim_id=run.claim_id,
        number=run.attempt,
        node_id=node_id,
        started_at=live.database_time(live.began_at),
        ended_at=live.database_time(ended_at),
        outcome=ending.outcome,
        effective=True,
        exit_code=None if ended is None else ended.exit_code,
        error_type=None if error is None else error.type,
        error=None if error is None else error.message.replace("\0", "␀"),
        traceback=None if error is None or error.traceback is None else error.traceback.replace("\0", "␀"),
        result=None if ended is None else ended.result,
    )
