"""One attempt: which move follows from which end, and how its times are told by the database's clock."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.worker.calls import make_call, make_output
from trisched.domain.backoff import Backoff
from trisched.domain.job import Job, JobSpec
from trisched.domain.lifecycle import Move
from trisched.domain.run import Outcome
from trisched.storage.tables.run import Claimed
from trisched.worker import attempt as attempts
from trisched.worker.attempt import Live, Stop
from trisched.worker.executors import Call, Ended, Failure
from trisched.worker.plan import Plan

STARTED = 1_000_000_000


class Sleeper:
    """An executor that takes its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def execute(self, _: Call) -> Ended:
        await trio.sleep(self._seconds)
        return Ended(completed=True)


class Faulty:
    """An executor that breaks its word never to raise."""

    async def execute(self, _: Call) -> Ended:
        raise RuntimeError("broken executor")


def make_live(*, seconds: float = 0, claimed_at: float = 0.0, **fields: object) -> Live:
    spec = JobSpec(name="job", type="shell", command="true", **fields)  # type: ignore[arg-type]
    job = Job(
        id="job-1",
        origin="api",
        revision=1,
        spec=spec,
        next_slot_at=None,
        dispatch_failures=0,
        alarm=None,
        created_at=0,
        updated_at=0,
    )
    run = Claimed("run-1", "job-1", "{}", None, spec.retries, 1, 0, 7, "claim-1", None, None, STARTED, 0)
    return Live(run, Plan(job, Sleeper(seconds), None, False), make_output(), trio.CancelScope(), claimed_at)


def failed(message: str = "boom", kind: str = "ValueError") -> Ended:
    return Ended(completed=False, error=Failure(kind, message, "trace"))


def test_success_completes() -> None:
    ending, error = attempts.decide(make_live(), Ended(completed=True), random.Random(1))
    assert (ending.move, ending.outcome, error) == (Move.COMPLETE, Outcome.COMPLETED, None)
    assert (ending.run_id, ending.token, ending.claim_id) == ("run-1", 7, "claim-1")


@pytest.mark.parametrize(("before", "move"), [(0, Move.RETRY), (2, Move.RETRY), (3, Move.BURY)])
def test_a_failure_is_retried_until_the_retries_are_used_up(before: int, move: Move) -> None:
    live = make_live(retries=3)
    live.run.failures = before
    ending, error = attempts.decide(live, failed(), random.Random(1))
    assert (ending.move, ending.outcome) == (move, Outcome.FAILED)
    assert ending.reason == "ValueError: boom"
    assert error is not None
    if move is Move.BURY:
        assert ending.delay == 0
    else:
        assert 2**before <= ending.delay < 2**before + 0.5


def test_the_backoff_of_the_job_is_used() -> None:
    live = make_live(backoff=Backoff(kind="fixed", base=42.0, jitter=0.0))
    ending, _ = attempts.decide(live, failed(), random.Random(1))
    assert ending.delay == 42.0


@pytest.mark.parametrize(
    ("why", "delivery", "move", "outcome"),
    [
        (Stop.CANCEL, "retry", Move.CANCEL, Outcome.CANCELLED),
        (Stop.CANCEL, "hold", Move.CANCEL, Outcome.CANCELLED),
        (Stop.RELEASE, "retry", Move.RELEASE, Outcome.RELEASED),
        (Stop.RELEASE, "hold", Move.HOLD, Outcome.RELEASED),
        (Stop.FENCE, "retry", Move.RELEASE, Outcome.LOST),
        (Stop.FENCE, "hold", Move.HOLD, Outcome.LOST),
    ],
)
def test_what_was_stopped_ends_by_the_reason_of_the_stop(
    why: Stop, delivery: str, move: Move, outcome: Outcome
) -> None:
    live = make_live(delivery=delivery)
    live.stop(why)
    ending, error = attempts.decide(live, None, random.Random(1))
    assert (ending.move, ending.outcome, ending.reason, error) == (move, outcome, why.value, None)


def test_the_first_reason_to_stop_counts() -> None:
    live = make_live()
    live.stop(Stop.CANCEL)
    live.stop(Stop.RELEASE)
    assert attempts.decide(live, None, random.Random(1))[0].outcome is Outcome.CANCELLED


def test_work_that_was_done_before_the_stop_reached_it_counts_as_done() -> None:
    live = make_live()
    live.stop(Stop.RELEASE)
    assert attempts.decide(live, Ended(completed=True), random.Random(1))[0].move is Move.COMPLETE


@pytest.mark.parametrize(
    ("message", "kind", "reason"),
    [
        ("two\nlines", "ValueError", "ValueError: two"),
        ("", "KeyError", "KeyError: "),
        ("exit code 3", "ExitCode", "exit code 3"),
        ("a\0b", "ValueError", "ValueError: a␀b"),
        ("x" * 9000, "ValueError", "ValueError: " + "x" * 488),
    ],
)
def test_the_reason_is_one_short_line_that_every_store_can_hold(message: str, kind: str, reason: str) -> None:
    assert attempts.decide(make_live(), failed(message, kind), random.Random(1))[0].reason == reason


async def test_the_time_out_of_the_run_goes_before_that_of_the_job(autojump_clock: MockClock) -> None:
    live = make_live(seconds=1000, timeout=50.0)
    live.run.overrides = '{"timeout": 5.0}'
    assert await attempts.execute(live, make_call) is None
    assert trio.current_time() == pytest.approx(5)
    ending, error = attempts.decide(live, None, random.Random(1))
    assert (ending.outcome, ending.reason) == (Outcome.TIMED_OUT, "timed out after 5s")
    assert error is not None


async def test_an_attempt_that_was_stopped_before_it_began_does_nothing(autojump_clock: MockClock) -> None:
    live = make_live(seconds=1000)
    live.stop(Stop.FENCE)
    assert await attempts.execute(live, make_call) is None
    assert trio.current_time() == 0


async def test_a_faulty_executor_fails_its_attempt_and_nothing_else(autojump_clock: MockClock) -> None:
    live = make_live()
    live.plan = attrs.evolve(live.plan, executor=Faulty())
    ended = await attempts.execute(live, make_call)
    assert ended is not None
    ending, error = attempts.decide(live, ended, random.Random(1))
    assert (ending.move, ending.reason) == (Move.RETRY, "RuntimeError: broken executor")
    assert error is not None


async def test_the_history_tells_times_by_the_clock_of_the_database(autojump_clock: MockClock) -> None:
    await trio.sleep(100)
    live = make_live(seconds=30, claimed_at=trio.current_time())
    await trio.sleep(2)
    ended = await attempts.execute(live, make_call)
    ending, error = attempts.decide(live, ended, random.Random(1))
    attempt = attempts.history(live, ending, ended, error, "node-a")
    assert (attempt.started_at, attempt.ended_at) == (STARTED + 2_000_000, STARTED + 32_000_000)
    assert (attempt.node_id, attempt.number, attempt.token, attempt.outcome) == ("node-a", 1, 7, Outcome.COMPLETED)


def test_output_goes_out_in_numbered_chunks() -> None:
    live = make_live()
    live.output.write("stdout", b"one\ntwo\n")
    first = live.chunk(live.output.take())
    live.output.write("stderr", b"three")
    last = live.chunk(live.output.close())
    assert [(chunk.run_id, chunk.token, chunk.number) for chunk in (first, last)] == [("run-1", 7, 0), ("run-1", 7, 1)]
    assert '"one"' in first.lines
    assert '"three"' in last.lines
