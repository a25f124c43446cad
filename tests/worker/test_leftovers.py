"""Processes whose attempts are over do not live on; everybody else's are left alone."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.engine_stage import Stage, real_stage
from trisched.domain.lifecycle import Ending, Move
from trisched.domain.run import Attempt, Outcome
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables.run import Claimed
from trisched.worker.leftovers import Holder, Leftovers

ME = Holder("node-a", "incarnation-2", alone=False)


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    async with real_stage(database_url) as opened:
        yield opened


async def claimed(stage: Stage) -> tuple[Claimed, str]:
    """A run that the first incarnation of node-a holds."""
    await stage.job("job")
    await stage.submit("job")
    incarnation = await stage.register("node-a")
    [run] = await stage.database.write(
        lambda tx: run_table.claim(
            tx, queue="default", node_id="node-a", incarnation=incarnation, claim_id="claim", most=1, excluded=[]
        )
    )
    return run, incarnation


async def end(stage: Stage, run: Claimed) -> None:
    ending = Ending(
        run_id=run.id, token=run.token, claim_id=run.claim_id, move=Move.LOSE, outcome=Outcome.LOST, reason="lost"
    )
    attempt = Attempt(
        run_id=run.id, token=run.token, claim_id=run.claim_id, number=1, node_id="node-a", started_at=1, ended_at=2,
        outcome=Outcome.LOST, effective=True,
    )  # fmt: skip
    await stage.database.write(lambda tx: run_table.end_attempt(tx, ending))
    await stage.database.write(lambda tx: attempt_table.add(tx, [attempt]))


@asynccontextmanager
async def process(**variables: str) -> AsyncIterator[trio.Process]:
    started = await trio.lowlevel.open_process(["/bin/sleep", "300"], env={**os.environ, **variables})
    try:
        yield started
    finally:
        started.kill()
        await started.wait()


async def died(started: trio.Process) -> bool:
    with trio.move_on_after(5):
        await started.wait()
    return started.returncode == -9


async def lives(started: trio.Process) -> bool:
    await trio.sleep(0.05)
    return started.poll() is None


async def test_what_an_attempt_that_is_over_left_is_killed(stage: Stage) -> None:
    run, _ = await claimed(stage)
    await end(stage, run)
    async with process(TRISCHED_CLAIM_ID="claim", TRISCHED_RUN_ID=run.id) as left:
        assert await Leftovers(stage.database, ME, {}).kill() == 1
        assert await died(left)


async def test_what_the_node_before_this_one_held_is_killed(stage: Stage) -> None:
    run, _ = await claimed(stage)
    async with process(TRISCHED_CLAIM_ID="claim", TRISCHED_RUN_ID=run.id) as left:
        assert await Leftovers(stage.database, ME, {}).kill() == 1
        assert await died(left)


@pytest.mark.parametrize("alone", [False, True])
async def test_what_another_node_holds_is_killed_only_where_no_other_can_live(stage: Stage, alone: bool) -> None:
    run, _ = await claimed(stage)
    async with process(TRISCHED_CLAIM_ID="claim", TRISCHED_RUN_ID=run.id) as held:
        await Leftovers(stage.database, Holder("node-b", "incarnation-b", alone), {}).kill()
        assert await (died(held) if alone else lives(held))


async def test_what_runs_here_is_left_alone(stage: Stage) -> None:
    run, incarnation = await claimed(stage)
    async with process(TRISCHED_CLAIM_ID="claim", TRISCHED_RUN_ID=run.id) as held:
        assert await Leftovers(stage.database, Holder("node-a", incarnation, alone=True), {}).kill() == 0
        assert await lives(held)


async def test_processes_without_a_mark_that_this_database_knows_are_left_alone(stage: Stage) -> None:
    run, _ = await claimed(stage)
    await end(stage, run)
    async with (
        process(TRISCHED_CLAIM_ID="another", TRISCHED_RUN_ID=run.id) as other_claim,
        process(TRISCHED_CLAIM_ID="claim", TRISCHED_RUN_ID="run-unknown") as other_run,
        process(TRISCHED_CLAIM_ID="claim") as half,
        process(TRISCHED_RUN_ID=run.id) as on_purpose,
        process(TRISCHED_CLAIM_ID="cl\udcffaim", TRISCHED_RUN_ID=run.id) as no_text,
    ):
        assert await Leftovers(stage.database, ME, {}).kill() == 0
        for started in (other_claim, other_run, half, on_purpose, no_text):
            assert await lives(started)
