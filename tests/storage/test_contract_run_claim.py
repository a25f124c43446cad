"""Claiming: who gets which runs, in which order, and who gets none."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from tests.storage.stage import (
    HOUR,
    SECOND,
    add_run,
    add_runs,
    claim,
    claimed_run,
    ending,
    execute,
    held_open,
    new_run,
    now,
    register,
    run_in,
    stored_run,
    write,
)
from trisched.domain.lifecycle import Move
from trisched.domain.run import PRIORITY_CLASS, Priority, RunStatus
from trisched.storage.database import Database
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table


async def test_a_claim_makes_the_run_the_nodes_own(database: Database) -> None:
    await register(database)
    run_id = await add_run(
        database, parameters='{"a":1}', overrides='{"timeout":5}', retries=7, key="k", slot_at=12, reason="old"
    )
    before = await now(database)
    [held] = await claim(database, claim_id="claim-x")
    run = await stored_run(database, run_id)
    assert (run.status, run.claim_id, run.node_id, run.incarnation) == (
        RunStatus.RUNNING,
        "claim-x",
        "node-a",
        "a-1",
    )
    assert (run.attempt, run.token, run.reason, run.finished_at) == (1, 1, None, None)
    assert run.started_at is not None
    assert before <= run.started_at <= await now(database)
    assert (held.id, held.job_id, held.parameters, held.overrides) == (
        run_id,
        "job-1",
        '{"a":1}',
        '{"timeout":5}',
    )
    assert (held.retries, held.attempt, held.failures, held.token) == (7, 1, 0, 1)
    assert (held.claim_id, held.slot_at, held.key, held.started_at) == ("claim-x", 12, "k", run.started_at)


async def test_more_urgent_runs_come_first_and_equal_ones_in_order_of_arrival(database: Database) -> None:
    await register(database)
    stamp = await now(database)
    classes = [PRIORITY_CLASS[word] for word in (Priority.LOW, Priority.HIGH, Priority.NORMAL, Priority.HIGH)]
    low, high, normal, later = await add_runs(database, [new_run(priority=number, due_at=stamp) for number in classes])
    critical = await add_run(database, priority=0)
    assert [held.id for held in await claim(database)] == [critical, high, later, normal, low]


@pytest.mark.parametrize(("waited", "first"), [(3 * HOUR - SECOND, "critical"), (3 * HOUR + SECOND, "low")])
async def test_an_hour_of_waiting_is_worth_one_class(database: Database, waited: int, first: str) -> None:
    await register(database)
    stamp = await now(database)
    names = {
        await add_run(database, priority=3, due_at=stamp - waited): "low",
        await add_run(database, priority=0, due_at=stamp): "critical",
    }
    [held] = await claim(database, most=1)
    assert names[held.id] == first


async def test_a_claim_takes_at_most_what_was_asked_for(database: Database) -> None:
    await register(database)
    ids = await add_runs(database, [new_run() for _ in range(5)])
    assert [held.id for held in await claim(database, most=2)] == ids[:2]
    assert await claim(database, most=0) == []
    assert [held.id for held in await claim(database)] == ids[2:]
    assert await claim(database) == []


async def test_a_claim_looks_at_its_own_queue_only(database: Database) -> None:
    await register(database)
    await add_run(database, queue="other")
    mine = await add_run(database, queue="mine")
    assert [held.id for held in await claim(database, queue="mine")] == [mine]


async def test_runs_of_excluded_jobs_are_left_for_others(database: Database) -> None:
    await register(database)
    await add_runs(database, [new_run("job-x"), new_run("job-'y\"")])
    fine = await add_run(database, job_id="job-z")
    assert [held.id for held in await claim(database, excluded=["job-x", "job-'y\""])] == [fine]
    assert len(await claim(database)) == 2


@pytest.mark.parametrize("status", [status for status in RunStatus if status is not RunStatus.QUEUED])
async def test_only_queued_runs_are_claimed(database: Database, status: RunStatus) -> None:
    await register(database)
    run = await run_in(database, status)
    assert await claim(database, queue=run.queue) == []
    assert await stored_run(database, run.id) == run


async def test_a_node_without_a_row_gets_nothing(database: Database) -> None:
    await add_run(database)
    assert await claim(database) == []


async def test_a_node_whose_lease_is_over_gets_nothing(database: Database) -> None:
    await register(database, lease_us=-1)
    await add_run(database)
    assert await claim(database) == []


async def test_a_draining_node_gets_nothing(database: Database) -> None:
    await register(database)
    await add_run(database)
    await write(database, node_table.drain, "node-a")
    assert await claim(database) == []


async def test_an_earlier_incarnation_gets_nothing(database: Database) -> None:
    await register(database, incarnation="a-0", lease_us=-1)
    await register(database, incarnation="a-1")
    await add_run(database)
    assert await claim(database, incarnation="a-0") == []
    assert len(await claim(database, incarnation="a-1")) == 1


async def test_every_claim_of_a_run_has_a_higher_token(database: Database) -> None:
    held = await claimed_run(database)
    await write(database, run_table.end_attempt, ending(held, Move.LOSE))
    [again] = await claim(database)
    assert (again.token, again.attempt, again.id) == (held.token + 1, 2, held.id)


async def test_a_whole_claim_is_given_back_without_costing_an_attempt(database: Database) -> None:
    await register(database)
    ids = await add_runs(database, [new_run() for _ in range(3)])
    first = await claim(database, claim_id="mine", most=2)
    [other] = await claim(database, claim_id="another")
    await write(database, run_table.give_back, "mine")
    for held in first:
        run = await stored_run(database, held.id)
        assert (run.status, run.claim_id, run.attempt, run.token) == (RunStatus.QUEUED, None, 0, 1)
    assert (await stored_run(database, other.id)).status is RunStatus.RUNNING
    assert [held.id for held in await claim(database)] == ids[:2], "their place in line is the old one"


async def test_one_run_of_a_claim_is_given_back(database: Database) -> None:
    await register(database)
    await add_runs(database, [new_run() for _ in range(2)])
    gone, kept = await claim(database)
    await write(database, run_table.give_back_run, gone)
    run = await stored_run(database, gone.id)
    assert (run.status, run.claim_id, run.attempt) == (RunStatus.QUEUED, None, 0)
    assert (await stored_run(database, kept.id)).status is RunStatus.RUNNING


async def test_what_was_claimed_again_is_not_given_back_by_the_first_holder(database: Database) -> None:
    held = await claimed_run(database)
    await write(database, run_table.end_attempt, ending(held, Move.LOSE))
    [again] = await claim(database)
    run = await stored_run(database, held.id)
    await write(database, run_table.give_back, held.claim_id)
    await write(database, run_table.give_back_run, held)
    assert await stored_run(database, held.id) == run
    assert run.claim_id == again.claim_id


async def test_claims_at_the_same_time_pass_each_other_without_waiting(postgres: PostgresDatabase) -> None:
    """The first claim is held open until the second is through."""
    await register(postgres)
    ids = await add_runs(postgres, [new_run() for _ in range(6)])
    first = partial(
        run_table.claim, queue="default", node_id="node-a", incarnation="a-1", claim_id="1", most=3, excluded=[]
    )
    async with held_open(postgres, first) as held:
        others = await claim(postgres, most=3)
    assert [run.id for run in held] + [run.id for run in others] == ids


async def test_many_claimers_never_get_the_same_run(schema_dsn: str, postgres: PostgresDatabase) -> None:
    other = PostgresDatabase(schema_dsn, "there")
    await other.open()
    await register(postgres)
    ids = await add_runs(postgres, [new_run() for _ in range(300)])
    got: list[str] = []

    async def drain(store: Database, name: str) -> None:
        number = 0
        while len(got) < len(ids):
            number += 1
            got.extend(held.id for held in await claim(store, claim_id=f"{name}-{number}", most=7))

    async with trio.open_nursery() as nursery:
        for number in range(2):
            nursery.start_soon(drain, postgres, f"here-{number}")
            nursery.start_soon(drain, other, f"there-{number}")
    await other.close()
    assert sorted(got) == ids


async def test_a_paused_queue_is_passed_over(database: Database) -> None:
    await execute(database, "INSERT INTO queue (name, paused_at) VALUES ('open', NULL), ('shut', 1), ('idle', NULL)")
    stamp = await now(database)
    await add_runs(database, [new_run(queue="open", due_at=stamp), new_run(queue="shut", due_at=stamp)])
    heads = await database.read(lambda tx: tx.rows(run_table.SQL.queue_heads))
    assert heads == [("open", stamp + 2 * HOUR)]
