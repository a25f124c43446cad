"""Writing jobs: create, replace, patch, delete, switch."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.operations.stage import claim, run_status, shell
from trisched.domain.run import RunStatus
from trisched.errors import Conflict, Cycle, Invalid, NotFound, Stale
from trisched.operations import job_views, jobs, run_views, runs
from trisched.operations.run_views import RunFilter
from trisched.operations.scope import Scope

HOURLY = "0 * * * *"


async def test_a_new_job_is_found_by_id_and_name_and_waits_for_its_next_slot(scope: Scope) -> None:
    made = await jobs.create(scope, shell("backup", schedule=HOURLY, timezone="Europe/Berlin"))
    by_id, by_name = await job_views.get(scope, made.id), await job_views.get(scope, "backup")
    assert by_id.job == by_name.job == made
    assert (made.revision, made.origin) == (1, "api")
    assert made.next_slot_at is not None
    assert 0 < made.next_slot_at - by_id.now <= 3_600_000_000


async def test_a_name_is_taken_once(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    with pytest.raises(Conflict, match="backup"):
        await jobs.create(scope, shell("backup"))
    await jobs.delete(scope, "backup")
    await jobs.create(scope, shell("backup"))


async def test_a_function_must_be_registered(scope: Scope) -> None:
    with pytest.raises(Invalid) as refused:
        await jobs.create(scope, {"name": "x", "type": "python", "function": "os.system"})
    assert [error.path for error in refused.value.errors] == ["function"]


async def test_dependencies_must_exist_and_must_not_lead_back(scope: Scope) -> None:
    with pytest.raises(Invalid) as unknown:
        await jobs.create(scope, shell("a", depends_on=["nobody"]))
    assert unknown.value.errors[0].path == "depends_on[0]"
    with pytest.raises(Cycle) as alone:
        await jobs.create(scope, shell("a", depends_on=["a"]))
    assert alone.value.path == ("a", "a")
    await jobs.create(scope, shell("a"))
    await jobs.create(scope, shell("b", depends_on=["a"]))
    await jobs.create(scope, shell("c", depends_on=["b"]))
    with pytest.raises(Cycle) as around:
        await jobs.replace(scope, "a", shell("a", depends_on=["c"]))
    assert around.value.path == ("a", "c", "b", "a")
    assert (await job_views.get(scope, "a")).job.spec.depends_on == ()


async def test_two_changes_at_once_cannot_close_a_cycle(scope: Scope) -> None:
    for name in ("a", "b"):
        await jobs.create(scope, shell(name))
    refused = []

    async def point(name: str, other: str) -> None:
        try:
            await jobs.patch(scope, name, {"depends_on": [other]})
        except Cycle:
            refused.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(point, "a", "b")
        nursery.start_soon(point, "b", "a")
    assert len(refused) == 1


async def test_an_edit_keeps_the_next_slot_unless_the_schedule_changes(scope: Scope) -> None:
    made = await jobs.create(scope, shell("backup", schedule="every 1h"))
    same = await jobs.replace(scope, "backup", shell("backup", schedule="every 1h", retries=1))
    assert (same.next_slot_at, same.revision) == (made.next_slot_at, 2)
    other = await jobs.replace(scope, "backup", shell("backup", schedule="every 2h"))
    assert other.next_slot_at != made.next_slot_at
    assert other.next_slot_at is not None
    assert other.next_slot_at > (await job_views.get(scope, "backup")).now


async def test_a_replacement_by_the_same_is_no_new_revision(scope: Scope) -> None:
    await jobs.create(scope, shell("backup", schedule="every 1h", parameters={"b": 1, "a": 2}))
    same = await jobs.replace(scope, "backup", shell("backup", schedule="every 1h", parameters={"a": 2, "b": 1}))
    assert same.revision == 1


async def test_a_replacement_starts_from_the_defaults(scope: Scope) -> None:
    await jobs.create(scope, shell("backup", retries=9, tags=["x"], schedule=HOURLY))
    replaced = await jobs.replace(scope, "backup", shell("backup"))
    assert (replaced.spec.retries, replaced.spec.tags, replaced.next_slot_at) == (3, (), None)


async def test_a_patch_changes_what_it_names(scope: Scope) -> None:
    await jobs.create(scope, shell("backup", retries=9, tags=["x"], schedule=HOURLY, cwd="/srv"))
    patched = await jobs.patch(scope, "backup", {"retries": 1, "cwd": None, "schedule": None})
    assert (patched.spec.retries, patched.spec.cwd, patched.spec.schedule) == (1, None, None)
    assert patched.spec.tags == ("x",)
    with pytest.raises(Invalid, match="is required"):
        await jobs.patch(scope, "backup", {"name": None})
    with pytest.raises(Invalid, match="colour"):
        await jobs.patch(scope, "backup", {"colour": "red"})


async def test_a_patched_time_zone_moves_the_schedule(scope: Scope) -> None:
    before = await jobs.create(scope, shell("backup", schedule="0 9 * * *", timezone="Europe/Berlin"))
    after = await jobs.patch(scope, "backup", {"timezone": "Asia/Tokyo"})
    assert after.spec.schedule is not None
    assert after.spec.schedule.timezone == "Asia/Tokyo"
    assert after.next_slot_at != before.next_slot_at


async def test_a_stale_revision_is_refused(scope: Scope) -> None:
    await jobs.create(scope, shell("backup"))
    await jobs.patch(scope, "backup", {"retries": 1}, revision=1)
    for change in (
        jobs.replace(scope, "backup", shell("backup"), revision=1),
        jobs.patch(scope, "backup", {}, revision=1),
    ):
        with pytest.raises(Stale):
            await change
    with pytest.raises(Stale):
        await jobs.delete(scope, "backup", revision=1)
    await jobs.delete(scope, "backup", revision=2)


async def test_a_renamed_job_keeps_its_id_and_what_others_need_keeps_its_name(scope: Scope) -> None:
    made = await jobs.create(scope, shell("a"))
    assert (await jobs.patch(scope, "a", {"name": "b"})).id == made.id
    await jobs.create(scope, shell("c", depends_on=["b"]))
    with pytest.raises(Conflict, match="'c'"):
        await jobs.patch(scope, "b", {"name": "d"})
    await jobs.create(scope, shell("d"))
    with pytest.raises(Conflict, match="'d'"):
        await jobs.patch(scope, "c", {"name": "d", "depends_on": []})


async def test_a_deleted_job_leaves_no_run_waiting(scope: Scope) -> None:
    made = await jobs.create(scope, shell("backup"))
    running = await runs.submit(scope, runs.Submission(job="backup"))
    await claim(scope)
    waiting = await runs.submit_many(scope, [runs.Submission(job="backup", delay=delay) for delay in (None, 60)])
    await jobs.create(scope, shell("after", depends_on=["backup"]))
    with pytest.raises(Conflict, match="'after'"):
        await jobs.delete(scope, "backup")
    await jobs.delete(scope, "after")
    await jobs.delete(scope, "backup")
    assert [await run_status(scope, each.run_id) for each in waiting] == [RunStatus.CANCELLED] * 2
    stopped = (await run_views.get(scope, running.run_id)).run
    assert stopped.cancel_requested_at is not None
    reasons = {(await run_views.get(scope, each.run_id)).run.reason for each in waiting}
    assert reasons == {"job deleted"}
    with pytest.raises(NotFound):
        await job_views.get(scope, "backup")
    history = await run_views.list_runs(scope, RunFilter(job=made.id))
    assert len(history.runs) == 3
    assert set(history.job_names.values()) == {"backup"}, "the runs of a deleted job are still shown"


async def test_a_job_that_is_switched_on_again_makes_up_for_nothing(scope: Scope) -> None:
    made = await jobs.create(scope, shell("backup", schedule="every 1h"))
    off = await jobs.disable(scope, "backup")
    assert (off.next_slot_at, off.spec.enabled) == (None, False)
    assert (await jobs.disable(scope, "backup")).revision == off.revision
    on = await jobs.enable(scope, "backup")
    assert on.spec.enabled
    assert on.next_slot_at == made.next_slot_at
    now = (await job_views.get(scope, "backup")).now
    assert on.next_slot_at is not None
    assert on.next_slot_at > now


@pytest.mark.parametrize("verb", [jobs.enable, jobs.disable, job_views.get, job_views.figures, job_views.history])
async def test_nobody_is_not_found(scope: Scope, verb: Any) -> None:
    with pytest.raises(NotFound):
        await verb(scope, "nobody")
