"""What becomes of due slots: misfires, overlaps, failures of single jobs, and leaders that are none any more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import SECOND, START, Stage, real_stage, wait_until
from trisched.domain.job import Job
from trisched.domain.run import Run, RunStatus
from trisched.scheduler import tick
from trisched.scheduler.loop import Scheduler
from trisched.scheduler.tick import GRACE_US, MAX_FAILURES
from trisched.storage.job_cache import JobCache
from trisched.storage.tables.leader import Deposed

S = RunStatus
HOUR = 3600
ANCHORED = "2026-03-02T00:00:00Z"


def every(seconds: float) -> dict[str, object]:
    return {"every": seconds, "anchor": ANCHORED}


def table(runs: Sequence[Run]) -> list[tuple[float, RunStatus]]:
    """Slot in seconds after the start, and status."""
    return sorted((((run.slot_at or 0) - START) / SECOND, run.status) for run in runs)


async def after_outage(stage: Stage, until: float, **fields: object) -> Job:
    """A job every ten minutes, of which nobody was scheduling until now."""
    job = await stage.job("report", schedule=every(600), **fields)
    await trio.sleep(until)
    return job


async def test_missed_slots_are_skipped_by_default_and_each_has_a_row_with_its_reason(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await after_outage(stage, HOUR - 10)
    async with stage.scheduling():
        await trio.sleep(5)
        runs = await stage.runs(job)
        assert table(runs) == [(600.0 * n, S.SKIPPED) for n in range(1, 6)]
        assert {run.reason for run in runs} == {"misfire: no node was scheduling at its time"}
        assert all(run.finished_at is not None for run in runs)
        await trio.sleep(10)
        assert table(await stage.runs(job))[5:] == [(3600.0, S.QUEUED)]


async def test_catch_up_one_runs_the_latest_missed_slot(stage: Stage, autojump_clock: MockClock) -> None:
    job = await after_outage(stage, HOUR - 10, misfire="catch_up_one")
    async with stage.scheduling():
        await trio.sleep(5)
    skipped = [(600.0 * n, S.SKIPPED) for n in range(1, 5)]
    assert table(await stage.runs(job)) == [*skipped, (3000.0, S.QUEUED)]


async def test_catch_up_all_runs_missed_slots_in_order_one_after_another(
    stage: Stage, autojump_clock: MockClock
) -> None:
    order: list[float] = []
    running = most = 0

    async def work(ctx: object = None) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(30)
        running -= 1

    stage.tasks.register("work", work, None)
    job = await after_outage(stage, HOUR - 10, misfire="catch_up_all", overlap="allow")
    async with stage.scheduling(), stage.working():
        await trio.sleep(9)
        assert [status for _, status in table(await stage.runs(job))] == [S.RUNNING, *[S.PENDING] * 4]
        await trio.sleep(400)
    runs = await stage.runs(job)
    assert table(runs)[:5] == [(600.0 * n, S.COMPLETED) for n in range(1, 6)]
    made_up = sorted(runs, key=lambda run: run.started_at or 0)
    order = [((run.slot_at or 0) - START) / SECOND for run in made_up if run.slot_at != START + HOUR * SECOND]
    assert order == [600.0, 1200.0, 1800.0, 2400.0, 3000.0]
    # The slot that came on time may overlap, the made-up ones never do.
    assert most == 2


async def test_catch_up_all_runs_no_more_than_max_catch_up_and_skips_the_oldest(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await after_outage(stage, HOUR - 10, misfire="catch_up_all", max_catch_up=2)
    async with stage.scheduling():
        await trio.sleep(5)
    assert table(await stage.runs(job)) == [
        *((600.0 * n, S.SKIPPED) for n in range(1, 4)),
        (2400.0, S.QUEUED),
        (3000.0, S.PENDING),
    ]


async def test_of_a_long_outage_the_latest_slots_have_rows_and_the_rest_is_counted(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await stage.job("tick", schedule=every(10))
    await trio.sleep(10 * 5000 + 6)
    async with stage.scheduling():
        await trio.sleep(0.5)
    runs = sorted(await stage.runs(job), key=lambda run: run.slot_at or 0)
    assert len(runs) == 100
    assert runs[-1].slot_at == START + 10 * 5000 * SECOND
    assert runs[0].reason == "misfire: no node was scheduling at its time, and 4,900 earlier slots"
    assert runs[1].reason == "misfire: no node was scheduling at its time"


@pytest.mark.parametrize(("late", "status"), [(0.9, S.QUEUED), (1.1, S.SKIPPED)])
async def test_a_slot_that_is_late_by_no_more_than_the_grace_runs(
    stage: Stage, late: float, status: RunStatus, autojump_clock: MockClock
) -> None:
    job = await stage.job("report", schedule=every(600))
    await trio.sleep(600 + late * GRACE_US / SECOND)
    async with stage.scheduling():
        await trio.sleep(0.1)
    assert table(await stage.runs(job)) == [(600.0, status)]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("skip", [S.COMPLETED, S.SKIPPED, S.COMPLETED, S.SKIPPED]),
        ("queue", [S.COMPLETED, S.COMPLETED, S.COMPLETED, S.COMPLETED]),
        ("allow", [S.COMPLETED, S.COMPLETED, S.COMPLETED, S.COMPLETED]),
        ("cancel_running", [S.CANCELLED, S.CANCELLED, S.CANCELLED, S.COMPLETED]),
    ],
)
async def test_overlap_policies(
    stage: Stage, overlap: str, expected: list[RunStatus], autojump_clock: MockClock
) -> None:
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await trio.sleep(90)
        finally:
            running -= 1

    stage.tasks.register("work", work, None)
    job = await stage.job("slow", schedule={**every(60), "end": "2026-03-02T00:04:30Z"}, overlap=overlap)
    async with stage.scheduling(), stage.working():
        await trio.sleep(12 * 60)
    runs = await stage.runs(job)
    assert table(runs) == [(60.0 * (n + 1), status) for n, status in enumerate(expected)]
    assert most == (2 if overlap == "allow" else 1)
    skipped = {run.reason for run in runs if run.status is S.SKIPPED}
    assert skipped <= {"overlap: an earlier run of the job was not over"}


async def test_queued_slots_start_in_slot_order_when_the_earlier_run_ends(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def work() -> None:
        await trio.sleep(90)

    stage.tasks.register("work", work, None)
    job = await stage.job("slow", schedule={**every(60), "end": "2026-03-02T00:04:30Z"}, overlap="queue")
    async with stage.scheduling(), stage.working():
        await trio.sleep(12 * 60)
    runs = sorted(await stage.runs(job), key=lambda run: run.slot_at or 0)
    starts = [((run.started_at or 0) - START) / SECOND for run in runs]
    assert starts == pytest.approx([60, 150, 240, 330], abs=0.1)


async def test_cancel_running_keeps_only_the_latest_of_several_slots(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("fast", schedule=every(1), overlap="cancel_running")
    await trio.sleep(3.5)
    async with stage.scheduling():
        await trio.sleep(0.1)
    assert table(await stage.runs(job)) == [(1.0, S.SKIPPED), (2.0, S.SKIPPED), (3.0, S.QUEUED)]


async def test_a_job_that_cannot_be_read_harms_only_itself(stage: Stage, autojump_clock: MockClock) -> None:
    good = [await stage.job(f"good-{n}", schedule=every(60), overlap="allow") for n in range(3)]
    bad = await stage.job("bad", schedule=every(60), queue="odd")
    await stage.execute("UPDATE job SET spec = '{\"name\": 5}' WHERE id = :id", id=bad.id)
    async with stage.scheduling():
        await trio.sleep(61)
        for job in good:
            assert table(await stage.runs(job)) == [(60.0, S.QUEUED)]
        [[failures, alarm]] = await stage.rows("SELECT dispatch_failures, alarm FROM job WHERE id = :id", id=bad.id)
        assert 1 <= failures < MAX_FAILURES
        assert "its stored definition cannot be read" in alarm
        assert await stage.runs(bad) == []
        await trio.sleep(10)
        [run] = await stage.runs(bad)
        assert (run.slot_at, run.status, run.queue) == (START + 60 * SECOND, S.SKIPPED, "odd")
        assert run.reason is not None
        assert run.reason.startswith("dispatch failed 5 times: ")
        await trio.sleep(HOUR)
    for job in good:
        assert len(await stage.runs(job)) == 61
    [[alarm]] = await stage.rows("SELECT alarm FROM job WHERE id = :id", id=bad.id)
    assert "its stored definition cannot be read" in alarm


async def test_a_job_that_becomes_readable_again_goes_on(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("report", schedule=every(60))
    [[spec]] = await stage.rows("SELECT spec FROM job WHERE id = :id", id=job.id)
    await stage.execute("UPDATE job SET spec = 'no json' WHERE id = :id", id=job.id)
    async with stage.scheduling():
        await trio.sleep(70)
    # As a node of a newer version would read it, which leads from now on.
    await stage.execute("UPDATE job SET spec = :spec WHERE id = :id", id=job.id, spec=spec)
    await trio.sleep(50)
    async with stage.scheduling():
        await trio.sleep(130)
    assert table(await stage.runs(job)) == [
        (60.0, S.SKIPPED), (120.0, S.QUEUED), (180.0, S.SKIPPED), (240.0, S.SKIPPED)
    ]  # fmt: skip
    assert (await stage.stored("report")).alarm is None


async def test_a_slot_that_fails_five_times_is_given_up_and_the_next_one_fires(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await stage.job("report", schedule=every(60))
    other = await stage.job("other", schedule=every(60), overlap="allow")
    # The table refuses the runs of one queue for a while: whatever is wrong with a job, it is wrong for it alone.
    await stage.change("report", queue="refused")
    await stage.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON run WHEN new.queue = 'refused' AND new.status = 'queued' "
        "BEGIN SELECT raise(ABORT, 'refused here'); END"
    )
    async with stage.scheduling():
        await trio.sleep(70)
        stored = await stage.stored("report")
        assert stored.next_slot_at == START + 120 * SECOND
        assert stored.alarm is not None
        assert "refused here" in stored.alarm
        await stage.execute("DROP TRIGGER refuse")
        await trio.sleep(60)
        assert (await stage.stored("report")).alarm is None
    assert table(await stage.runs(job)) == [(60.0, S.SKIPPED), (120.0, S.QUEUED)]
    assert table(await stage.runs(other)) == [(60.0, S.QUEUED), (120.0, S.QUEUED)]


async def test_a_deposed_leader_writes_nothing(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("report", schedule=every(60))
    run_id = await stage.submit("report", delay="30s")
    old = await stage.lead("old")
    await stage.lead("new")
    await trio.sleep(61)
    scheduler = Scheduler(stage.database, JobCache(stage.database), stage.ids, old)
    with pytest.raises(Deposed):
        await scheduler.run()
    assert (await stage.run(run_id)).status is S.PENDING
    assert [run.id for run in await stage.runs(job)] == [run_id]
    assert (await stage.stored("report")).next_slot_at == START + 60 * SECOND


async def test_a_leader_whose_lease_is_over_writes_nothing(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("report", schedule=every(60))
    epoch = await stage.lead(lease=50)
    with pytest.raises(Deposed):
        await Scheduler(stage.database, JobCache(stage.database), stage.ids, epoch).run()
    assert await stage.runs(job) == []


async def test_two_schedulers_at_once_make_each_slot_once(stage: Stage, autojump_clock: MockClock) -> None:
    jobs = [await stage.job(f"job-{n}", schedule=every(5), overlap="allow") for n in range(5)]
    epoch = await stage.lead()
    async with stage.scheduling(epoch=epoch), stage.scheduling(epoch=epoch):
        await trio.sleep(601)
    for job in jobs:
        assert table(await stage.runs(job)) == [(5.0 * n, S.QUEUED) for n in range(1, 121)]


async def test_a_job_that_changed_after_it_was_read_as_due_makes_no_run(
    stage: Stage, autojump_clock: MockClock
) -> None:
    job = await stage.job("report", schedule=every(60))
    epoch, cache = await stage.lead(), JobCache(stage.database)
    await trio.sleep(61)
    await cache.refresh()
    due = await stage.database.read(lambda tx: tick.due_jobs(tx, 10))
    await stage.change("report", enabled=False)
    made = await stage.database.write(lambda tx: tick.dispatch(tx, epoch, due, cache, stage.ids))
    assert (made, await stage.runs(job)) == (0, [])


async def caught_up(stage: Stage) -> bool:
    return not await stage.rows("SELECT 1 FROM job WHERE next_slot_at <= now_us() - 500000")


async def test_schedulers_on_two_connections_make_each_slot_once(postgres_dsn: str) -> None:
    async with real_stage(postgres_dsn, "one") as one, real_stage(postgres_dsn, "two") as two:
        for n in range(300):
            await one.job(f"job-{n}", schedule="every 1s", overlap="allow")
        epoch = await one.lead()
        # All of them have missed three slots, which is within the grace.
        await one.execute("UPDATE job SET next_slot_at = next_slot_at - 3000000, next_due_at = next_due_at - 3000000")
        async with one.scheduling(epoch=epoch), two.scheduling(epoch=epoch):
            await wait_until(partial(caught_up, one))
        counts = await one.rows("SELECT job_id, slot_at, count(*) FROM run GROUP BY job_id, slot_at")
        assert {count for _, _, count in counts} == {1}
        per_job = await one.rows("SELECT job_id, count(*), max(slot_at) - min(slot_at) FROM run GROUP BY job_id")
        assert len(per_job) == 300
        # No gap either: n runs span n - 1 intervals.
        assert all(span == (count - 1) * SECOND for _, count, span in per_job)
