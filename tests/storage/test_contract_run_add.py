"""Making runs: what is stored, what a slot or a key forbids, and who is told."""

from __future__ import annotations

import attrs
import pytest

from tests.storage.stage import HOUR, add_job, add_run, add_runs, execute, new_run, now, rows, run_in, stored_run, write
from trisched.domain.run import ACTIVE, FINISHED, WAITS_OVERLAP, Run, RunStatus
from trisched.storage.database import Database, Duplicate, Tx
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.run import NewRun
from trisched.storage.wakeup import DUE


async def _topics(database: Database, runs: list[NewRun]) -> set[str]:
    told: set[str] = set()
    with database.wakeups.listening(told.add):
        await write(database, run_table.add, runs)
    return told


async def test_a_run_is_stored_as_it_was_given(database: Database) -> None:
    fresh = new_run(
        queue="q", priority=0, parameters='{"ü":"\\u0000"}', retries=9, origin="trigger", due_at=77, slot_at=-5,
        key="k'\"\\", overrides="{}", waits=WAITS_OVERLAP, reason="because", status=RunStatus.PENDING,
    )  # fmt: skip
    before = await now(database)
    await write(database, run_table.add, [fresh])
    run = await stored_run(database, fresh.id)
    given = attrs.asdict(fresh)
    assert {name: getattr(run, name) for name in given} == given
    assert (run.attempt, run.failures, run.crashes, run.token) == (0, 0, 0, 0)
    assert (run.claim_id, run.node_id, run.incarnation, run.started_at, run.finished_at) == (None,) * 5
    assert before <= run.created_at <= await now(database)


async def test_a_run_without_a_time_is_due_now_by_the_databases_clock(database: Database) -> None:
    run = await stored_run(database, await add_run(database, priority=3))
    assert run.due_at == run.created_at
    assert await rows(database, "SELECT rank FROM run") == [(run.due_at + 3 * HOUR,)]


async def test_a_run_that_is_born_finished_has_an_end(database: Database) -> None:
    run = await stored_run(database, await add_run(database, status=RunStatus.SKIPPED, reason="misfire"))
    assert (run.finished_at, run.reason) == (run.created_at, "misfire")


async def test_many_alike_differ_in_id_and_parameters_alone(database: Database) -> None:
    model, other = new_run(retries=1), new_run("job-2", queue="other")
    groups = [(model, ["run-x1", "run-x2"], ['{"n":1}', '{"n":2}']), (other, ["run-y"], ["{}"])]
    told: set[str] = set()
    with database.wakeups.listening(told.add):
        await write(database, run_table.add_alike, groups, await now(database))
    first, second = [await stored_run(database, run_id) for run_id in ("run-x1", "run-x2")]
    assert (first.parameters, second.parameters) == ('{"n":1}', '{"n":2}')
    assert attrs.evolve(first, id="", parameters="") == attrs.evolve(second, id="", parameters="")
    assert (first.job_id, first.retries, first.status) == ("job-1", 1, RunStatus.QUEUED)
    assert (await stored_run(database, "run-y")).queue == "other"
    assert told == {"queue:default", "queue:other"}


async def test_nothing_of_a_batch_is_stored_when_one_of_it_cannot_be(database: Database) -> None:
    taken = await add_run(database)
    with pytest.raises(Duplicate):
        await write(database, run_table.add, [new_run(), new_run(id=taken)])
    assert await rows(database, "SELECT count(*) FROM run") == [(1,)]


async def test_workers_are_woken_for_what_is_queued_and_the_scheduler_for_what_waits(database: Database) -> None:
    queued = [new_run(queue="a"), new_run(queue="b"), new_run(queue="a")]
    assert await _topics(database, queued) == {"queue:a", "queue:b"}
    assert await _topics(database, [new_run(status=RunStatus.PENDING)]) == {DUE}
    assert await _topics(database, [new_run(status=RunStatus.SKIPPED)]) == set()


async def test_all_runs_of_free_slots_and_keys_are_added(database: Database) -> None:
    runs = [new_run(slot_at=1), new_run(slot_at=2), new_run(key="a"), new_run()]
    assert await write(database, run_table.add_missing, runs) == {run.id for run in runs}


async def test_a_slot_makes_at_most_one_run(database: Database) -> None:
    await write(database, run_table.add_missing, [new_run(slot_at=10)])
    fresh = [new_run(slot_at=10), new_run(slot_at=20), new_run("job-2", slot_at=10), new_run(slot_at=20)]
    told: list[str] = []
    with database.wakeups.listening(told.append):
        assert await write(database, run_table.add_missing, fresh) == {fresh[1].id, fresh[2].id}
    assert told == ["queue:default"]
    assert await rows(database, "SELECT count(*) FROM run") == [(3,)]


async def test_nobody_is_woken_when_every_slot_is_taken(database: Database) -> None:
    await write(database, run_table.add_missing, [new_run(slot_at=10)])
    told: list[str] = []
    with database.wakeups.listening(told.append):
        assert await write(database, run_table.add_missing, [new_run(slot_at=10)]) == set()
    assert told == []


@pytest.mark.parametrize("status", RunStatus)
async def test_a_slot_stays_taken_for_ever(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status, slot_at=10)
    assert await write(database, run_table.add_missing, [new_run(slot_at=10)]) == set()
    assert await stored_run(database, run.id) == run


async def test_a_key_stands_for_one_run_of_a_job(database: Database) -> None:
    [first] = await write(database, run_table.add_missing, [new_run(key="k", parameters='{"a":1}')])
    fresh = [new_run(key="k"), new_run("job-2", key="k"), new_run(key="other")]
    assert await write(database, run_table.add_missing, fresh) == {fresh[1].id, fresh[2].id}
    found = await write(database, run_lookup.with_keys, "job-1", ["k", "other", "missing"])
    assert {key: keyed.id for key, keyed in found.items()} == {"k": first, "other": fresh[2].id}
    assert (found["k"].status, found["k"].parameters) == (RunStatus.QUEUED, '{"a":1}')


async def test_a_dropped_key_is_free_again(database: Database) -> None:
    await write(database, run_table.add_missing, [new_run(key="k")])
    keyed = (await write(database, run_lookup.with_keys, "job-1", ["k"]))["k"]
    await write(database, run_lookup.drop_key, keyed)
    again = new_run(key="k")
    assert await write(database, run_table.add_missing, [again]) == {again.id}
    await write(database, run_lookup.drop_key, keyed)
    assert (await stored_run(database, again.id)).key == "k", "only the run that was seen loses its key"


@pytest.mark.parametrize("status", RunStatus)
async def test_a_trigger_finds_an_equal_run_that_waits_or_runs(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status, parameters='{"a":1}')
    found = await write(database, run_lookup.active_like, "job-1", '{"a":1}')
    assert found == ((run.id, status) if status in ACTIVE else None)
    assert await write(database, run_lookup.active_like, "job-1", "{}") is None
    assert await write(database, run_lookup.active_like, "job-2", '{"a":1}') is None


async def test_a_trigger_does_not_join_a_run_that_is_to_stop(database: Database) -> None:
    run = await run_in(database, RunStatus.RUNNING)
    await write(database, run_table.cancel, run.id, "why")
    assert await write(database, run_lookup.active_like, "job-1", "{}") is None


@pytest.mark.parametrize("status", RunStatus)
async def test_overlap_looks_at_runs_that_are_not_over(database: Database, status: RunStatus) -> None:
    run = await run_in(database, status)

    def work(tx: Tx) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        return (
            tx.rows(run_table.SQL.active_jobs, jobs=["job-1", "job-2"]),
            tx.rows(run_table.SQL.active_of_job, job_id="job-1"),
        )

    jobs, runs = await database.read(work)
    assert jobs == ([("job-1",)] if status in ACTIVE else [])
    assert runs == ([(run.id, status.value)] if status in ACTIVE else [])


async def test_an_unknown_run_is_none(database: Database) -> None:
    assert await write(database, run_table.get, "run-nowhere") is None


async def test_runs_are_listed_the_newest_first(database: Database) -> None:
    ids = await add_runs(database, [new_run(), new_run("job-2"), new_run()])

    async def listed(conditions: list[str], most: int = 10, **parameters: object) -> list[str]:
        found: list[Run] = await write(database, run_lookup.list_runs, conditions, parameters, most)
        return [run.id for run in found]

    assert await listed([]) == ids[::-1]
    assert await listed([], most=2) == [ids[2], ids[1]]
    assert await listed(["job_id = :job"], job="job-1") == [ids[2], ids[0]]
    assert await listed(["job_id = :job", "id < :before"], job="job-1", before=ids[2]) == [ids[0]]


async def test_the_last_run_of_each_job(database: Database) -> None:
    one, two, none, other = [(await add_job(database, name)).id for name in ("one", "two", "none", "other")]
    ids = await add_runs(database, [new_run(one), new_run(two), new_run(one), new_run(other)])
    last = await write(database, run_lookup.last_of_jobs, [one, two, none, "job-nowhere"])
    assert {job: run.id for job, run in last.items()} == {one: ids[2], two: ids[1]}
    assert await write(database, run_lookup.last_of_jobs, []) == {}


async def test_the_newest_runs_of_a_job_with_their_times(database: Database) -> None:
    for status in (RunStatus.COMPLETED, RunStatus.SKIPPED, RunStatus.RUNNING):
        await run_in(database, status)
    await run_in(database, RunStatus.DEAD, job_id="job-2")
    newest = await write(database, run_lookup.recent_of_job, "job-1", 2)
    assert [status for status, _, _ in newest] == [RunStatus.RUNNING, RunStatus.SKIPPED]
    [(_, started, finished), (_, never, skipped)] = newest
    assert (started is None, finished, never, skipped is None) == (False, None, None, False)


async def test_what_ended_lately_is_counted_by_status(database: Database) -> None:
    old = await run_in(database, RunStatus.COMPLETED)
    await execute(database, "UPDATE run SET finished_at = 5 WHERE id = :id", id=old.id)
    runs = [await run_in(database, status) for status in (RunStatus.COMPLETED, RunStatus.DEAD, RunStatus.DEAD)]
    await run_in(database, RunStatus.RETRYING)
    assert await write(database, run_lookup.finished_since, 6, "") == {RunStatus.COMPLETED: 1, RunStatus.DEAD: 2}
    assert await write(database, run_lookup.finished_since, 6, runs[2].id) == {RunStatus.DEAD: 1}


async def test_what_is_not_over_is_counted_by_queue_and_status(database: Database) -> None:
    runs = [await run_in(database, status) for status in RunStatus]
    counts = await write(database, run_lookup.unfinished)
    assert counts == {(run.queue, run.status): 1 for run in runs if run.status not in FINISHED}
