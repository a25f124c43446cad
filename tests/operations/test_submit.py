"""Submitting: what is stored, what is refused, and what a key means."""

from __future__ import annotations

import pytest
import trio

from tests.operations.stage import ShiftedClock, claim, opened, shell
from trisched.domain.run import PRIORITY_CLASS, Priority, RunStatus
from trisched.errors import Conflict, Invalid, NotFound, TooLarge
from trisched.operations import jobs, run_views, runs
from trisched.operations.run_views import RunFilter
from trisched.operations.runs import Submission
from trisched.operations.scope import Scope

DAY_US = 86_400_000_000


async def count(scope: Scope) -> int:
    return len((await run_views.list_runs(scope, RunFilter(), limit=1000)).runs)


async def test_a_run_takes_what_the_submission_says_and_the_rest_from_its_job(scope: Scope) -> None:
    job = await jobs.create(scope, shell("backup", parameters={"a": 1, "b": 2}, retries=7, priority="low"))
    made = await runs.submit(
        scope, Submission(job="backup", parameters={"b": 3}, queue="night", priority="critical", timeout="90s")
    )
    run = (await run_views.get(scope, made.run_id)).run
    assert made.created
    assert made.status is run.status is RunStatus.QUEUED
    assert (run.job_id, run.queue, run.priority, run.retries) == (
        job.id,
        "night",
        PRIORITY_CLASS[Priority.CRITICAL],
        7,
    )
    assert (run.parameters, run.overrides, run.origin) == ('{"a":1,"b":3}', '{"timeout":90.0}', "submit")
    assert [claimed.id for claimed in await claim(scope, "night")] == [made.run_id], "its queue is known to workers"


async def test_a_run_for_later_waits_for_its_time(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    delayed = await runs.submit(scope, Submission(job="backup", delay="1h"))
    dated = await runs.submit(scope, Submission(job="backup", at="2090-01-01T00:00:00Z"))
    late = await runs.submit(scope, Submission(job="backup", at="2020-01-01T00:00:00Z"))
    assert (delayed.status, dated.status, late.status) == (
        RunStatus.PENDING,
        RunStatus.PENDING,
        RunStatus.QUEUED,
    )
    run = (await run_views.get(scope, delayed.run_id)).run
    assert 3_540_000_000 < run.due_at - run.created_at <= 3_600_000_000
    overdue = (await run_views.get(scope, late.run_id)).run
    assert overdue.due_at == overdue.created_at, "a moment that is over does not overtake the line"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "job"),
        ({"job": "backup", "function": "noop"}, "job"),
        ({"job": 7}, "job"),
        ({"job": ["backup"]}, "job"),
        ({"job": "backup", "parameters": [1]}, "parameters"),
        ({"job": "backup", "parameters": {"x": float("nan")}}, "parameters"),
        ({"job": "backup", "queue": ""}, "queue"),
        ({"job": "backup", "priority": "urgent"}, "priority"),
        ({"job": "backup", "delay": -1}, "delay"),
        ({"job": "backup", "delay": {}}, "delay"),
        ({"job": "backup", "delay": 1, "at": "2090-01-01T00:00:00Z"}, "at"),
        ({"job": "backup", "at": "2090-01-01T00:00:00"}, "at"),
        ({"job": "backup", "retries": -1}, "retries"),
        ({"job": "backup", "retries": True}, "retries"),
        ({"job": "backup", "timeout": 0}, "timeout"),
        ({"job": "backup", "key": ""}, "key"),
        ({"job": "backup", "key": "x" * 256}, "key"),
        ({"job": "backup", "key": "a\nb"}, "key"),
        ({"job": "backup", "key": 5}, "key"),
        ({"function": "os.system"}, "function"),
        ({"job": "report", "parameters": {"nonsense": 1}}, "parameters.nonsense"),
    ],
)
async def test_a_broken_submission_names_the_field_and_stores_nothing(
    scope: Scope, fields: dict[str, object], path: str
) -> None:
    await jobs.create(scope, shell("backup"))
    await jobs.create(scope, {"name": "report", "type": "python", "function": "reports.daily"})
    with pytest.raises(Invalid) as refused:
        await runs.submit(scope, Submission(**fields))
    assert [error.path for error in refused.value.errors] == [path]
    assert await count(scope) == 0


async def test_unknown_disabled_and_oversized_are_refused(scope: Scope) -> None:
    await jobs.create(scope, shell("off", enabled=False))
    await jobs.create(scope, shell("on"))
    with pytest.raises(NotFound):
        await runs.submit(scope, Submission(job="nobody"))
    with pytest.raises(NotFound):
        await runs.submit(scope, Submission(job="job-0"))
    with pytest.raises(Conflict, match="disabled"):
        await runs.submit(scope, Submission(job="off"))
    with pytest.raises(TooLarge):
        await runs.submit(scope, Submission(job="on", parameters={"x": "y" * 1_048_577}))
    assert await count(scope) == 0


async def test_a_batch_keeps_its_order_and_is_served_in_it(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    await jobs.create(scope, shell("two", parameters={"stored": True}))
    wanted = [Submission(job="one" if n % 3 else "two", parameters={"n": n}) for n in range(50)]
    made = await runs.submit_many(scope, wanted)
    assert [each.created for each in made] == [True] * 50
    stored = [(await run_views.get(scope, each.run_id)).run.parameters for each in made[:4]]
    assert stored == ['{"n":0,"stored":true}', '{"n":1}', '{"n":2}', '{"n":3,"stored":true}']
    assert [run.id for run in await claim(scope, most=50)] == [each.run_id for each in made]


async def test_a_batch_is_stored_whole_or_not_at_all(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    wanted = [
        Submission(job="one"),
        Submission(job="one", retries=-1),
        Submission(job="one", delay=[1]),
        Submission(job="one", key="k"),
    ]
    with pytest.raises(Invalid) as refused:
        await runs.submit_many(scope, wanted)
    assert [error.path for error in refused.value.errors] == ["runs[1].retries", "runs[2].delay"]
    assert await count(scope) == 0


async def test_an_empty_batch_is_no_error(scope: Scope) -> None:
    assert await runs.submit_many(scope, []) == []


async def test_the_same_key_gives_the_same_run_whatever_the_order_of_its_parameters(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    first = await runs.submit(scope, Submission(job="one", key="k", parameters={"a": 1, "b": {"d": 1, "c": 2}}))
    again = await runs.submit(scope, Submission(job="one", key="k", parameters={"b": {"c": 2, "d": 1}, "a": 1}))
    assert (again.run_id, again.created) == (first.run_id, False)
    with pytest.raises(Conflict, match="other parameters"):
        await runs.submit(scope, Submission(job="one", key="k", parameters={"a": 2}))
    await jobs.create(scope, shell("two"))
    other = await runs.submit(scope, Submission(job="two", key="k"))
    assert other.created, "a key belongs to one job"


async def test_keys_hold_inside_a_batch_and_against_what_is_stored(scope: Scope) -> None:
    await jobs.create(scope, shell("one"))
    earlier = await runs.submit(scope, Submission(job="one", key="old"))
    keys = ["new", "old", None, "new", "newer"]
    made = await runs.submit_many(scope, [Submission(job="one", key=key) for key in keys])
    assert [each.created for each in made] == [True, False, True, False, True]
    assert made[1].run_id == earlier.run_id
    assert made[3].run_id == made[0].run_id
    assert await count(scope) == 4
    with pytest.raises(Conflict, match="other parameters"):
        await runs.submit_many(
            scope, [Submission(job="one", key="x"), Submission(job="one", key="x", parameters={"a": 1})]
        )
    assert await count(scope) == 4


async def test_a_key_is_free_again_when_its_lifetime_is_over(sqlite_path: object) -> None:
    clock = ShiftedClock()
    async with opened(f"sqlite:///{sqlite_path}", clock) as scope:
        await jobs.create(scope, shell("one"))
        first = await runs.submit(scope, Submission(job="one", key="k"))
        clock.shift_us = DAY_US - 60_000_000
        assert (await runs.submit(scope, Submission(job="one", key="k"))).run_id == first.run_id
        clock.shift_us = DAY_US + 60_000_000
        later = await runs.submit(scope, Submission(job="one", key="k", parameters={"a": 1}))
        assert later.created
        assert later.run_id != first.run_id


async def test_many_at_once_with_one_key_make_one_run(database_url: str) -> None:
    answers: list[runs.Submitted] = []
    async with opened(database_url) as one:
        await jobs.create(one, shell("one"))

        async def submit() -> None:
            answers.append(await runs.submit(one, Submission(job="one", key="k")))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(submit)
        assert len({answer.run_id for answer in answers}) == 1
        assert [answer.created for answer in answers].count(True) == 1
        assert await count(one) == 1


async def test_a_function_is_submitted_to_the_job_that_calls_it(scope: Scope) -> None:
    [declared] = await jobs.declare(scope, [{"name": "daily-report", "type": "python", "function": "reports.daily"}])
    made = await runs.submit(scope, Submission(function="reports.daily"))
    assert (await run_views.get(scope, made.run_id)).run.job_id == declared.id


async def test_a_task_without_a_job_gets_one_of_its_name(scope: Scope) -> None:
    made = await runs.submit_many(scope, [Submission(function="mail.send"), Submission(function="mail.send")])
    names = {(await run_views.get(scope, each.run_id)).job_name for each in made}
    assert names == {"mail.send"}
    again = await runs.submit(scope, Submission(function="mail.send"))
    assert (await run_views.get(scope, again.run_id)).job_name == "mail.send"


async def test_a_function_of_several_jobs_must_be_named_by_its_job(scope: Scope) -> None:
    fields = {"type": "python", "function": "mail.send"}
    await jobs.declare(scope, [{"name": "one", **fields}, {"name": "two", **fields}])
    with pytest.raises(Invalid, match="one, two"):
        await runs.submit(scope, Submission(function="mail.send"))
