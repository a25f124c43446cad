"""Plans: what this node can run and what it leaves for others, kept up with the jobs as they change."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import Stage, do_nothing
from trisched.operations import jobs as job_operations
from trisched.storage.job_cache import JobCache
from trisched.worker.executors import Executor
from trisched.worker.executors.function import AsyncFunction
from trisched.worker.plan import Plans
from trisched.worker.tasks import Tasks

EXECUTOR = AsyncFunction()


def make_plans(stage: Stage, tasks: Tasks | None = None, tags: tuple[str, ...] = ()) -> Plans:
    executors: dict[str, Executor] = {"async": EXECUTOR}
    return Plans(JobCache(stage.database), tasks or stage.tasks, executors, frozenset(tags))


async def test_a_known_task_has_a_plan_and_an_unknown_one_is_left_for_others(
    stage: Stage, autojump_clock: MockClock
) -> None:
    known = await stage.job("known", function="known")
    mine = Tasks()
    mine.register("known", do_nothing, None)
    unknown = await stage.job("unknown", function="unknown")
    shell = await stage.job("shell", command="true")
    plans = make_plans(stage, mine)
    await plans.refresh()
    plan = plans.find(known.id)
    assert plan is not None
    assert (plan.executor, plan.job.spec.name) == (EXECUTOR, "known")
    # This node has no executor for shell jobs.
    assert plans.excluded == sorted([unknown.id, shell.id])
    assert plans.find(unknown.id) is None


async def test_a_task_whose_mode_has_no_executor_here_is_left_for_others(
    stage: Stage, autojump_clock: MockClock
) -> None:
    tasks = Tasks()
    tasks.register("threaded", _plain, None)
    stage.tasks.register("threaded", _plain, None)
    job = await stage.job("job", function="threaded")
    plans = make_plans(stage, tasks)
    await plans.refresh()
    assert plans.excluded == [job.id]


@pytest.mark.parametrize(("tags", "here"), [((), False), (("gpu",), False), (("gpu", "eu", "big"), True)])
async def test_a_job_needs_all_the_tags_it_requires(
    stage: Stage, tags: tuple[str, ...], here: bool, autojump_clock: MockClock
) -> None:
    job = await stage.job("job", requires=["gpu", "eu"])
    plans = make_plans(stage, tags=tags)
    await plans.refresh()
    assert (plans.find(job.id) is not None) is here
    assert (plans.excluded == []) is here


async def test_plans_follow_changes_of_their_jobs(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("job", timeout=5)
    plans = make_plans(stage)
    await plans.refresh()
    first = plans.find(job.id)
    await plans.refresh()
    assert plans.find(job.id) is first
    await stage.change("job", timeout=6)
    await plans.refresh()
    second = plans.find(job.id)
    assert second is not None
    assert second.job.spec.timeout == 6
    await stage.change("job", requires=["gpu"])
    await plans.refresh()
    assert (plans.find(job.id), plans.excluded) == (None, [job.id])
    await stage.change("job", requires=[])
    await plans.refresh()
    assert plans.excluded == []
    await job_operations.delete(stage.scope, "job")
    await plans.refresh()
    assert (plans.find(job.id), plans.excluded) == (None, [])


async def test_a_job_that_cannot_be_read_is_left_for_others(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("job")
    await stage.execute("UPDATE job SET spec = '[]' WHERE id = :id", id=job.id)
    plans = make_plans(stage)
    await plans.refresh()
    assert (plans.find(job.id), plans.excluded) == (None, [job.id])


async def test_what_is_left_stays_left_until_a_job_changes(stage: Stage, autojump_clock: MockClock) -> None:
    plans = make_plans(stage)
    await plans.refresh()
    plans.leave({"job-x"})
    await trio.sleep(100)
    await plans.refresh()
    assert plans.excluded == ["job-x"]
    await stage.job("job")
    await plans.refresh()
    assert plans.excluded == []


@pytest.mark.parametrize(
    ("fields", "frees"),
    [
        ({}, False),
        ({"overlap": "allow"}, False),
        ({"overlap": "queue"}, True),
        ({"overlap": "cancel_running"}, True),
        ({"misfire": "catch_up_all"}, True),
    ],
)
async def test_the_scheduler_is_told_only_of_ends_that_others_wait_for(
    stage: Stage, fields: dict[str, object], frees: bool, autojump_clock: MockClock
) -> None:
    job = await stage.job("job", **fields)
    plans = make_plans(stage)
    await plans.refresh()
    plan = plans.find(job.id)
    assert plan is not None
    assert plan.frees_others is frees


def _plain() -> None:
    return
