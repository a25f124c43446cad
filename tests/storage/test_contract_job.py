"""The job table: definitions are kept with their revisions, names are unique, schedules move by compare-and-set."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from tests.storage.stage import (
    SECOND,
    add_job,
    execute,
    fresh,
    held_open,
    new_run,
    now,
    rows,
    spec,
    stored_job,
    wait_for_lock,
    write,
)
from trisched.domain.job import ORIGIN_CODE, ORIGIN_FILE
from trisched.domain.job_fields import parse_job
from trisched.domain.run import Priority
from trisched.domain.schedule import jitter_us
from trisched.errors import Conflict, Invalid, Stale
from trisched.storage.database import Database, Tx
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.tables import dependency
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.wakeup import DUE, JOBS

EVERY_MINUTE = {"cron": "* * * * *"}


async def test_a_job_is_stored_as_it_was_given(database: Database) -> None:
    wish = spec(
        "Bericht «täglich» 'quoted\" \\ 📈", command=["/bin/echo", "", "a b"], cwd="/tmp", env={"A": "1"},
        schedule={"cron": "H 3 * * *", "timezone": "Europe/Berlin", "jitter": "5m"}, parameters={"a": [1, None]},
        tags=["x", "y"], requires=["gpu"], queue="slow", priority="high", timeout="5m", retries=0,
        backoff={"kind": "fixed", "base": 2}, misfire="catch_up_all", overlap="queue", delivery="hold",
        description="Lines\nof text",
    )  # fmt: skip
    stamp = await now(database)
    await write(database, job_table.add, {"job-x": wish}, ORIGIN_FILE, stamp)
    job = await stored_job(database, wish.name)
    assert job.spec == wish
    assert (job.id, job.origin, job.revision, job.dispatch_failures, job.alarm) == ("job-x", ORIGIN_FILE, 1, 0, None)
    assert job.created_at == job.updated_at or job.created_at < job.updated_at < job.created_at + SECOND
    assert stamp <= job.created_at <= await now(database)


async def test_a_job_is_found_by_its_id_before_its_name(database: Database) -> None:
    first = await add_job(database, "first")
    decoy = await add_job(database, first.id)
    assert await write(database, job_table.find, first.id) == first
    assert await write(database, job_table.find, decoy.id) == decoy
    assert await write(database, job_table.named, first.id) == decoy
    assert await write(database, job_table.find, "nothing") is None
    assert await write(database, job_table.named, decoy.id) is None


async def test_a_name_is_taken_once(database: Database) -> None:
    job = await add_job(database, "report")
    with pytest.raises(Conflict, match="report"):
        await add_job(database, "report")
    other = await add_job(database, "other")
    with pytest.raises(Conflict, match="report"):
        await write(database, job_table.change, other, spec("report"), None, 0)
    assert await stored_job(database, "report") == job
    assert await stored_job(database, "other") == other


async def test_names_that_differ_in_case_are_two(database: Database) -> None:
    await add_job(database, "report")
    await add_job(database, "Report")
    assert len(await rows(database, "SELECT id FROM job")) == 2


async def test_a_refused_name_does_not_spoil_the_transaction(database: Database) -> None:
    await add_job(database, "taken")

    def work(tx: Tx) -> None:
        with pytest.raises(Conflict):
            job_table.add(tx, {"job-1": spec("taken")}, ORIGIN_CODE, 0)
        job_table.add(tx, {"job-2": spec("free")}, ORIGIN_CODE, 0)

    await database.write(work)
    assert (await stored_job(database, "free")).id == "job-2"


async def test_a_removed_job_is_out_of_sight_and_its_name_free(database: Database) -> None:
    job = await add_job(database, "report", schedule=EVERY_MINUTE, tags=["t"])
    assert await write(database, job_table.remove, job.id) is True
    assert await write(database, job_table.find, job.id) is None
    assert await write(database, job_table.find, "report") is None
    assert await database.read(job_table.all_jobs) == []
    assert await rows(database, "SELECT next_slot_at, next_due_at FROM job") == [(None, None)]
    assert await rows(database, "SELECT count(*) FROM job_tag") == [(0,)]
    again = await add_job(database, "report")
    assert again.id != job.id
    names = await write(database, job_table.names_of_ids, [job.id])
    assert names == {job.id: "report"}, "the history of its runs can still be shown"
    assert await write(database, job_table.remove, job.id) is False


async def test_a_change_makes_a_new_revision(database: Database) -> None:
    job = await add_job(database, "report", tags=["old"])
    await execute(database, "UPDATE job SET dispatch_failures = 3, alarm = 'broken'")
    wish = spec("renamed", tags=["new"], queue="other", priority="critical", schedule=EVERY_MINUTE)
    await write(database, job_table.change, job, wish, 60 * SECOND, 0)
    changed = await stored_job(database, "renamed")
    assert (changed.id, changed.revision, changed.spec) == (job.id, 2, wish)
    assert (changed.next_slot_at, changed.dispatch_failures, changed.alarm) == (60 * SECOND, 0, None)
    assert (changed.created_at, changed.updated_at >= job.updated_at) == (job.created_at, True)
    assert await rows(database, "SELECT tag FROM job_tag") == [("new",)]
    assert await write(database, job_table.find, "report") is None


async def test_a_change_on_top_of_an_old_revision_is_refused(database: Database) -> None:
    job = await add_job(database, "report", depends_on=["a"])
    await write(database, job_table.change, job, spec("report", retries=1, depends_on=["b"]), None, 0)
    with pytest.raises(Stale):
        await write(database, job_table.change, job, spec("report", retries=2), None, 0)
    current = await stored_job(database, "report")
    assert (current.revision, current.spec.retries, current.spec.depends_on) == (2, 1, ("b",))
    assert await database.read(dependency.edges) == {"report": ["b"]}


async def test_a_removed_job_cannot_be_changed(database: Database) -> None:
    job = await add_job(database)
    await write(database, job_table.remove, job.id)
    with pytest.raises(Stale):
        await write(database, job_table.change, job, spec(), None, 0)


async def test_writing_a_job_wakes_caches_and_scheduler(database: Database) -> None:
    told: list[str] = []
    with database.wakeups.listening(told.append):
        job = await add_job(database)
        assert set(told) == {JOBS, DUE}
        told.clear()
        await write(database, job_table.change, job, spec(), None, 0)
        assert set(told) == {JOBS, DUE}
        told.clear()
        await write(database, job_table.remove, job.id)
        assert set(told) == {JOBS, DUE}


async def test_the_queue_of_a_job_is_known_from_then_on(database: Database) -> None:
    await add_job(database, "a", queue="slow")
    await add_job(database, "b", queue="slow")
    await write(database, job_table.add_queue, "extra")
    assert await database.read(job_table.queues) == [("extra", None), ("slow", None)]


async def test_edges_and_dependents_follow_what_is_stored(database: Database) -> None:
    root = await add_job(database, "root")
    left = await add_job(database, "left", depends_on=["root"])
    await add_job(database, "join", depends_on=["left", "root"])
    edges = await database.read(dependency.edges)
    assert {name: sorted(needs) for name, needs in edges.items()} == {"left": ["root"], "join": ["left", "root"]}
    assert await write(database, dependency.dependents, "root") == ["join", "left"]
    await write(database, job_table.remove, left.id)
    assert set(await database.read(dependency.edges)) == {"join"}
    assert await write(database, dependency.dependents, root.spec.name) == ["join"]


async def test_changes_of_dependencies_wait_for_each_other(postgres: PostgresDatabase) -> None:
    order = []

    async def second() -> None:
        await postgres.write(dependency.lock)
        order.append("second")

    async with trio.open_nursery() as nursery, held_open(postgres, dependency.lock):
        nursery.start_soon(second)
        await wait_for_lock(postgres)
        order.append("first")
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("names", "known"),
    [
        ([], set()),
        (["plain", "missing"], {"plain"}),
        (['q"uote', "back\\slash", "com,ma", "{brace}", "NULL", "new\nline", "ü-日本-📈", "it's", " "], None),
        (['"', '","', "\\", '\\"', "plain"], None),
    ],
)
async def test_names_with_any_characters_are_found(
    database: Database, names: list[str], known: set[str] | None
) -> None:
    expected = set(names) - {" "} if known is None else known
    for name in expected:
        await add_job(database, name)
    assert await write(database, job_table.known_names, names) == expected
    jobs = await write(database, job_table.of_names, names)
    assert {name: job.spec.name for name, job in jobs.items()} == {name: name for name in expected}


async def test_jobs_of_a_function_are_those_that_code_made(database: Database) -> None:
    async def add(name: str, function: str, origin: str = ORIGIN_CODE) -> str:
        wish = parse_job({"name": name, "type": "python", "function": function}, now=0)
        await write(database, job_table.add, {fresh("job"): wish}, origin, 0)
        return name

    mine = await add("mine", "reports.daily_x")
    await add("longer", "reports.daily_xy")
    await add("wildcard", "reports.dailyAx")
    await add("from_file", "reports.daily_x", ORIGIN_FILE)
    found = await write(database, job_table.with_function, "reports.daily_x")
    assert [job.spec.name for job in found] == [mine]


async def test_a_new_schedule_begins_with_its_first_slot(database: Database) -> None:
    stamp = await now(database)
    job = await add_job(database, "report", schedule={**EVERY_MINUTE, "jitter": "30s"})
    assert job.next_slot_at is not None
    assert stamp < job.next_slot_at <= stamp + 61 * SECOND
    assert job.next_slot_at % (60 * SECOND) == 0
    assert job.spec.schedule is not None
    due = job.next_slot_at + jitter_us(job.spec.schedule, job.next_slot_at, job.id)
    assert await rows(database, "SELECT next_due_at FROM job") == [(due,)]


@pytest.mark.parametrize("fields", [{}, {"schedule": EVERY_MINUTE, "enabled": False}])
async def test_what_has_no_slot_is_never_due(database: Database, fields: dict[str, Any]) -> None:
    job = await add_job(database, "report", **fields)
    assert job.next_slot_at is None
    assert await rows(database, "SELECT next_due_at FROM job") == [(None,)]
    assert await database.read(lambda tx: tx.rows(job_table.SQL.due, most=10)) == []


async def _due_job(database: Database, name: str = "report", late: int = SECOND) -> dict[str, Any]:
    """A job whose slot came ``late`` ago: what the scheduler sees of it."""
    job = await add_job(database, name, schedule=EVERY_MINUTE)
    slot = await now(database) - late
    await execute(
        database, "UPDATE job SET next_slot_at = :slot, next_due_at = :slot WHERE id = :id", slot=slot, id=job.id
    )
    return {"id": job.id, "revision": job.revision, "slot_at": slot}


async def test_due_jobs_come_the_longest_overdue_first(database: Database) -> None:
    late, later = await _due_job(database, "late"), await _due_job(database, "later", 9 * SECOND)
    await add_job(database, "not-yet", schedule={"cron": "0 0 1 1 *"})

    async def due(most: int) -> list[tuple[Any, ...]]:
        return await database.read(lambda tx: tx.rows(job_table.SQL.due, most=most))

    assert [row[:4] for row in await due(10)] == [(seen["id"], 1, seen["slot_at"], 0) for seen in (later, late)]
    assert [row[0] for row in await due(1)] == [later["id"]]
    assert await database.read(lambda tx: tx.one(job_table.SQL.next_due)) == (later["slot_at"],)


async def test_the_scheduler_that_saw_the_slot_moves_it_on_once(database: Database) -> None:
    seen = await _due_job(database)
    step = {**seen, "next_slot_at": 60 * SECOND, "next_due_at": 61 * SECOND}
    assert await write(database, _advance, step) == 1
    assert await write(database, _advance, step) == 0
    assert (await stored_job(database, "report")).next_slot_at == 60 * SECOND
    assert await rows(database, "SELECT next_due_at, revision FROM job") == [(61 * SECOND, 1)]


def _advance(tx: Tx, step: dict[str, Any]) -> int:
    return tx.count(job_table.SQL.advance, **step)


@pytest.mark.parametrize("verb", ["advance", "dispatch_failed", "give_up_slot"])
@pytest.mark.parametrize("stale", [{"slot_at": 1}, {"revision": 2}, {"id": "job-nowhere"}])
async def test_a_slot_seen_wrongly_moves_nothing(database: Database, verb: str, stale: dict[str, Any]) -> None:
    seen = await _due_job(database)
    before = await rows(database, "SELECT * FROM job")
    more: dict[str, dict[str, Any]] = {
        "advance": {"next_slot_at": 5, "next_due_at": 5},
        "dispatch_failed": {"alarm": "why", "wait_us": SECOND},
        "give_up_slot": {"next_slot_at": 5, "next_due_at": 5, "alarm": "why"},
    }
    statement = getattr(job_table.SQL, verb)
    step = {**seen, **stale, **more[verb]}
    assert await database.write(lambda tx: tx.count(statement, **step)) == 0
    assert await rows(database, "SELECT * FROM job") == before


async def test_a_failed_dispatch_is_counted_and_tried_later(database: Database) -> None:
    seen = await _due_job(database)
    stamp = await now(database)
    for count in (1, 2):
        await database.write(lambda tx: tx.count(job_table.SQL.dispatch_failed, **seen, alarm="why", wait_us=SECOND))
        job = await stored_job(database, "report")
        assert (job.dispatch_failures, job.alarm, job.next_slot_at) == (count, "why", seen["slot_at"])
    [(due,)] = await rows(database, "SELECT next_due_at FROM job")
    assert due >= stamp + SECOND
    await write(database, _advance, {**seen, "next_slot_at": None, "next_due_at": None})
    job = await stored_job(database, "report")
    assert (job.dispatch_failures, job.alarm, job.next_slot_at) == (0, None, None)


async def test_jobs_are_listed_page_by_page_in_any_order(database: Database) -> None:
    for name in ("b", "a", "c"):
        await add_job(database, name, schedule={"cron": "0 0 1 1 *"} if name == "c" else None, queue=f"q-{name}")

    async def names(sort: str = "name", most: int = 10, skip: int = 0) -> tuple[list[str], int]:
        page = await database.read(lambda tx: job_table.list_jobs(tx, [], {}, sort=sort, most=most, skip=skip))
        return [job.spec.name for job in page.jobs], page.total

    assert await names() == (["a", "b", "c"], 3)
    assert await names("-name", most=2) == (["c", "b"], 3)
    assert await names("created_at") == (["b", "a", "c"], 3)
    assert await names("-created_at", skip=1) == (["a", "b"], 3)
    assert await names("next_run") == (["c", "a", "b"], 3), "what will not run comes last, either way"
    assert await names("-next_run") == (["c", "a", "b"], 3)
    assert await names(skip=9) == ([], 3)
    for sort in job_table.SORTS:
        assert len((await names(sort))[0]) == 3


async def test_conditions_narrow_the_list_and_its_count(database: Database) -> None:
    await add_job(database, "a", queue="x")
    await add_job(database, "b", queue="y")
    gone = await add_job(database, "gone", queue="x")
    await write(database, job_table.remove, gone.id)
    page = await database.read(
        lambda tx: job_table.list_jobs(tx, ["queue = :queue"], {"queue": "x"}, sort="name", most=1, skip=0)
    )
    assert ([job.spec.name for job in page.jobs], page.total) == (["a"], 1)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"name": "x"}', '{"type":"shell","command":"a","new":1}'])
async def test_a_definition_that_cannot_be_read_spoils_no_other(database: Database, text: str) -> None:
    broken = await add_job(database, "broken")
    fine = await add_job(database, "fine")
    await execute(database, "UPDATE job SET spec = :text WHERE id = :id", text=text, id=broken.id)
    jobs, reasons = job_table.readable(await database.read(job_table.all_jobs))
    assert [job.id for job in jobs] == [fine.id]
    assert list(reasons) == [broken.id]
    assert "cannot be read" in reasons[broken.id]
    with pytest.raises(Invalid):
        await write(database, job_table.find, "broken")
    page = await database.read(lambda tx: job_table.list_jobs(tx, [], {}, sort="name", most=9, skip=0))
    assert ([job.id for job in page.jobs], list(page.broken), page.total) == ([fine.id], [broken.id], 2)


async def test_what_was_written_since_is_told_with_what_was_removed(database: Database) -> None:
    old = await add_job(database, "old")
    await execute(database, "UPDATE job SET updated_at = 5")
    changed, gone = await add_job(database, "changed"), await add_job(database, "gone")
    await write(database, job_table.remove, gone.id)
    found = await write(database, job_table.changed_since, 6)
    assert {row[0]: job_table.is_removed(row) for row in found} == {changed.id: False, gone.id: True}
    assert {row[0] for row in await write(database, job_table.changed_since, 5)} == {old.id, changed.id, gone.id}


@pytest.mark.parametrize("lock", [job_table.STAY, job_table.ALONE, job_table.GO])
async def test_a_held_job_is_not_removed_meanwhile(postgres: PostgresDatabase, lock: str) -> None:
    job = await add_job(postgres)
    order = []

    async def remove() -> None:
        def work(tx: Tx) -> None:
            job_table.find(tx, job.id, lock=job_table.GO)
            job_table.remove(tx, job.id)

        await postgres.write(work)
        order.append("removed")

    async with (
        trio.open_nursery() as nursery,
        held_open(postgres, lambda tx: job_table.find(tx, job.id, lock=lock)) as held,
    ):
        assert held == job
        nursery.start_soon(remove)
        await wait_for_lock(postgres)
        order.append("done")
    assert order == ["done", "removed"]


async def test_figures_over_all_jobs(database: Database) -> None:
    await add_job(database, "off", enabled=False)
    job = await add_job(database, "on", priority=Priority.LOW.value)
    await execute(database, "UPDATE job SET alarm = 'why' WHERE id = :id", id=job.id)
    await write(database, run_table.add, [new_run(job.id)])
    counts = attrs.asdict(await database.read(job_table.counts))
    assert (counts["total"], counts["disabled"], counts["alarmed"]) == (2, 1, 1)
