"""Claims under faults: answers that got lost, calls that land late, queues whose work is for others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import Fault, Link, Stage, cut, do_nothing, no_fault
from trisched.domain.run import RunStatus
from trisched.errors import StoreUnavailable
from trisched.operations import jobs as job_operations
from trisched.worker.tasks import Tasks

S = RunStatus


def losing(link: Link, kind: str, count: int, *, commit: bool) -> Fault:
    """The next ``count`` calls of that kind fail, after the commit or before it."""
    whole = link.fault

    async def lose(seen: str, call: Callable[[], Awaitable[object]]) -> object:
        nonlocal count
        if seen != kind or count == 0:
            return await whole(seen, call)
        count -= 1
        if commit:
            await call()
        raise StoreUnavailable("the connection broke")

    return lose


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_claim_whose_answer_was_lost_is_given_back_and_made_again(
    stage: Stage, times: int, commit: bool, autojump_clock: MockClock
) -> None:
    started = 0

    async def work() -> None:
        nonlocal started
        started += 1

    stage.tasks.register("work", work, None)
    await stage.job("job")
    run_id = await stage.submit("job")
    link = Link(stage.database)
    link.fault = losing(link, "write", times, commit=commit)
    async with stage.working(database=link):
        run = await stage.wait(run_id, S.COMPLETED, within=10)
    assert (run.attempt, started) == (1, 1)
    assert len(await stage.attempts(run_id)) == 1


async def test_a_lost_claim_is_given_back_though_no_other_work_is_left(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    run_id = await stage.submit("job")
    trusted = True
    link = Link(stage.database)
    link.fault = losing(link, "write", 1, commit=True)
    async with stage.working(database=link, lease_ok=lambda: trusted) as worker:
        await stage.wait(run_id, S.RUNNING)
        worker.stop()
    run = await stage.run(run_id)
    assert (run.status, run.attempt) == (S.QUEUED, 0)
    assert await stage.attempts(run_id) == []


async def test_a_claim_that_lands_after_it_was_given_up_is_given_back(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    link = Link(stage.database)
    run_id = await stage.submit("job", delay="1h")

    async def land_late(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        if kind == "write":
            link.fault = no_fault
            nursery.start_soon(land, call)
            raise StoreUnavailable("no answer in time")
        return await call()

    async def land(call: Callable[[], Awaitable[object]]) -> None:
        # The server carries the claim out although its client has gone, and by now there is something to claim.
        await trio.sleep(20.5)
        await stage.execute("UPDATE run SET status = 'queued' WHERE id = :id", id=run_id)
        await call()

    async with trio.open_nursery() as nursery, stage.working(database=link):
        await trio.sleep(5)
        link.fault = land_late
        first = await stage.submit("job")
        await stage.wait(first, S.COMPLETED, within=5)
        held = await stage.wait(run_id, S.RUNNING, within=25)
        await trio.sleep(5)
        assert (await stage.run(run_id)) == held
        run = await stage.wait(run_id, S.COMPLETED, within=40)
    assert (run.token, run.attempt) == (2, 1)


async def test_queues_full_of_others_work_do_not_keep_this_worker_from_its_own(
    stage: Stage, autojump_clock: MockClock
) -> None:
    mine = Tasks()
    mine.register("work", do_nothing, None)
    await stage.job("mine")
    await stage.job("others", function="elsewhere")
    for queue in ("a", "b", "c"):
        await stage.submit("others", queue=queue, priority="critical")
        await stage.submit("mine", queue=queue)
    link = Link(stage.database)
    async with stage.working(tasks=mine, database=link):
        await trio.sleep(0.5)
        statuses = await stage.rows(
            "SELECT job.name, run.status, count(*) FROM run JOIN job ON job.id = run.job_id GROUP BY 1, 2"
        )
        assert sorted(statuses) == [("mine", "completed", 3), ("others", "queued", 3)]
        link.calls.clear()
        await trio.sleep(60)
    # What is left is looked at once a second, not all the time.
    assert len(link.calls) < 60 * 6


async def test_a_run_of_a_job_that_nobody_knows_is_not_claimed_again_and_again(
    stage: Stage, autojump_clock: MockClock
) -> None:
    await stage.job("gone")
    await stage.job("job")
    run_id = await stage.submit("gone")
    await job_operations.delete(stage.scope, "gone")
    await stage.execute("UPDATE run SET status = 'queued', finished_at = NULL WHERE id = :id", id=run_id)
    async with stage.working():
        await trio.sleep(60)
        assert (await stage.run(run_id)).token <= 1
        assert (await stage.run(run_id)).status is S.QUEUED
        await stage.wait(await stage.submit("job"), S.COMPLETED, within=2)


async def test_work_is_found_again_after_an_outage(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    link = Link(stage.database)
    async with stage.working(database=link):
        await trio.sleep(5)
        whole, link.fault = link.fault, cut
        run_id = await stage.submit("job")
        await trio.sleep(60)
        assert (await stage.run(run_id)).status is S.QUEUED
        link.fault = whole
        await stage.wait(run_id, S.COMPLETED, within=2)


async def test_wake_ups_that_come_during_a_claim_are_not_forgotten(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    link = Link(stage.database)
    whole = link.fault
    second: list[str] = []

    async def submit_meanwhile(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        answer = await whole(kind, call)
        if kind == "write" and not second:
            # Committed after the claim looked, and announced before its answer is here.
            second.append("")
            second.append(await stage.submit("job"))
        return answer

    async with stage.working(database=link):
        await trio.sleep(5.5)
        link.fault = submit_meanwhile
        await stage.submit("job")
        await trio.sleep(0.1)
        assert (await stage.run(second[1])).status is S.COMPLETED
