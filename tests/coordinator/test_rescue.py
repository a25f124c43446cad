"""Rescue: what a lost node held is taken back, not before it must be lost, and never twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tests.engine_stage import SECOND, Link, Stage, cut, real_stage
from trisched.coordinator import rescue
from trisched.coordinator.membership import Membership
from trisched.coordinator.rescue import MAX_CRASHES
from trisched.domain.lifecycle import Ending, Move
from trisched.domain.node import LeaseTimes
from trisched.domain.run import Attempt, Outcome, RunStatus
from trisched.operations import runs as run_operations
from trisched.storage.tables import run as run_table
from trisched.storage.tables.leader import Deposed
from trisched.storage.tables.run import Claimed
from trisched.worker.record import Finished, record

S = RunStatus
TIMES = LeaseTimes()


async def claim(stage: Stage, node_id: str, incarnation: str, most: int = 1) -> list[Claimed]:
    claim_id = stage.ids.token()
    return await stage.database.write(
        lambda tx: run_table.claim(
            tx,
            queue="default",
            node_id=node_id,
            incarnation=incarnation,
            claim_id=claim_id,
            most=most,
            excluded=[],
        )
    )


async def lost_run(stage: Stage, lease: float = 15, **fields: object) -> Claimed:
    """A run that a node has claimed which beats no more."""
    await stage.job("job", **fields)
    await stage.submit("job")
    [run] = await claim(stage, "node-x", await stage.register("node-x", lease=lease))
    return run


async def a_leader(stage: Stage) -> int:
    """The epoch of a leader whose own node lives."""
    return await stage.lead(await stage.register("leader"))


@asynccontextmanager
async def rescuing(stage: Stage, quiet: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
    epoch = await a_leader(stage)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rescue.run, stage.database, TIMES, epoch, quiet)
        yield
        nursery.cancel_scope.cancel()


async def test_a_run_is_requeued_when_the_lease_of_its_node_and_the_grace_are_over(
    stage: Stage, autojump_clock: MockClock
) -> None:
    held = await lost_run(stage)
    async with rescuing(stage):
        await trio.sleep(15 + 2 - 0.1)
        assert (await stage.run(held.id)).status is S.RUNNING
        await trio.sleep(1.2)
        run = await stage.run(held.id)
    assert (run.status, run.claim_id, run.crashes, run.failures) == (S.QUEUED, None, 1, 0)
    assert run.reason == "its node was lost while it ran"
    [attempt] = await stage.attempts(held.id)
    assert (attempt.outcome, attempt.effective, attempt.node_id) == (Outcome.LOST, True, "node-x")
    assert (attempt.number, attempt.token) == (1, 1)
    [again] = await claim(stage, "node-y", await stage.register("node-y"))
    assert (again.token, again.attempt) == (2, 2)


async def test_the_runs_of_living_nodes_are_left_alone(stage: Stage, autojump_clock: MockClock) -> None:
    await stage.job("job")
    await stage.submit("job")
    node = stage.registration("node-a")
    member = stage.membership(node=node)
    await member.register()
    [held] = await claim(stage, "node-a", node.incarnation)
    async with rescuing(stage), trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await trio.sleep(3600)
        run = await stage.run(held.id)
        assert (run.status, run.token, run.crashes) == (S.RUNNING, 1, 0)
        nursery.cancel_scope.cancel()


async def test_what_a_node_that_left_still_held_is_taken_back_without_waiting(
    stage: Stage, autojump_clock: MockClock
) -> None:
    held = await lost_run(stage, lease=3600)
    await stage.execute("UPDATE node SET lease_until = 0 WHERE id = 'node-x'")
    async with rescuing(stage, quiet=lambda: True):
        await stage.wait(held.id, S.QUEUED, within=1.5)


async def test_a_node_that_came_back_as_a_new_process_loses_the_runs_of_its_last_life_at_once(
    stage: Stage, autojump_clock: MockClock
) -> None:
    held = await lost_run(stage, lease=3600)
    reborn = stage.membership(node=stage.registration("node-x", pid=101), alive=lambda _: False)
    await reborn.register()
    async with rescuing(stage, quiet=lambda: True):
        await stage.wait(held.id, S.QUEUED, within=1.5)


async def test_a_run_that_must_not_begin_twice_is_held_for_a_person(stage: Stage, autojump_clock: MockClock) -> None:
    held = await lost_run(stage, delivery="hold")
    async with rescuing(stage):
        run = await stage.wait(held.id, S.HELD, within=20)
        assert "a person decides" in (run.reason or "")
        await trio.sleep(60)
        assert (await stage.run(held.id)).status is S.HELD
    await run_operations.retry(stage.scope, held.id)
    assert (await stage.run(held.id)).status is S.QUEUED


async def test_a_run_under_which_three_nodes_were_lost_is_buried(stage: Stage, autojump_clock: MockClock) -> None:
    held = await lost_run(stage, retries=10)
    async with rescuing(stage):
        for number in range(2, MAX_CRASHES + 1):
            await stage.wait(held.id, S.QUEUED, within=20)
            incarnation = await stage.register(f"node-{number}", lease=15)
            [held] = await claim(stage, f"node-{number}", incarnation)
        run = await stage.wait(held.id, S.DEAD, within=20)
    assert run.reason == "poison: its node was lost under it 3 times"
    assert run.finished_at is not None
    attempts = await stage.attempts(held.id)
    assert [(attempt.number, attempt.outcome) for attempt in attempts] == [(n, Outcome.LOST) for n in (1, 2, 3)]
    assert attempts[-1].error == run.reason


async def test_a_lost_run_that_somebody_had_asked_to_stop_is_cancelled(stage: Stage, autojump_clock: MockClock) -> None:
    held = await lost_run(stage)
    await stage.cancel(held.id)
    async with rescuing(stage):
        await stage.wait(held.id, S.CANCELLED, within=20)


async def test_nobody_is_called_dead_while_it_is_quiet(stage: Stage, autojump_clock: MockClock) -> None:
    held = await lost_run(stage)
    quiet = True
    async with rescuing(stage, lambda: quiet):
        await trio.sleep(120)
        assert (await stage.run(held.id)).status is S.RUNNING
        quiet = False
        await stage.wait(held.id, S.QUEUED, within=1.5)


async def test_nodes_that_were_cut_off_together_keep_their_runs(stage: Stage, autojump_clock: MockClock) -> None:
    """The database was away for everybody, much longer than a lease; who comes back late is not called dead."""
    await stage.job("job")
    await stage.submit("job")
    link = Link(stage.database)
    nodes = [stage.registration(name) for name in ("leader", "node-a")]
    leader, other = (stage.membership(node=node, database=link) for node in nodes)
    for member in (leader, other):
        await member.register()
    [held] = await claim(stage, "node-a", nodes[1].incarnation)
    epoch = await stage.lead(nodes[0].incarnation)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.run)
        await trio.sleep(1.5)
        nursery.start_soon(other.run)
        nursery.start_soon(rescue.run, link, TIMES, epoch, leader.quiet)
        await trio.sleep(20)
        whole, link.fault = link.fault, cut
        await trio.sleep(300)
        link.fault = whole
        await trio.sleep(60)
        run = await stage.run(held.id)
        assert (run.status, run.token, run.crashes) == (S.RUNNING, 1, 0)
        nursery.cancel_scope.cancel()


async def test_a_cluster_that_slept_does_not_call_itself_dead_when_it_wakes_up(
    stage: Stage, autojump_clock: MockClock
) -> None:
    await stage.job("job")
    for _ in range(2):
        await stage.submit("job")
    nodes = [stage.registration(name) for name in ("leader", "node-a")]
    members = [stage.membership(node=node) for node in nodes]
    async with trio.open_nursery() as nursery:
        for member, node in zip(members, nodes, strict=True):
            await member.register()
            nursery.start_soon(member.run)
            await claim(stage, node.id, node.incarnation)
            await trio.sleep(1.7)
        epoch = await stage.lead(nodes[0].incarnation)
        nursery.start_soon(rescue.run, stage.database, TIMES, epoch, members[0].quiet)
        await trio.sleep(60.05)
        stage.set_clock(stage.clock.now_us() + 3600 * SECOND)
        await trio.sleep(60)
        assert await stage.rows("SELECT status, token, crashes FROM run") == [("running", 1, 0)] * 2
        nursery.cancel_scope.cancel()


async def test_only_the_leader_rescues(stage: Stage, autojump_clock: MockClock) -> None:
    held = await lost_run(stage)
    epoch = await a_leader(stage)
    await stage.lead("another")
    with pytest.raises(Deposed):
        await rescue.run(stage.database, TIMES, epoch, lambda: False)
    assert (await stage.run(held.id)).status is S.RUNNING


async def test_rescue_goes_on_after_an_outage_of_the_database(stage: Stage, autojump_clock: MockClock) -> None:
    held = await lost_run(stage)
    link = Link(stage.database)
    whole, link.fault = link.fault, cut
    epoch = await a_leader(stage)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rescue.run, link, TIMES, epoch, lambda: False)
        await trio.sleep(60)
        link.fault = whole
        await stage.wait(held.id, S.QUEUED, within=2)
        nursery.cancel_scope.cancel()


async def test_a_job_that_cannot_be_read_does_not_keep_others_from_being_rescued(
    stage: Stage, autojump_clock: MockClock
) -> None:
    broken = await lost_run(stage)
    await stage.execute("UPDATE job SET spec = 'no json'")
    await stage.job("other")
    await stage.submit("other")
    [held] = await claim(stage, "node-z", await stage.register("node-z", lease=15))
    async with rescuing(stage):
        await stage.wait(held.id, S.QUEUED, within=20)
        # It may have said never to run twice.
        await stage.wait(broken.id, S.HELD, within=2)


async def test_many_runs_of_a_lost_node_are_all_taken_back(stage: Stage, autojump_clock: MockClock) -> None:
    job = await stage.job("job")
    for _ in range(1200):
        await stage.submit("job")
    assert len(await claim(stage, "node-x", await stage.register("node-x", lease=15), most=2000)) == 1200
    async with rescuing(stage):
        await trio.sleep(25)
    assert {run.status for run in await stage.runs(job)} == {S.QUEUED}


async def test_a_result_that_comes_after_the_rescue_is_kept_and_changes_nothing(database_url: str) -> None:
    async with real_stage(database_url) as stage:
        held = await lost_run(stage)
        await stage.execute("UPDATE node SET lease_until = now_us() - 60000000")
        epoch = await a_leader(stage)
        await stage.database.write(partial(rescue.rescue, times=TIMES, epoch=epoch))
        rescued = await stage.run(held.id)
        assert rescued.status is S.QUEUED
        late = late_result(held)
        for _ in range(2):
            await stage.database.write(lambda tx: record(tx, [late]))
        assert await stage.run(held.id) == rescued
        attempts = await stage.attempts(held.id)
        assert sorted((attempt.outcome, attempt.effective) for attempt in attempts) == [
            (Outcome.COMPLETED, False),
            (Outcome.LOST, True),
        ]
        # The second attempt's result counts.
        [again] = await claim(stage, "node-y", await stage.register("node-y"))
        await stage.database.write(lambda tx: record(tx, [late_result(again)]))
        assert (await stage.run(held.id)).status is S.COMPLETED
        effective = [attempt for attempt in await stage.attempts(held.id) if attempt.effective]
        assert [(attempt.token, attempt.outcome) for attempt in effective] == [
            (1, Outcome.LOST),
            (2, Outcome.COMPLETED),
        ]


def late_result(run: Claimed) -> Finished:
    ending = Ending(
        run_id=run.id, token=run.token, claim_id=run.claim_id, move=Move.COMPLETE, outcome=Outcome.COMPLETED
    )
    attempt = Attempt(
        run_id=run.id,
        token=run.token,
        claim_id=run.claim_id,
        number=run.attempt,
        node_id="node-x",
        started_at=run.started_at,
        ended_at=run.started_at + SECOND,
        outcome=Outcome.COMPLETED,
        effective=True,
        result='"late"',
    )
    return Finished("job", ending, attempt, [], frees_others=False)


async def test_a_killed_node_is_replaced_within_twenty_seconds(stage: Stage, autojump_clock: MockClock) -> None:
    """The whole protocol: the leader with half of the work is killed, and the other node does all of it."""
    finished: list[str] = []

    async def work(name: str) -> None:
        await trio.sleep(30)
        finished.append(name)

    stage.tasks.register("work", work, None)
    await stage.job("job")
    async with trio.open_nursery() as nursery:
        victim = trio.CancelScope()
        cable = Link(stage.database)
        nursery.start_soon(live_node, stage, "node-a", cable, victim)
        await trio.sleep(1)
        nursery.start_soon(live_node, stage, "node-b", Link(stage.database), trio.CancelScope())
        await trio.sleep(30)
        ids = [await stage.submit("job", {"name": str(number)}) for number in range(4)]
        await trio.sleep(5)
        by_node = {(await stage.run(run_id)).node_id for run_id in ids}
        assert by_node == {"node-a", "node-b"}
        killed = trio.current_time()
        cable.fault = cut
        victim.cancel()
        for run_id in ids:
            await stage.wait(run_id, S.COMPLETED, within=60)
        nursery.cancel_scope.cancel()
    runs = [await stage.run(run_id) for run_id in ids]
    start = stage.clock.now_us() - trio.current_time() * SECOND
    taken_over = [run for run in runs if run.token == 2]
    assert taken_over
    for run in taken_over:
        lost, completed = await stage.attempts(run.id)
        assert (lost.outcome, completed.outcome) == (Outcome.LOST, Outcome.COMPLETED)
        assert lost.ended_at - start <= (killed + 20) * SECOND
    assert sorted(finished) == ["0", "1", "2", "3"]


async def live_node(stage: Stage, node_id: str, link: Link, scope: trio.CancelScope) -> None:
    """A node without its web: membership, leadership with rescue, and a worker of two places."""
    node = stage.registration(node_id)

    def fence() -> None:
        worker.fence()

    member: Membership = stage.membership(node=node, database=link, fence=fence)
    await member.register()
    worker = await stage.worker(
        node_id, database=link, incarnation=node.incarnation, lease_ok=member.lease_ok, concurrency=2
    )

    async def reign(epoch: int) -> None:
        await rescue.run(link, TIMES, epoch, member.quiet)

    leadership = stage.leadership(node_id, reign, database=link, incarnation=node.incarnation)
    with scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.run)
            nursery.start_soon(leadership.run)
            nursery.start_soon(worker.run)
