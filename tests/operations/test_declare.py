"""Declaring jobs of a program or a file: again and again, without harm."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.operations.stage import ShiftedClock, opened, shell
from trisched.domain.duration import format_instant
from trisched.domain.job import ORIGIN_CODE, ORIGIN_FILE
from trisched.errors import Conflict, Cycle, Invalid
from trisched.operations import job_views, jobs, runs
from trisched.operations.job_views import JobFilter
from trisched.operations.scope import Scope

DAY_US = 86_400_000_000


async def test_declaring_again_touches_nothing(scope: Scope) -> None:
    specs = [shell("a", schedule="every 5m"), shell("b", depends_on=["a"], parameters={"y": 1, "x": 2})]
    first = await jobs.declare(scope, specs)
    assert [job.origin for job in first] == [ORIGIN_CODE, ORIGIN_CODE]
    assert await jobs.declare(scope, list(reversed(specs))) == list(reversed(first))


async def test_a_changed_declaration_keeps_the_next_slot_unless_its_schedule_changed(scope: Scope) -> None:
    [first] = await jobs.declare(scope, [shell("a", schedule="every 1h")])
    [second] = await jobs.declare(scope, [shell("a", schedule="every 1h", retries=1)])
    assert (second.id, second.revision, second.next_slot_at) == (first.id, 2, first.next_slot_at)
    [third] = await jobs.declare(scope, [shell("a", schedule="every 90m", retries=1)])
    assert third.next_slot_at != first.next_slot_at


async def test_a_moment_that_has_passed_does_not_stop_the_next_start(sqlite_path: Path) -> None:
    clock = ShiftedClock()
    async with opened(f"sqlite:///{sqlite_path}", clock) as scope:
        at = format_instant(clock.now_us() + 3_600_000_000)
        await jobs.declare(scope, [shell("once", schedule=at)])
        clock.shift_us = DAY_US
        [again] = await jobs.declare(scope, [shell("once", schedule=at, retries=1)])
        assert again.revision == 2
        with pytest.raises(Invalid, match="past"):
            await jobs.declare(scope, [shell("another", schedule=at)])


async def test_each_origin_changes_its_own_jobs_alone(scope: Scope) -> None:
    await jobs.create(scope, shell("mine"))
    await jobs.declare(scope, [shell("theirs", schedule="every 1h")])
    with pytest.raises(Conflict, match="'mine' was made through the API"):
        await jobs.declare(scope, [shell("mine"), shell("other")])
    with pytest.raises(Conflict, match="'theirs' is declared in code"):
        await jobs.declare(scope, [shell("theirs")], ORIGIN_FILE)
    for change in (
        jobs.replace(scope, "theirs", shell("theirs")),
        jobs.patch(scope, "theirs", {"retries": 1}),
    ):
        with pytest.raises(Conflict, match="declared in code"):
            await change
    with pytest.raises(Conflict, match="declared in code"):
        await jobs.delete(scope, "theirs")
    page = await job_views.list_jobs(scope, JobFilter())
    assert [detail.job.spec.name for detail in page.jobs] == ["mine", "theirs"], "nothing was half done"
    assert (await runs.trigger(scope, "theirs")).created


async def test_what_people_switched_off_stays_off(scope: Scope) -> None:
    specs = [shell("a", schedule="every 1h"), shell("b", enabled=False)]
    await jobs.declare(scope, specs)
    await jobs.disable(scope, "a")
    await jobs.enable(scope, "b")
    declared = await jobs.declare(scope, specs)
    assert [job.spec.enabled for job in declared] == [False, True]
    assert declared[0].next_slot_at is None


async def test_every_mistake_is_told_at_once_and_nothing_is_stored(scope: Scope) -> None:
    with pytest.raises(Invalid) as refused:
        await jobs.declare(
            scope,
            [
                shell("good"),
                shell("slow", timeout=-1),
                {"name": "task", "type": "python", "function": "nobody"},
                shell("good"),
            ],
        )
    assert [error.path for error in refused.value.errors] == [
        "jobs.slow.timeout",
        "jobs.task.function",
        "jobs.good.name",
    ]
    with pytest.raises(Invalid) as missing:
        await jobs.declare(scope, [shell("a", depends_on=["b", "nobody"]), shell("b")])
    assert [error.path for error in missing.value.errors] == ["jobs.a.depends_on[1]"]
    with pytest.raises(Cycle):
        await jobs.declare(scope, [shell("a", depends_on=["b"]), shell("b", depends_on=["a"])])
    assert (await job_views.list_jobs(scope, JobFilter())).total == 0


async def test_nodes_that_start_together_declare_the_same_jobs(postgres_dsn: str) -> None:
    specs = [shell(f"job-{number}", schedule="every 1h") for number in range(5)]
    async with opened(postgres_dsn) as one, opened(postgres_dsn) as two, trio.open_nursery() as nursery:
        for scope in (one, two, one, two):
            nursery.start_soon(jobs.declare, scope, specs)
    async with opened(postgres_dsn) as scope:
        page = await job_views.list_jobs(scope, JobFilter())
        assert (page.total, {detail.job.revision for detail in page.jobs}) == (5, {1})
