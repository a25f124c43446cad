"""The node table: one living process for each id, judged by the database's clock alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.stage import LEASE, SECOND, claim, claimed_run, execute, now, register, registration, write
from trisched.domain.node import LeaseTimes, Node
from trisched.storage.database import Database
from trisched.storage.tables import node as node_table


async def _node(database: Database, node_id: str = "node-a") -> Node:
    node = await write(database, node_table.find, node_id)
    assert node is not None
    return node


async def _beat(database: Database, nonce: str, nonces: list[str], incarnation: str = "a-1") -> bool:
    return await write(database, node_table.beat, "node-a", incarnation, nonce=nonce, nonces=nonces, lease_us=LEASE)


async def test_a_node_is_stored_as_it_says(database: Database) -> None:
    wish = registration(
        host="höst", pid=4_000_000, version="1.2", tags=("gpu", 'a"b'), queues=("q", "*"), concurrency=0
    )
    stamp = await now(database)
    assert await write(database, node_table.register, wish, nonce="n", lease_us=15 * SECOND, dead=None)
    node = await _node(database)
    assert (node.id, node.incarnation, node.host, node.pid) == ("node-a", "a-1", "höst", 4_000_000)
    assert (node.version, node.tags, node.queues, node.concurrency) == ("1.2", ("gpu", 'a"b'), ("q", "*"), 0)
    assert stamp <= node.started_at <= await now(database)
    assert (node.last_seen_at >= stamp, node.draining_at) == (True, None)
    assert stamp + 15 * SECOND <= node.lease_until <= await now(database) + 15 * SECOND


async def test_a_living_node_keeps_its_id(database: Database) -> None:
    assert await register(database, incarnation="a-1")
    before = await _node(database)
    assert not await register(database, incarnation="a-2")
    assert not await register(database, incarnation="a-1"), "not even to itself: it registers once"
    assert await _node(database) == before


async def test_an_id_is_free_when_the_lease_is_over(database: Database) -> None:
    await register(database, incarnation="a-1", lease_us=-1)
    await write(database, node_table.drain, "node-a")
    assert await register(database, incarnation="a-2")
    node = await _node(database)
    assert (node.incarnation, node.draining_at) == ("a-2", None)


async def test_an_id_is_free_when_its_holder_is_known_to_be_dead(database: Database) -> None:
    await register(database, incarnation="a-1")
    wish = registration(incarnation="a-2")
    assert not await write(database, node_table.register, wish, nonce="n", lease_us=LEASE, dead="a-0")
    assert await write(database, node_table.register, wish, nonce="n", lease_us=LEASE, dead="a-1")
    assert (await _node(database)).incarnation == "a-2"


async def test_an_id_is_free_when_its_holder_left(database: Database) -> None:
    await register(database)
    await write(database, node_table.leave, "node-a", "a-1")
    assert (await _node(database)).lease_until == 0
    assert await register(database, incarnation="a-2")


async def test_who_was_replaced_cannot_leave_for_the_other(database: Database) -> None:
    await register(database, incarnation="a-2")
    await write(database, node_table.leave, "node-a", "a-1")
    assert (await _node(database)).lease_until > 0


async def test_a_beat_renews_the_lease(database: Database) -> None:
    await register(database, lease_us=SECOND)
    stamp = await now(database)
    assert await _beat(database, "n-1", ["a-1-0"])
    node = await _node(database)
    assert node.lease_until >= stamp + LEASE
    assert node.last_seen_at >= stamp


async def test_a_late_beat_is_good_while_nobody_took_over(database: Database) -> None:
    await register(database, lease_us=-1)
    assert await _beat(database, "n-1", ["a-1-0"])


async def test_a_beat_whose_answer_got_lost_does_not_look_like_another_me(database: Database) -> None:
    await register(database)
    assert await _beat(database, "n-1", ["a-1-0"])
    assert await _beat(database, "n-2", ["a-1-0", "n-1"])
    assert await _beat(database, "n-3", ["n-2"])


async def test_a_copy_of_a_node_is_told_apart(database: Database) -> None:
    """Two processes with one incarnation, as after the copy of a virtual machine: one of them beats first."""
    await register(database)
    assert await _beat(database, "one", ["a-1-0"])
    before = await _node(database)
    assert not await _beat(database, "two", ["a-1-0"])
    assert not await _beat(database, "three", [])
    assert await _node(database) == before


async def test_who_was_replaced_cannot_beat(database: Database) -> None:
    await register(database, incarnation="a-1", lease_us=-1)
    await register(database, incarnation="a-2")
    assert not await _beat(database, "n-1", ["a-1-0", "a-2-0"], incarnation="a-1")


async def test_draining_is_asked_for_once(database: Database) -> None:
    await register(database)
    assert await write(database, node_table.drain, "node-a")
    since = (await _node(database)).draining_at
    assert since is not None
    assert not await write(database, node_table.drain, "node-a")
    assert not await write(database, node_table.drain, "node-nowhere")
    assert (await _node(database)).draining_at == since


async def test_all_nodes_are_listed_by_id(database: Database) -> None:
    await register(database, "node-b", "b-1")
    await register(database, "node-a", "a-1", lease_us=-1)
    nodes = await database.read(node_table.list_nodes)
    assert [node.id for node in nodes] == ["node-a", "node-b"]
    assert await write(database, node_table.find, "node-c") is None


async def test_where_one_node_can_live_the_others_are_gone(database: Database) -> None:
    await register(database, "node-a", "a-1")
    await register(database, "node-b", "b-1")
    await write(database, node_table.expire_others, "b-1")
    leases = {node.id: node.lease_until for node in await database.read(node_table.list_nodes)}
    assert leases["node-a"] == 0
    assert leases["node-b"] > 0


@pytest.mark.parametrize(
    ("lease", "grace", "gone"),
    [(LEASE, 0, []), (-SECOND, 0, ["a-1"]), (-SECOND, LEASE, []), (0, -SECOND, ["a-1"])],
)
async def test_an_incarnation_is_gone_a_grace_after_its_lease(
    database: Database, lease: int, grace: int, gone: list[str]
) -> None:
    await claimed_run(database)
    stamp = await now(database)
    await execute(database, "UPDATE node SET lease_until = :until", until=stamp + lease)
    assert await write(database, node_table.gone, grace, quiet=False) == gone
    assert await write(database, node_table.gone, grace, quiet=True) == []


@pytest.mark.parametrize("quiet", [False, True])
async def test_an_incarnation_that_left_is_gone_at_once(database: Database, quiet: bool) -> None:
    await claimed_run(database)
    await write(database, node_table.leave, "node-a", "a-1")
    assert await write(database, node_table.gone, LEASE, quiet=quiet) == ["a-1"]


@pytest.mark.parametrize("quiet", [False, True])
async def test_an_incarnation_that_was_replaced_is_gone_at_once(database: Database, quiet: bool) -> None:
    """The node restarted: what its first life held is rescued although the node is alive."""
    await claimed_run(database)
    await execute(database, "UPDATE node SET incarnation = 'a-2'")
    assert await write(database, node_table.gone, LEASE, quiet=quiet) == ["a-1"]


async def test_who_holds_nothing_needs_no_rescue(database: Database) -> None:
    await register(database, lease_us=-1)
    assert await claim(database) == []
    assert await write(database, node_table.gone, 0, quiet=False) == []


async def test_a_node_knows_when_its_lease_ran_out(database: Database) -> None:
    await register(database, "node-a", "a-1", lease_us=-1)
    await register(database, "node-b", "b-1")
    assert await write(database, node_table.lapsed, "node-a", "a-1")
    assert not await write(database, node_table.lapsed, "node-a", "a-0")
    assert not await write(database, node_table.lapsed, "node-b", "b-1")


@pytest.mark.parametrize(("lease", "lives"), [(LEASE, True), (-1, False)])
async def test_a_leader_without_a_lease_of_its_own_has_no_say(database: Database, lease: int, lives: bool) -> None:
    await register(database, lease_us=lease)
    assert not await database.read(node_table.leader_lives), "nobody leads"
    await execute(database, "UPDATE cluster SET leader_incarnation = 'a-1'")
    assert await database.read(node_table.leader_lives) is lives


async def test_rows_of_nodes_that_left_long_ago_are_dropped(database: Database) -> None:
    await register(database, "node-a", "a-1", lease_us=-2 * LEASE)
    await register(database, "node-b", "b-1", lease_us=-SECOND)
    await register(database, "node-c", "c-1")
    await write(database, node_table.forget, LEASE)
    assert [node.id for node in await database.read(node_table.list_nodes)] == ["node-b", "node-c"]


@given(node=st.floats(1, 1000), margin=st.floats(0, 0.9), leader=st.floats(1, 1000), beat=st.floats(0.001, 0.9))
def test_a_node_stops_trusting_a_lease_before_it_can_end(
    node: float, margin: float, leader: float, beat: float
) -> None:
    times = LeaseTimes(node=node, margin=node * margin, leader=leader, leader_beat=leader * beat)
    assert 0 < times.trusted() < times.node
    assert times.trusted() * (1 + times.drift) <= times.node
    assert 0 < times.leader_trusted() < times.leader


def test_two_beats_may_be_lost_by_default() -> None:
    times = LeaseTimes()
    assert 2 * times.beat < times.trusted()
    assert times.leader_trusted() + times.leader_beat <= times.leader
