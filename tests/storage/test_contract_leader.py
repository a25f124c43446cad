"""The row that says who leads: one at a time, in epochs that only grow, and a stale leader writes nothing."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from tests.storage.stage import LEASE, add_run, execute, held_open, new_run, now, rows, wait_for_lock, write
from trisched.storage.database import Database, Tx
from trisched.storage.postgres import PostgresDatabase
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.leader import Deposed, Leader


async def _take(
    database: Database, epoch: int, who: str = "a", *, lease_us: int = LEASE, only_one: bool = False
) -> bool:
    return await write(
        database,
        leader_table.take,
        epoch=epoch,
        node_id=f"node-{who}",
        incarnation=f"{who}-1",
        lease_us=lease_us,
        only_one=only_one,
    )


async def _renew(database: Database, epoch: int, who: str = "a", lease_us: int = LEASE) -> bool:
    return await write(database, leader_table.renew, epoch=epoch, incarnation=f"{who}-1", lease_us=lease_us)


async def _seen(database: Database) -> Leader:
    return await database.read(leader_table.seen)


async def test_nobody_leads_at_first(database: Database) -> None:
    leader = await _seen(database)
    assert (leader.epoch, leader.node_id, leader.incarnation, leader.alive) == (0, None, None, False)


async def test_a_candidate_leads_in_a_new_epoch(database: Database) -> None:
    stamp = await now(database)
    assert await _take(database, 0)
    leader = await _seen(database)
    assert (leader.epoch, leader.node_id, leader.incarnation, leader.alive) == (1, "node-a", "a-1", True)
    assert stamp + LEASE <= leader.until <= leader.now + LEASE


@pytest.mark.parametrize("epoch", [0, 1, 2])
async def test_a_second_candidate_is_refused_while_the_first_leads(database: Database, epoch: int) -> None:
    await _take(database, 0)
    assert not await _take(database, epoch, "b")
    assert (await _seen(database)).node_id == "node-a"


async def test_an_ended_lease_is_taken_over_once(database: Database) -> None:
    await _take(database, 0, "a", lease_us=-1)
    assert not await _take(database, 0, "b"), "what it saw is too old"
    assert await _take(database, 1, "b")
    assert not await _take(database, 1, "c")
    leader = await _seen(database)
    assert (leader.epoch, leader.node_id) == (2, "node-b")


async def test_where_one_node_can_live_it_need_not_wait_for_the_lease(database: Database) -> None:
    await _take(database, 0, "a")
    assert not await _take(database, 0, "b", only_one=True)
    assert await _take(database, 1, "b", only_one=True)


async def test_a_leader_renews_without_a_new_epoch(database: Database) -> None:
    await _take(database, 0, lease_us=-1)
    assert await _renew(database, 1)
    leader = await _seen(database)
    assert (leader.epoch, leader.alive) == (1, True)


@pytest.mark.parametrize(("epoch", "who"), [(1, "a"), (2, "a"), (1, "b"), (3, "b")])
async def test_a_stale_renewal_is_refused(database: Database, epoch: int, who: str) -> None:
    await _take(database, 0, "a", lease_us=-1)
    await _take(database, 1, "b")
    before = await rows(database, "SELECT * FROM cluster")
    assert not await _renew(database, epoch, who)
    assert await rows(database, "SELECT * FROM cluster") == before


async def test_who_resigns_lets_others_lead_at_once(database: Database) -> None:
    await _take(database, 0)
    await write(database, leader_table.resign, epoch=1, incarnation="a-1")
    assert not (await _seen(database)).alive
    assert await _take(database, 1, "b")


@pytest.mark.parametrize(("epoch", "incarnation"), [(0, "a-1"), (1, "b-1"), (2, "a-1")])
async def test_only_the_leader_resigns(database: Database, epoch: int, incarnation: str) -> None:
    await _take(database, 0)
    await write(database, leader_table.resign, epoch=epoch, incarnation=incarnation)
    assert (await _seen(database)).alive


async def test_the_guard_lets_the_leader_write(database: Database) -> None:
    await _take(database, 0)
    await write(database, leader_table.guard, 1)


@pytest.mark.parametrize("epoch", [0, 2])
async def test_the_guard_stops_every_other_epoch(database: Database, epoch: int) -> None:
    await _take(database, 0)
    with pytest.raises(Deposed):
        await write(database, leader_table.guard, epoch)


async def test_the_guard_stops_a_leader_whose_lease_is_over(database: Database) -> None:
    await _take(database, 0, lease_us=-1)
    with pytest.raises(Deposed):
        await write(database, leader_table.guard, 1)


async def test_nothing_of_a_deposed_leader_is_stored(database: Database) -> None:
    def work(tx: Tx) -> None:
        run_table.add(tx, [new_run()])
        leader_table.guard(tx, 7)

    told: list[str] = []
    with database.wakeups.listening(told.append), pytest.raises(Deposed):
        await database.write(work)
    assert (await rows(database, "SELECT count(*) FROM run"), told) == ([(0,)], [])


async def test_a_successor_waits_for_the_write_under_way(postgres: PostgresDatabase) -> None:
    """A leader checks its epoch, then writes: nobody may take over in between."""
    await _take(postgres, 0)
    order = []

    async def succeed() -> None:
        assert await _take(postgres, 1, "b", only_one=True)
        order.append("successor")

    async with trio.open_nursery() as nursery, held_open(postgres, partial(leader_table.guard, epoch=1)):
        nursery.start_soon(succeed)
        await wait_for_lock(postgres)
        order.append("write")
    assert order == ["write", "successor"]
    await add_run(postgres)
    assert await execute(postgres, "DELETE FROM run") == 1
