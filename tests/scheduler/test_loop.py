"""The scheduler over hours of virtual time: every slot once, nothing in between, and changes at once."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import SECOND, START, Link, Stage, cut, instant, no_fault
from trisched.domain.job import Job
from trisched.domain.run import RunStatus
from trisched.operations import jobs as job_operations

HOUR = 3600


async def slots(stage: Stage, job: Job) -> list[float]:
    """The slots that have a run, in seconds after the start."""
    return sorted(((run.slot_at or 0) - START) / SECOND for run in await stage.runs(job))


async def test_an_interval_fires_on_each_slot_exactly_once(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("tick", schedule="every 5s", overlap="allow")
    async with stage.scheduling():
        await trio.sleep(2 * HOUR + 1)
    assert await slots(stage, job) == [5.0 * n for n in range(1, 2 * HOUR // 5 + 1)]


async def test_runs_are_made_at_their_slots_and_not_before_or_late(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("tick", schedule="every 7s", overlap="allow")
    async with stage.scheduling():
        await trio.sleep(10 * 60)
    runs = await stage.runs(job)
    assert len(runs) == 600 // 7
    late = [run.created_at - (run.slot_at or 0) for run in runs]
    assert min(late) >= 0
    assert max(late) < SECOND // 100


async def test_cron_jobs_fire_by_their_own_time_zones(stage: Stage, autojump_clock: MockClock) -> None:
    berlin = await stage.job("berlin", schedule="30 9 * * *", timezone="Europe/Berlin", overlap="allow")
    hourly = await stage.job("hourly", schedule="15 * * * *", overlap="allow")
    async with stage.scheduling():
        await trio.sleep(2 * 24 * HOUR)
    assert await slots(stage, berlin) == [8.5 * HOUR, 32.5 * HOUR]
    assert await slots(stage, hourly) == [HOUR * n + 900.0 for n in range(48)]


async def test_a_daily_job_keeps_its_wall_time_over_a_change_of_the_clock(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.set_clock(instant("2026-03-28T00:00:00Z"))
    job = await stage.job("daily", schedule="0 9 * * *", timezone="Europe/Berlin", overlap="allow")
    async with stage.scheduling():
        await trio.sleep(48 * HOUR)
    assert [run.slot_at for run in await stage.runs(job)] == [
        instant("2026-03-28T08:00:00Z"),
        instant("2026-03-29T07:00:00Z"),
    ]


async def test_a_job_of_one_instant_fires_once_and_never_again(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("once", schedule="2026-03-02T00:10:00Z")
    async with stage.scheduling():
        await trio.sleep(HOUR)
    assert await slots(stage, job) == [600.0]
    assert (await stage.stored("once")).next_slot_at is None


async def test_the_database_is_left_alone_while_nothing_is_due(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("yearly", schedule="0 0 1 1 *")
    link = Link(stage.database)
    async with stage.scheduling(link):
        await trio.sleep(1)
        link.calls.clear()
        await trio.sleep(HOUR)
        looks = Counter(round(at) for at, _ in link.calls)
    assert sorted(looks) == list(range(30, HOUR + 1, 30))
    # One look: the jobs that changed, what is due, what to promote, and when to look again.
    assert set(looks.values()) == {4}


async def test_between_due_moments_there_is_no_call_at_all(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("tick", schedule="every 20s", overlap="allow")
    link = Link(stage.database)
    async with stage.scheduling(link):
        await trio.sleep(10 * 60 + 1)
    assert {round(at) for at, _ in link.calls} == {0} | set(range(20, 601, 20))


async def test_a_changed_schedule_is_followed_at_once(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("tick", schedule="every 1h")
    async with stage.scheduling():
        await trio.sleep(100.5)
        await stage.change("tick", schedule={"every": "10s", "anchor": "2026-03-02T00:00:00Z"}, overlap="allow")
        await trio.sleep(30)
        await stage.change("tick", schedule="0 0 1 1 *")
        await trio.sleep(HOUR)
    assert await slots(stage, job) == [110.0, 120.0, 130.0]


async def test_a_changed_schedule_never_fires_the_past(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("daily", schedule="0 12 * * *")
    async with stage.scheduling():
        await trio.sleep(6 * HOUR + 30)
        await stage.change("daily", schedule="0 6 * * *", misfire="catch_up_all")
        await trio.sleep(12 * HOUR)
        assert await stage.runs(job) == []
        await trio.sleep(12 * HOUR)
    assert await slots(stage, job) == [30.0 * HOUR]


async def test_a_new_job_is_scheduled_without_waiting_for_the_next_look(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async with stage.scheduling():
        await trio.sleep(7)
        job = await stage.job("soon", schedule={"every": "1s", "anchor": "2026-03-02T00:00:00Z"}, overlap="allow")
        await trio.sleep(3.5)
    assert await slots(stage, job) == [8.0, 9.0, 10.0]


async def test_a_disabled_job_does_not_fire_and_an_enabled_one_makes_no_burst(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await stage.job("tick", schedule="every 10s", overlap="allow", misfire="catch_up_all")
    async with stage.scheduling():
        await trio.sleep(25)
        await job_operations.disable(stage.scope, "tick")
        await trio.sleep(HOUR)
        assert await slots(stage, job) == [10.0, 20.0]
        await job_operations.enable(stage.scope, "tick")
        await trio.sleep(20)
    assert await slots(stage, job) == [10.0, 20.0, 3630.0, 3640.0]


async def test_a_deleted_job_makes_no_more_runs(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("tick", schedule="every 10s", overlap="allow")
    async with stage.scheduling():
        await trio.sleep(15)
        await job_operations.delete(stage.scope, "tick")
        await trio.sleep(HOUR)
    assert await slots(stage, job) == [10.0]


async def test_a_delayed_run_is_queued_at_its_time(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("later")
    async with stage.scheduling():
        run_id = await stage.submit("later", delay="40s")
        await trio.sleep(39.9)
        assert (await stage.run(run_id)).status is RunStatus.PENDING
        await trio.sleep(0.2)
        assert (await stage.run(run_id)).status is RunStatus.QUEUED


async def test_more_delayed_runs_than_one_batch_are_all_queued_at_their_time(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await stage.job("later")
    for _ in range(1100):
        await stage.submit("later", delay="40s")
    async with stage.scheduling():
        await trio.sleep(41)
    assert Counter(run.status for run in await stage.runs(job)) == {RunStatus.QUEUED: 1100}


async def test_a_retrying_run_is_queued_when_its_backoff_is_over(stage: Stage, autojump_clock: MockClock) -> None:
    async def fail() -> None:
        raise ValueError("no")

    stage.tasks.register("fail", fail, None)
    await stage.job("fail", function="fail", retries=1, backoff={"base": "50s", "jitter": 0})
    async with stage.scheduling():
        async with stage.working():
            run_id = await stage.submit("fail")
            await stage.wait(run_id, RunStatus.RETRYING)
        await trio.sleep(49)
        assert (await stage.run(run_id)).status is RunStatus.RETRYING
        await trio.sleep(2)
        assert (await stage.run(run_id)).status is RunStatus.QUEUED


async def test_jitter_stays_within_its_bound_and_is_the_same_each_time(stage: Stage, autojump_clock: MockClock) -> None:
    schedule = {"cron": "* * * * *", "jitter": 20}
    names = [f"spread-{number}" for number in range(40)]
    jobs = [await stage.job(name, schedule=schedule, overlap="allow") for name in names]
    async with stage.scheduling():
        await trio.sleep(3 * 60 + 30)
    late = []
    for job in jobs:
        runs = await stage.runs(job)
        assert [run.slot_at for run in runs] == [START + n * 60 * SECOND for n in (1, 2, 3)]
        late += [run.created_at - (run.slot_at or 0) for run in runs]
    assert min(late) >= 0
    assert max(late) <= 20.01 * SECOND
    # Forty jobs of the same minute are spread: no quarter of the twenty seconds is empty.
    assert {min(int(wait / SECOND // 5), 3) for wait in late} == {0, 1, 2, 3}


async def test_an_outage_of_the_database_delays_slots_and_loses_none(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("tick", schedule="every 10s", overlap="allow", misfire="catch_up_all")
    link = Link(stage.database)

    async with stage.scheduling(link):
        await trio.sleep(15)
        link.fault = cut
        await trio.sleep(42)
        link.fault = no_fault
        await trio.sleep(10)
        runs = await stage.runs(job)
        # The made-up slots go one after another, so only the first of them is in line.
        assert await slots(stage, job) == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert {run.status for run in runs} == {RunStatus.QUEUED, RunStatus.PENDING}


@pytest.mark.parametrize("count", [10_000])
async def test_ten_thousand_jobs_due_in_the_same_second_are_all_queued(
    stage: Stage, autojump_clock: MockClock, count: int
) -> None:
    await stage.job("model", schedule="every 1h")
    await stage.execute(
        """
        WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
        INSERT INTO job (id, name, origin, revision, spec, type, queue, schedule_kind, next_slot_at, next_due_at,
            dispatch_failures, created_at, updated_at)
        SELECT 'copy-' || n, 'copy-' || n, origin, 1, spec, type, queue, schedule_kind, next_slot_at, next_due_at,
            0, created_at, updated_at
        FROM job, numbers
        """,
        count=count - 1,
    )
    async with stage.scheduling():
        await trio.sleep(HOUR + 1)
    assert await stage.rows("SELECT status, count(*), count(DISTINCT job_id) FROM run GROUP BY status") == [
        ("queued", count, count)
    ]
    assert await stage.rows("SELECT count(*) FROM job WHERE next_slot_at = :next", next=START + 2 * HOUR * SECOND) == [
        (count,)
    ]
