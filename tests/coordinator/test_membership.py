"""A node among the others: who has the row, how long the lease is trusted, and what happens when it is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import SECOND, Link, Stage, cut, real_stage
from trisched.coordinator.membership import Membership, Superseded
from trisched.domain.node import LeaseTimes
from trisched.errors import Misconfigured, StoreUnavailable

TIMES = LeaseTimes()
TRUSTED = (15 - 5) * 0.99


async def lose_answers(kind: str, call: Callable[[], Awaitable[object]]) -> object:
    await call()
    raise StoreUnavailable("the answer got lost")


async def test_a_node_registers_beats_and_leaves(stage: Stage, autojump_clock: MockClock) -> None:
    node = stage.registration("node-a", tags=("eu",), queues=("mail",), concurrency=7, pid=4711)
    member = stage.membership(node=node)
    await member.register()
    [row] = await stage.nodes()
    assert (row.id, row.pid, row.tags, row.queues, row.concurrency) == ("node-a", 4711, ("eu",), ("mail",), 7)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(600)
        [row] = await stage.nodes()
        assert stage.clock.now_us() - row.last_seen_at <= 3 * SECOND
        assert row.lease_until - row.last_seen_at == 15 * SECOND
        assert member.lease_ok()
        nursery.cancel_scope.cancel()
    await member.leave()
    [row] = await stage.nodes()
    assert row.lease_until == 0


async def test_a_second_process_with_the_same_id_is_told_who_has_it(stage: Stage, autojump_clock: MockClock) -> None:
    first = stage.membership(node=stage.registration("node-a", host="tower", pid=4711))
    await first.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.run)
        second = stage.membership(node=stage.registration("node-a", host="laptop", pid=1))
        with pytest.raises(Misconfigured, match=r"'node-a' is alive already \(host tower, pid 4711\)"):
            await second.register()
        # One beat of the first was enough to know.
        assert trio.current_time() < 4
        assert not second.lease_ok()
        await trio.sleep(30)
        assert first.lease_ok()
        nursery.cancel_scope.cancel()


async def test_the_row_of_a_process_that_is_gone_from_this_host_is_taken_at_once(
    stage: Stage, autojump_clock: MockClock
) -> None:
    await stage.membership(node=stage.registration("node-a", pid=4711)).register()
    asked: list[int] = []

    def alive(pid: int) -> bool:
        asked.append(pid)
        return False

    second = stage.membership(node=stage.registration("node-a", pid=4712), alive=alive)
    await second.register()
    assert (asked, trio.current_time()) == ([4711], 0)
    assert [row.pid for row in await stage.nodes()] == [4712]


@pytest.mark.parametrize(("host", "alive"), [("elsewhere", False), ("here", True)])
async def test_a_silent_holder_that_may_live_keeps_its_row_until_its_lease_ends(
    stage: Stage, host: str, alive: bool, autojump_clock: MockClock
) -> None:
    await stage.membership(node=stage.registration("node-a", host=host, pid=4711)).register()
    second = stage.membership(node=stage.registration("node-a", pid=4712), alive=lambda _: alive)
    await second.register()
    assert 15 <= trio.current_time() < 16
    assert [row.pid for row in await stage.nodes()] == [4712]


async def test_a_node_that_left_can_come_back_at_once(stage: Stage, autojump_clock: MockClock) -> None:
    first = stage.membership()
    await first.register()
    await first.leave()
    await stage.membership().register()
    assert trio.current_time() == 0


class Fenced:
    """When a node was fenced."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self) -> None:
        self.at.append(trio.current_time())


async def test_without_answers_a_node_fences_itself_once_before_its_lease_ends(
    stage: Stage, autojump_clock: MockClock
) -> None:
    fenced, link = Fenced(), Link(stage.database)
    member = stage.membership(fence=fenced, database=link)
    await member.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(31)
        # The last beat that was answered left at 30.
        whole, link.fault = link.fault, cut
        await trio.sleep(TRUSTED - 1.1)
        assert (member.lease_ok(), fenced.at) == (True, [])
        await trio.sleep(0.2)
        assert not member.lease_ok()
        await trio.sleep(120)
        assert fenced.at == pytest.approx([30 + TRUSTED])
        [row] = await stage.nodes()
        assert fenced.at[0] * SECOND < row.lease_until - (stage.clock.now_us() - trio.current_time() * SECOND)
        link.fault = whole
        await trio.sleep(4)
        assert member.lease_ok()
        await trio.sleep(60)
        assert len(fenced.at) == 1
        # The next outage fences again.
        link.fault = cut
        await trio.sleep(60)
        assert len(fenced.at) == 2
        nursery.cancel_scope.cancel()


async def test_the_deadline_counts_from_before_the_request_left(stage: Stage, autojump_clock: MockClock) -> None:
    async def slow(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        answer = await call()
        await trio.sleep(2)
        return answer

    link = Link(stage.database)
    link.fault = slow
    member = stage.membership(database=link)
    await member.register()
    # Two slow calls: who has the row, and taking it, which left at 2.
    assert trio.current_time() == 4
    assert member.deadline == pytest.approx(2 + TRUSTED)


async def test_one_lost_answer_does_not_look_like_a_second_node(stage: Stage, autojump_clock: MockClock) -> None:
    fenced, link = Fenced(), Link(stage.database)
    member = stage.membership(fence=fenced, database=link)
    await member.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        whole, link.fault = link.fault, lose_answers
        await trio.sleep(7)
        link.fault = whole
        await trio.sleep(60)
        assert (member.lease_ok(), fenced.at) == (True, [])
        nursery.cancel_scope.cancel()


async def superseded(member: Membership) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await member.run()
    assert caught.group_contains(Superseded, match="another process is node 'node-a' now")


async def test_a_node_whose_row_was_taken_over_stops_at_once(stage: Stage, autojump_clock: MockClock) -> None:
    fenced = Fenced()
    member = stage.membership(fence=fenced)
    await member.register()
    await stage.execute("UPDATE node SET lease_until = 0")
    await stage.membership().register()
    await superseded(member)
    assert fenced.at == [3]


async def test_of_two_copies_of_one_process_at_least_one_stops(stage: Stage, autojump_clock: MockClock) -> None:
    # A virtual machine that was resumed twice from one snapshot: the same incarnation, the same nonces.
    node = stage.registration("node-a")
    one, two = stage.membership(node=node), stage.membership(node=node)
    await one.register()
    two._nonces, two.deadline = list(one._nonces), one.deadline
    ended: list[str] = []

    async def live(name: str, member: Membership) -> None:
        try:
            await member.run()
        except* Superseded:
            ended.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live, "one", one)
        await trio.sleep(0.5)
        nursery.start_soon(live, "two", two)
        await trio.sleep(7)
        assert len(ended) == 1
        await trio.sleep(60)
        assert len(ended) == 1
        nursery.cancel_scope.cancel()


async def test_a_lease_that_ran_out_unnoticed_fences_the_node_at_its_next_beat(
    stage: Stage, autojump_clock: MockClock
) -> None:
    # The host slept: Trio's clock stood still, the database's did not.
    fenced = Fenced()
    member = stage.membership(fence=fenced)
    await member.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(31)
        stage.set_clock(stage.clock.now_us() + 3600 * SECOND)
        await trio.sleep(30)
        assert fenced.at == [33]
        assert member.lease_ok()
        nursery.cancel_scope.cancel()


async def test_a_lone_node_goes_on_after_its_host_slept(stage: Stage, autojump_clock: MockClock) -> None:
    fenced = Fenced()
    member = stage.membership(fence=fenced, only_one=True)
    await member.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(31)
        stage.set_clock(stage.clock.now_us() + 3600 * SECOND)
        await trio.sleep(30)
        assert (member.lease_ok(), fenced.at) == (True, [])
        nursery.cancel_scope.cancel()


async def test_who_listens_hears_how_long_each_renewal_lasts(stage: Stage, autojump_clock: MockClock) -> None:
    granted: list[float] = []
    member = stage.membership(renewed=granted.append)
    await member.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert granted == pytest.approx([TRUSTED] * 4)


async def test_a_node_is_quiet_for_one_lease_after_it_was_cut_off(stage: Stage, autojump_clock: MockClock) -> None:
    link = Link(stage.database)
    member = stage.membership(database=link)
    assert member.quiet()
    await member.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(14)
        assert member.quiet()
        await trio.sleep(2)
        assert not member.quiet()
        whole, link.fault = link.fault, cut
        await trio.sleep(4)
        assert member.quiet()
        link.fault = whole
        await trio.sleep(14)
        assert member.quiet()
        await trio.sleep(4)
        assert not member.quiet()
        nursery.cancel_scope.cancel()


async def test_a_node_that_shows_that_it_drains_claims_nothing(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    node = stage.registration("node-a")
    member = stage.membership(node=node)
    await member.register()
    await member.drain()
    [row] = await stage.nodes()
    assert row.draining_at is not None
    run_id = await stage.submit("job")
    async with stage.working(incarnation=node.incarnation):
        await trio.sleep(5)
    assert (await stage.run(run_id)).token == 0


async def test_rows_of_nodes_that_left_long_ago_are_forgotten(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.membership("old").register()
    stage.set_clock(stage.clock.now_us() + 8 * 86_400 * SECOND)
    await stage.membership("new").register()
    assert [row.id for row in await stage.nodes()] == ["new"]


async def test_the_same_rules_hold_on_real_databases(database_url: str) -> None:
    async with real_stage(database_url) as stage:
        times = LeaseTimes(node=2.0, margin=0.5, beat=0.1)
        first = stage.membership(node=stage.registration("node-a", host="tower", pid=4711), times=times)
        await first.register()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.run)
            second = stage.membership(node=stage.registration("node-a", host="laptop"), times=times)
            with trio.fail_after(10), pytest.raises(Misconfigured, match="host tower, pid 4711"):
                await second.register()
            nursery.cancel_scope.cancel()
        await first.leave()
        await second.register()
        assert second.lease_ok()
