"""The worker over virtual time: what it takes and in which order, how attempts end, and how it stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import SECOND, Link, Stage, cut, do_nothing, real_stage, wait_until
from trisched import Context
from trisched.domain.run import Outcome, RunStatus
from trisched.worker.tasks import Tasks

S = RunStatus


async def test_runs_start_by_priority_and_then_in_the_order_they_came(stage: Stage, autojump_clock: MockClock) -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(name)

    stage.tasks.register("work", work, None)
    await stage.job("job")
    for priority in ("low", "normal", "critical", "high"):
        for number in (1, 2):
            await stage.submit("job", {"name": f"{priority}-{number}"}, priority=priority)
            await trio.sleep(0.001)
    async with stage.working(concurrency=1):
        await trio.sleep(5)
    assert order == [f"{name}-{n}" for name in ("critical", "high", "normal", "low") for n in (1, 2)]


async def test_waiting_an_hour_is_worth_one_class_of_priority(stage: Stage, autojump_clock: MockClock) -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(name)

    stage.tasks.register("work", work, None)
    await stage.job("job")
    await stage.submit("job", {"name": "old and low"}, priority="low")
    await trio.sleep(3601)
    await stage.submit("job", {"name": "new and normal"}, priority="normal")
    await stage.submit("job", {"name": "new and high"}, priority="high")
    async with stage.working(concurrency=1):
        await trio.sleep(5)
    assert order == ["new and high", "old and low", "new and normal"]


@pytest.mark.parametrize("concurrency", [1, 3, 8])
async def test_capacity_is_used_and_never_exceeded(stage: Stage, concurrency: int, autojump_clock: MockClock) -> None:
    running = most = 0

    async def work(seconds: float) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(seconds)
        running -= 1

    stage.tasks.register("work", work, None)
    job = await stage.job("job")
    async with stage.working(concurrency=concurrency):
        for number in range(40):
            await stage.submit("job", {"seconds": 0.5 + number % 3})
        await trio.sleep(120)
        assert Counter(run.status for run in await stage.runs(job)) == {S.COMPLETED: 40}
    assert most == concurrency


async def test_a_failing_run_is_tried_again_after_growing_waits_and_then_dead(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def fail() -> None:
        raise ValueError("no such customer")

    stage.tasks.register("fail", fail, None)
    await stage.job("job", function="fail", retries=3)
    async with stage.scheduling(), stage.working():
        run_id = await stage.submit("job")
        run = await stage.wait(run_id, S.DEAD)
    assert (run.failures, run.attempt, run.reason) == (4, 4, "ValueError: no such customer")
    attempts = await stage.attempts(run_id)
    assert [(attempt.number, attempt.outcome) for attempt in attempts] == [(n, Outcome.FAILED) for n in (1, 2, 3, 4)]
    assert all(attempt.effective and attempt.error == "no such customer" for attempt in attempts)
    assert all("raise ValueError" in (attempt.traceback or "") for attempt in attempts)
    waits = [(later.started_at - earlier.ended_at) / SECOND for earlier, later in pairwise(attempts)]
    for wait, plain in zip(waits, (1, 2, 4), strict=True):
        assert plain <= wait < plain + 0.5 + 0.1


async def test_a_run_that_fails_at_first_completes_with_its_history_kept(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise OSError("try again")
        return ctx.attempt

    stage.tasks.register("flaky", flaky, None)
    await stage.job("job", function="flaky")
    async with stage.scheduling(), stage.working():
        run_id = await stage.submit("job")
        await stage.wait(run_id, S.COMPLETED)
    attempts = await stage.attempts(run_id)
    assert [attempt.outcome for attempt in attempts] == [Outcome.FAILED, Outcome.FAILED, Outcome.COMPLETED]
    assert attempts[-1].result == "3"


@pytest.mark.parametrize(("override", "expected"), [(None, 20), (5, 5)])
async def test_an_attempt_that_takes_too_long_is_stopped(
    stage: Stage, override: int | None, expected: int, autojump_clock: MockClock
) -> None:
    async def work() -> None:
        await trio.sleep(1000)

    stage.tasks.register("work", work, None)
    await stage.job("job", timeout=20, retries=0)
    async with stage.working():
        run_id = await stage.submit("job", timeout=override)
        run = await stage.wait(run_id, S.DEAD)
    [attempt] = await stage.attempts(run_id)
    assert attempt.outcome is Outcome.TIMED_OUT
    assert (attempt.ended_at - attempt.started_at) / SECOND == pytest.approx(expected, abs=0.01)
    assert run.reason == f"timed out after {expected}s"


async def test_a_running_run_is_cancelled_at_once_and_not_tried_again(stage: Stage, autojump_clock: MockClock) -> None:
    stopped_at: list[float] = []

    async def work() -> None:
        try:
            await trio.sleep(1000)
        finally:
            stopped_at.append(trio.current_time())

    stage.tasks.register("work", work, None)
    await stage.job("job")
    async with stage.scheduling(), stage.working():
        run_id = await stage.submit("job")
        await stage.wait(run_id, S.RUNNING)
        await trio.sleep(100)
        asked = trio.current_time()
        assert await stage.cancel(run_id) is S.RUNNING
        await stage.wait(run_id, S.CANCELLED)
        await trio.sleep(60)
    assert stopped_at == pytest.approx([asked], abs=0.01)
    [attempt] = await stage.attempts(run_id)
    assert attempt.outcome is Outcome.CANCELLED


async def test_a_cancel_whose_wake_up_got_lost_is_noticed_by_looking(stage: Stage, autojump_clock: MockClock) -> None:
    async def work() -> None:
        await trio.sleep(1000)

    stage.tasks.register("work", work, None)
    await stage.job("job")
    async with stage.working():
        run_id = await stage.submit("job")
        await stage.wait(run_id, S.RUNNING)
        await stage.execute("UPDATE run SET cancel_requested_at = now_us() WHERE id = :id", id=run_id)
        await stage.wait(run_id, S.CANCELLED, within=1.5)


async def test_a_cancelled_run_that_fails_meanwhile_is_not_put_back_in_line(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def work() -> None:
        try:
            await trio.sleep(1000)
        except trio.Cancelled:
            raise ValueError("clumsy clean-up") from None

    stage.tasks.register("work", work, None)
    await stage.job("job", retries=5)
    async with stage.scheduling(), stage.working():
        run_id = await stage.submit("job")
        await stage.wait(run_id, S.RUNNING)
        await stage.cancel(run_id)
        await trio.sleep(30)
        assert (await stage.run(run_id)).status is S.CANCELLED


async def long_task(stage: Stage, seconds: float, **fields: object) -> str:
    """The id of a run that takes so long, submitted."""

    async def work() -> None:
        await trio.sleep(seconds)

    stage.tasks.register("work", work, None)
    await stage.job("job", **fields)
    return await stage.submit("job")


async def test_a_stopping_worker_claimsdo_nothing_more_and_lets_attempts_end(
    stage: Stage, autojump_clock: MockClock
) -> None:
    first = await long_task(stage, 20)
    async with stage.working() as worker:
        await stage.wait(first, S.RUNNING)
        worker.stop()
        second = await stage.submit("job")
        await trio.sleep(19)
        assert (await stage.run(first)).status is S.RUNNING
    assert (await stage.run(first)).status is S.COMPLETED
    assert (await stage.run(second)).status is S.QUEUED
    assert 20 <= trio.current_time() < 21


async def test_what_is_not_over_at_the_drain_time_out_is_released(stage: Stage, autojump_clock: MockClock) -> None:
    run_id = await long_task(stage, 1000)
    async with stage.working(drain_timeout=30) as worker:
        await stage.wait(run_id, S.RUNNING)
        began = trio.current_time()
        worker.stop()
    assert trio.current_time() - began == pytest.approx(30, abs=0.1)
    run = await stage.run(run_id)
    assert (run.status, run.attempt, run.failures, run.claim_id) == (S.QUEUED, 0, 0, None)
    assert run.reason == "node shutdown"
    [attempt] = await stage.attempts(run_id)
    assert (attempt.outcome, attempt.effective) == (Outcome.RELEASED, True)


async def test_a_released_run_starts_again_elsewhere_with_all_its_attempts(
    stage: Stage, autojump_clock: MockClock
) -> None:
    seconds = [1000.0, 1.0]

    async def work() -> None:
        await trio.sleep(seconds.pop(0))

    stage.tasks.register("work", work, None)
    await stage.job("job")
    run_id = await stage.submit("job")
    async with stage.working("node-a", drain_timeout=1):
        await stage.wait(run_id, S.RUNNING)
    async with stage.working("node-b"):
        run = await stage.wait(run_id, S.COMPLETED)
    assert (run.attempt, run.token, run.node_id) == (1, 2, "node-b")
    assert [attempt.outcome for attempt in await stage.attempts(run_id)] == [Outcome.RELEASED, Outcome.COMPLETED]


async def test_a_second_stop_does_not_wait_for_the_drain(stage: Stage, autojump_clock: MockClock) -> None:
    run_id = await long_task(stage, 1000)
    async with stage.working(drain_timeout=500) as worker:
        await stage.wait(run_id, S.RUNNING)
        worker.stop()
        await trio.sleep(3)
        worker.stop()
    assert trio.current_time() < 4
    assert (await stage.run(run_id)).status is S.QUEUED


async def test_a_run_that_must_not_begin_twice_is_held_when_its_node_stops(
    stage: Stage, autojump_clock: MockClock
) -> None:
    run_id = await long_task(stage, 1000, delivery="hold")
    async with stage.working(drain_timeout=1):
        await stage.wait(run_id, S.RUNNING)
    run = await stage.run(run_id)
    assert (run.status, run.reason) == (S.HELD, "node shutdown")
    [attempt] = await stage.attempts(run_id)
    assert attempt.outcome is Outcome.RELEASED


@pytest.mark.parametrize(("delivery", "status"), [("retry", S.QUEUED), ("hold", S.HELD)])
async def test_a_fenced_worker_stops_its_attempts_and_gives_their_runs_back(
    stage: Stage, delivery: str, status: RunStatus, autojump_clock: MockClock
) -> None:
    trusted, stopped = True, 0

    async def work() -> None:
        nonlocal stopped
        try:
            await trio.sleep(1000)
        finally:
            stopped += 1

    stage.tasks.register("work", work, None)
    job = await stage.job("job", delivery=delivery)
    for _ in range(3):
        await stage.submit("job")
    async with stage.working(lease_ok=lambda: trusted) as worker:
        await trio.sleep(5)
        assert worker.active == 3
        trusted = False
        worker.fence()
        await trio.sleep(0.1)
        assert (worker.active, stopped) == (0, 3)
        await trio.sleep(60)
        runs = await stage.runs(job)
        assert {run.status for run in runs} == {status}
        for run in runs:
            assert [attempt.outcome for attempt in await stage.attempts(run.id)] == [Outcome.LOST]


async def test_a_worker_without_a_good_lease_startsdo_nothing_until_it_has_one(
    stage: Stage, autojump_clock: MockClock
) -> None:
    trusted = False
    started: list[float] = []

    async def work() -> None:
        started.append(trio.current_time())

    stage.tasks.register("work", work, None)
    await stage.job("job")
    run_id = await stage.submit("job")
    link = Link(stage.database)
    async with stage.working(lease_ok=lambda: trusted, database=link):
        await trio.sleep(30)
        assert (started, link.calls) == ([], [])
        trusted = True
        await stage.wait(run_id, S.COMPLETED, within=2)


async def test_a_claim_that_was_answered_after_the_lease_had_ended_is_given_back(
    stage: Stage, autojump_clock: MockClock
) -> None:
    trusted, started = True, 0

    async def work() -> None:
        nonlocal started
        started += 1

    async def slow(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        nonlocal trusted
        answer = await call()
        if kind == "write":
            await trio.sleep(12)
            trusted, link.fault = False, whole
        return answer

    stage.tasks.register("work", work, None)
    await stage.job("job")
    run_id = await stage.submit("job")
    link = Link(stage.database)
    whole, link.fault = link.fault, slow
    async with stage.working(lease_ok=lambda: trusted, database=link):
        await trio.sleep(20)
        assert ((await stage.run(run_id)).token, started) == (1, 0)
        trusted = True
        run = await stage.wait(run_id, S.COMPLETED, within=5)
    assert (run.token, run.attempt, started) == (2, 1, 1)


async def test_runs_of_an_unknown_task_wait_while_others_run(stage: Stage, autojump_clock: MockClock) -> None:
    stage.tasks.register("known", do_nothing, None)
    mine = Tasks()
    mine.register("known", do_nothing, None)
    await stage.job("known", function="known", queue="a")
    await stage.job("known-too", function="known", queue="b")
    await stage.job("unknown", function="elsewhere", queue="c")
    waiting = [await stage.submit("unknown", priority="critical") for _ in range(3)]
    async with stage.working(tasks=mine):
        done = [await stage.submit(job) for job in ("known", "known-too", "known", "known-too")]
        for run_id in done:
            await stage.wait(run_id, S.COMPLETED, within=3)
        assert {(await stage.run(run_id)).token for run_id in waiting} == {0}
        async with stage.working("node-b"):
            for run_id in waiting:
                run = await stage.wait(run_id, S.COMPLETED, within=3)
                assert run.node_id == "node-b"


async def test_runs_that_need_a_tag_wait_for_a_node_that_has_it(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("gpu", requires=["gpu"])
    run_id = await stage.submit("gpu")
    async with stage.working("node-a", tags=("cpu",)):
        await trio.sleep(10)
        assert (await stage.run(run_id)).status is S.QUEUED
        async with stage.working("node-b", tags=("cpu", "gpu")):
            assert (await stage.wait(run_id, S.COMPLETED)).node_id == "node-b"


async def test_a_job_made_after_the_worker_started_is_taken_up(stage: Stage, autojump_clock: MockClock) -> None:
    async with stage.working():
        await trio.sleep(100)
        await stage.job("late")
        run_id = await stage.submit("late")
        await stage.wait(run_id, S.COMPLETED, within=0.1)


async def test_a_run_is_started_at_once_not_at_the_next_look(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    async with stage.working():
        await trio.sleep(100.3)
        run_id = await stage.submit("job")
        run = await stage.wait(run_id, S.COMPLETED)
    assert (run.started_at or 0) - run.created_at < SECOND // 100


async def test_a_run_whose_wake_up_got_lost_is_found_by_looking(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    async with stage.working():
        await trio.sleep(100.3)
        run_id = await stage.submit("job", delay="1h")
        await stage.execute("UPDATE run SET status = 'queued' WHERE id = :id", id=run_id)
        await stage.wait(run_id, S.COMPLETED, within=1.5)


async def test_several_queues_are_served_by_the_most_urgent_run(stage: Stage, autojump_clock: MockClock) -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(name)

    stage.tasks.register("work", work, None)
    await stage.job("job")
    for queue, priority in [("a", "normal"), ("b", "critical"), ("c", "low"), ("a", "high")]:
        await stage.submit("job", {"name": f"{queue}-{priority}"}, queue=queue, priority=priority)
    async with stage.working(concurrency=1):
        await trio.sleep(5)
    assert order == ["b-critical", "a-high", "a-normal", "c-low"]


async def test_a_worker_of_some_queues_leaves_the_others_alone(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    async with stage.working(queues=("mail", "video")):
        ids = {queue: await stage.submit("job", queue=queue) for queue in ("default", "mail", "video", "audio")}
        await trio.sleep(10)
    statuses = {queue: (await stage.run(run_id)).status for queue, run_id in ids.items()}
    assert statuses == {"default": S.QUEUED, "mail": S.COMPLETED, "video": S.COMPLETED, "audio": S.QUEUED}


async def test_output_is_stored_while_the_run_goes_on_and_at_its_end(stage: Stage, autojump_clock: MockClock) -> None:
    async def talk(ctx: Context) -> None:
        ctx.log("first")
        await trio.sleep(10)
        ctx.log("second")
        await trio.sleep(10)
        ctx.log("last")

    stage.tasks.register("talk", talk, None)
    await stage.job("job", function="talk")
    async with stage.working():
        run_id = await stage.submit("job")
        await trio.sleep(5)
        assert await stage.output(run_id) == ["first"]
        await trio.sleep(10)
        assert await stage.output(run_id) == ["first", "second"]
        await stage.wait(run_id, S.COMPLETED)
        assert await stage.output(run_id) == ["first", "second", "last"]


async def test_output_that_could_not_be_stored_is_stored_later(stage: Stage, autojump_clock: MockClock) -> None:
    async def talk(ctx: Context) -> None:
        for number in range(10):
            ctx.log(str(number))
            await trio.sleep(1)

    stage.tasks.register("talk", talk, None)
    await stage.job("job", function="talk")
    link = Link(stage.database)
    async with stage.working(database=link):
        run_id = await stage.submit("job")
        await trio.sleep(2.8)
        whole, link.fault = link.fault, cut
        await trio.sleep(4)
        link.fault = whole
        await stage.wait(run_id, S.COMPLETED)
    assert await stage.output(run_id) == [str(number) for number in range(10)]


async def test_parameters_that_cannot_be_read_fail_their_own_run_only(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job", retries=0)
    bad = await stage.submit("job")
    await stage.execute("UPDATE run SET parameters = 'no json' WHERE id = :id", id=bad)
    async with stage.working():
        await stage.wait(bad, S.DEAD)
        good = await stage.submit("job")
        await stage.wait(good, S.COMPLETED)


async def test_a_worker_that_stops_while_the_database_is_away_does_not_wait_for_ever(
    stage: Stage, autojump_clock: MockClock
) -> None:
    run_id = await long_task(stage, 1000)
    link = Link(stage.database)
    async with stage.working(database=link, drain_timeout=5) as worker:
        await stage.wait(run_id, S.RUNNING)
        link.fault = cut
        worker.stop()
    assert trio.current_time() < 20
    assert (await stage.run(run_id)).status is S.RUNNING


async def test_two_workers_never_run_the_same_run(database_url: str) -> None:
    starts: Counter[int] = Counter()

    async def work(number: int) -> None:
        starts[number] += 1
        await trio.lowlevel.checkpoint()

    async def all_started() -> bool:
        return starts.total() >= 200

    async with real_stage(database_url) as stage:
        stage.tasks.register("work", work, None)
        job = await stage.job("job")
        async with stage.working("node-a", concurrency=7), stage.working("node-b", concurrency=5):
            for number in range(200):
                await stage.submit("job", {"number": number})
            await wait_until(all_started)
        runs = await stage.runs(job)
    assert starts == Counter(range(200))
    assert {(run.status, run.token) for run in runs} == {(S.COMPLETED, 1)}


async def test_functions_in_threads_run_and_fail_like_the_others(database_url: str) -> None:
    def work(number: int) -> int:
        return 1 // number

    async with real_stage(database_url) as stage:
        stage.tasks.register("work", work, None)
        await stage.job("job", retries=0)
        async with stage.working():
            good, bad = await stage.submit("job", {"number": 1}), await stage.submit("job", {"number": 0})
            await stage.wait(good, S.COMPLETED)
            run = await stage.wait(bad, S.DEAD)
        assert (run.reason or "").startswith("ZeroDivisionError")
        assert [attempt.result for attempt in await stage.attempts(good)] == ["1"]
