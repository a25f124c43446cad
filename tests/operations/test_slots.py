"""Slots: the ledger tells what became of each, a backfill makes the missing ones, and why answers in words."""

from __future__ import annotations

import pytest
import trio

from tests.operations.stage import claim, finish, opened, shell
from trisched.domain.duration import MICROSECONDS, format_instant
from trisched.domain.lifecycle import Move
from trisched.domain.run import RunStatus
from trisched.errors import Conflict, Invalid
from trisched.operations import explain, jobs, run_views, slots
from trisched.operations.scope import Scope
from trisched.storage.tables import run as run_table

HOUR = 3600 * MICROSECONDS


async def _now(scope: Scope) -> int:
    return await scope.database.read(run_table.now)


async def _hourly(scope: Scope, **fields: object) -> str:
    return (await jobs.create(scope, shell("hourly", schedule="0 * * * *", **fields))).id


async def test_a_backfill_makes_each_missing_slot_once_and_in_order(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope)
        now = await _now(scope)
        counted = await slots.backfill(scope, "hourly", now - 24 * HOUR, now, dry_run=True)
        assert (counted.slots, counted.missing, counted.existing, counted.made) == (24, 24, 0, [])
        done = await slots.backfill(scope, "hourly", now - 24 * HOUR, now, expect=24)
        runs = [(await run_views.get(scope, run_id)).run for run_id in done.made]
        assert len(runs) == 24
        assert [run.slot_at for run in runs] == sorted(run.slot_at or 0 for run in runs)
        assert [run.status for run in runs[:2]] == [RunStatus.QUEUED, RunStatus.PENDING]
        assert {run.origin for run in runs} == {"backfill"}
        again = await slots.backfill(scope, "hourly", now - 24 * HOUR, now)
        assert (again.missing, again.existing, again.made) == (0, 24, [])


async def test_two_backfills_at_once_make_each_slot_once(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope)
        now = await _now(scope)
        made: list[str] = []

        async def one() -> None:
            made.extend((await slots.backfill(scope, "hourly", now - 10 * HOUR, now)).made)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        assert len(made) == len(set(made)) == 10


async def test_a_backfill_refuses_what_it_cannot_mean(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope)
        await jobs.create(scope, shell("plain"))
        now = await _now(scope)
        with pytest.raises(Conflict, match="24 slots are missing, not 3"):
            await slots.backfill(scope, "hourly", now - 24 * HOUR, now, expect=3)
        with pytest.raises(Conflict, match="no schedule"):
            await slots.backfill(scope, "plain", now - HOUR, now)
        with pytest.raises(Invalid, match="to: must be after from"):
            await slots.backfill(scope, "hourly", now, now)
        with pytest.raises(Invalid, match="to: is in the future"):
            await slots.backfill(scope, "hourly", now, now + HOUR)
        with pytest.raises(Invalid, match="at most 10,000 slots"):
            await slots.backfill(scope, "hourly", now - 20_000 * HOUR, now)
        await jobs.disable(scope, "hourly")
        with pytest.raises(Conflict, match="disabled"):
            await slots.backfill(scope, "hourly", now - HOUR, now)


async def test_the_ledger_says_what_ran_what_waits_and_what_is_to_come(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope)
        now = await _now(scope)
        await slots.backfill(scope, "hourly", now - 3 * HOUR, now)
        [first] = await claim(scope)
        await finish(scope, first)
        page = await slots.show(scope, "hourly", since=now - 3 * HOUR, until=now + 2 * HOUR)
        states = [entry.state for entry in page.entries]
        assert states == ["ran", "waiting", "waiting", "upcoming", "upcoming"]
        ran = page.entries[0]
        assert ran.run is not None
        assert ran.run.id == first.id
        assert ran.late is not None
        assert ran.late > 3600
        cut = await slots.show(scope, "hourly", since=now - 3 * HOUR, until=now + 2 * HOUR, limit=2)
        assert [entry.slot for entry in cut.entries] == [entry.slot for entry in page.entries[:2]]
        assert cut.next == page.entries[2].slot


async def test_the_ledger_goes_by_the_schedule_of_its_time(database_url: str) -> None:
    async with opened(database_url) as scope:
        job_id = await _hourly(scope)
        before = await _now(scope)
        await jobs.disable(scope, "hourly")
        off = await slots.show(scope, "hourly", since=before, until=before + 5 * HOUR)
        assert off.entries == []
        await jobs.enable(scope, job_id)
        await jobs.patch(scope, "hourly", {"schedule": "30 * * * *"})
        later = await slots.show(scope, "hourly", since=before, until=before + 5 * HOUR)
        assert {entry.slot // (60 * MICROSECONDS) % 60 for entry in later.entries} == {30}


async def test_why_tells_how_a_slot_ran_and_why_none_did(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope, retries=0)
        now = await _now(scope)
        done = await slots.backfill(scope, "hourly", now - HOUR, now)
        [run] = await claim(scope)
        await finish(scope, run, Move.BURY, error="boom")
        told = await explain.job(scope, "hourly", now)
        assert (told.run_id, told.state) == (done.made[0], "dead")
        text = " ".join(told.text)
        assert "The latest slot at or before" in text
        assert "Attempt 1 on node-1 failed" in text
        assert "boom" in text
        nothing = await explain.job(scope, "hourly", now - 24 * HOUR)
        assert nothing.run_id is None
        assert "it was made at" in nothing.text[0]


async def test_why_tells_what_a_waiting_run_waits_for(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope)
        now = await _now(scope)
        done = await slots.backfill(scope, "hourly", now - 2 * HOUR, now)
        assert "no node that executes" in (await explain.run(scope, done.made[0])).text[-1]
        assert "waits for an earlier run of its job" in " ".join((await explain.run(scope, done.made[1])).text)
        await jobs.disable(scope, "hourly")
        assert "It is disabled" in " ".join((await explain.job(scope, "hourly", None)).text)


async def test_why_names_the_next_slot_of_a_job_that_never_ran(database_url: str) -> None:
    async with opened(database_url) as scope:
        await _hourly(scope)
        told = await explain.job(scope, "hourly", None)
        stored = (await jobs.enable(scope, "hourly")).next_slot_at
        assert stored is not None
        assert told.text[0] == "It has never run."
        assert told.text[-1] == f"Its next slot is {format_instant(stored)}."
