"""Leadership: one node leads, hands over at once when it goes, and is replaced when it is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import Link, Stage, cut, real_stage, wait_until
from trisched.coordinator.leader import Leadership
from trisched.domain.node import LeaseTimes
from trisched.errors import StoreUnavailable
from trisched.storage.tables import leader as leader_table
from trisched.storage.tables.leader import Deposed, Leader

TIMES = LeaseTimes()


class Reigns:
    """Who led when; asserts that nobody leads beside another."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int, float]] = []
        self.leading: set[str] = set()

    async def count(self) -> int:
        """How many lead right now."""
        return len(self.leading)

    async def handed_over(self) -> bool:
        """Whether a second one leads."""
        return bool(self.leading) and len(self.log) == 2

    def of(self, name: str) -> Callable[[int], Awaitable[None]]:
        async def reign(epoch: int) -> None:
            self.log.append((name, epoch, trio.current_time()))
            self.leading.add(name)
            assert self.leading == {name}
            try:
                await trio.sleep_forever()
            finally:
                self.leading.discard(name)

        return reign


async def seen(stage: Stage) -> Leader:
    return await stage.database.read(leader_table.seen)


async def test_one_candidate_is_elected_and_goes_on_leading(stage: Stage, autojump_clock: MockClock) -> None:
    reigns = Reigns()
    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            nursery.start_soon(stage.leadership(name, reigns.of(name)).run)
        await trio.sleep(600)
        assert len(reigns.log) == 1
        [(name, epoch, at)] = reigns.log
        assert (epoch, at) == (1, 0)
        leader = await seen(stage)
        assert (leader.node_id, leader.epoch, leader.alive) == (name, 1, True)
        nursery.cancel_scope.cancel()


async def test_a_leader_that_resigns_is_followed_at_once(stage: Stage, autojump_clock: MockClock) -> None:
    reigns = Reigns()
    first, second = stage.leadership("a", reigns.of("a")), stage.leadership("b", reigns.of("b"))
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run_first() -> None:
            with scope:
                await first.run()

        nursery.start_soon(run_first)
        await trio.sleep(0.5)
        nursery.start_soon(second.run)
        await trio.sleep(60)
        assert (first.epoch, second.epoch) == (1, None)
        scope.cancel()
        # Its lease would have lasted four beats more.
        await trio.sleep(TIMES.leader_beat + 0.1)
        assert (first.epoch, second.epoch) == (None, 2)
        nursery.cancel_scope.cancel()
    assert [entry[:2] for entry in reigns.log] == [("a", 1), ("b", 2)]


async def test_a_leader_that_crashed_is_followed_when_its_lease_ends(stage: Stage, autojump_clock: MockClock) -> None:
    reigns, link = Reigns(), Link(stage.database)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def crash() -> None:
            with scope:
                await stage.leadership("a", reigns.of("a"), database=link).run()

        nursery.start_soon(crash)
        await trio.sleep(0.5)
        nursery.start_soon(stage.leadership("b", reigns.of("b")).run)
        await trio.sleep(60)
        crashed = trio.current_time()
        link.fault = cut
        scope.cancel()
        await trio.sleep(TIMES.leader + TIMES.leader_beat)
        assert reigns.leading == {"b"}
        nursery.cancel_scope.cancel()
    [_, (name, epoch, at)] = reigns.log
    assert (name, epoch) == ("b", 2)
    assert crashed + TIMES.leader - TIMES.leader_beat <= at <= crashed + TIMES.leader + TIMES.leader_beat


@pytest.mark.parametrize("after", [0.2, 60])
async def test_a_leader_without_answers_steps_down_before_its_lease_ends(
    stage: Stage, after: float, autojump_clock: MockClock
) -> None:
    # Reigns asserts that the two never lead at the same time.
    reigns, link = Reigns(), Link(stage.database)
    first = stage.leadership("a", reigns.of("a"), database=link)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.run)
        await trio.sleep(0.5)
        second = stage.leadership("b", reigns.of("b"))
        nursery.start_soon(second.run)
        await trio.sleep(after)
        whole, link.fault = link.fault, cut
        await trio.sleep(TIMES.leader_trusted() + 0.1)
        assert (first.epoch, reigns.leading) == (None, set())
        await trio.sleep(10)
        assert second.epoch == 2
        link.fault = whole
        await trio.sleep(60)
        assert (first.epoch, second.epoch) == (None, 2)
        nursery.cancel_scope.cancel()
    assert [entry[0] for entry in reigns.log] == ["a", "b"]


async def test_a_lost_answer_to_a_renewal_is_no_reason_to_step_down(stage: Stage, autojump_clock: MockClock) -> None:
    reigns, link = Reigns(), Link(stage.database)
    lost = 0

    async def lose_every_second(kind: str, call: Callable[[], Awaitable[object]]) -> object:
        nonlocal lost
        answer = await call()
        lost += 1
        if lost % 2:
            raise StoreUnavailable("the answer got lost")
        return answer

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.leadership("a", reigns.of("a"), database=link).run)
        await trio.sleep(0.5)
        link.fault = lose_every_second
        await trio.sleep(120)
        assert len(reigns.log) == 1
        nursery.cancel_scope.cancel()


async def test_a_leader_that_was_replaced_steps_down_at_its_next_renewal(
    stage: Stage, autojump_clock: MockClock
) -> None:
    reigns = Reigns()
    first = stage.leadership("a", reigns.of("a"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.run)
        await trio.sleep(10.5)
        assert reigns.leading == {"a"}
        await stage.lead("somebody else")
        await trio.sleep(TIMES.leader_beat)
        assert reigns.leading == set()
        assert first.epoch is None
        nursery.cancel_scope.cancel()
    # It did not undo the other's leadership while it stepped down.
    assert (await seen(stage)).incarnation == "somebody else"


@pytest.mark.parametrize("nested", [False, True])
async def test_a_reign_that_ends_by_a_refused_write_is_followed_by_a_new_candidacy(
    stage: Stage, nested: bool, autojump_clock: MockClock
) -> None:
    epochs: list[int] = []

    async def be_refused() -> None:
        raise Deposed("refused")

    async def reign(epoch: int) -> None:
        epochs.append(epoch)
        await trio.sleep(5)
        if not nested:
            await be_refused()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(be_refused)
            nursery.start_soon(trio.sleep_forever)

    with trio.move_on_after(12):
        await stage.leadership("a", reign).run()
    assert epochs == [1, 2, 3]


async def test_other_errors_of_a_reign_are_not_hidden(stage: Stage, autojump_clock: MockClock) -> None:
    async def reign(epoch: int) -> None:
        raise ValueError("a bug")

    with pytest.raises(BaseExceptionGroup) as caught:
        await stage.leadership("a", reign).run()
    assert caught.group_contains(ValueError, match="a bug", depth=None)
    assert not (await seen(stage)).alive


async def test_a_lone_node_need_not_wait_for_the_lease_of_its_last_life(
    stage: Stage, autojump_clock: MockClock
) -> None:
    await stage.lead("the last life", lease=3600)
    reigns = Reigns()
    with trio.move_on_after(1):
        await stage.leadership("a", reigns.of("a"), only_one=True).run()
    assert reigns.log == [("a", 2, 0)]


async def test_an_election_needs_no_more_than_the_database_to_come_back(
    stage: Stage, autojump_clock: MockClock
) -> None:
    reigns, link = Reigns(), Link(stage.database)
    whole, link.fault = link.fault, cut
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.leadership("a", reigns.of("a"), database=link).run)
        await trio.sleep(60.5)
        assert reigns.log == []
        link.fault = whole
        await trio.sleep(1)
        assert reigns.leading == {"a"}
        nursery.cancel_scope.cancel()


async def test_candidates_on_real_databases_take_turns(database_url: str) -> None:
    times = LeaseTimes(leader=2.0, leader_beat=0.05)
    async with real_stage(database_url) as stage:
        reigns = Reigns()
        members = {name: stage.leadership(name, reigns.of(name), times=times) for name in ("a", "b")}
        scopes = {name: trio.CancelScope() for name in members}

        async def stand(name: str, member: Leadership) -> None:
            with scopes[name]:
                await member.run()

        async with trio.open_nursery() as nursery:
            for name, member in members.items():
                nursery.start_soon(stand, name, member)
            await wait_until(reigns.count)
            [first] = reigns.leading
            scopes[first].cancel()
            await wait_until(reigns.handed_over)
            assert reigns.leading == members.keys() - {first}
            nursery.cancel_scope.cancel()
    assert [epoch for _, epoch, _ in reigns.log] == [1, 2]
