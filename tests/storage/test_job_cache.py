"""The jobs in memory follow the database, whoever writes there."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tests.storage.stage import HOUR, add_job, execute, fresh, now, spec, write
from trisched.clock import SystemClock
from trisched.domain.job import ORIGIN_API, Job
from trisched.storage.connect import connect
from trisched.storage.database import Database
from trisched.storage.job_cache import JobCache
from trisched.storage.sqlite import SqliteDatabase
from trisched.storage.tables import job as job_table


async def _change(database: Database, job: Job, **fields: object) -> None:
    await write(database, job_table.change, job, spec(job.spec.name, **fields), None, 0)


async def test_a_cache_is_empty_until_it_reads(database: Database) -> None:
    job = await add_job(database)
    cache = JobCache(database)
    assert (cache.jobs, cache.version) == ({}, 0)
    await cache.refresh()
    assert cache.jobs == {job.id: job}
    assert (cache.broken, cache.version) == ({}, 1)


async def test_nothing_new_is_no_new_version(database: Database) -> None:
    job = await add_job(database)
    cache = JobCache(database)
    for _ in range(3):
        await cache.refresh()
    await cache.refresh(everything=True)
    assert (cache.jobs, cache.version) == ({job.id: job}, 1)


async def test_new_changed_and_removed_jobs_are_seen(database: Database) -> None:
    kept, changed, gone = [await add_job(database, name) for name in ("kept", "changed", "gone")]
    cache = JobCache(database)
    await cache.refresh()
    new = await add_job(database, "new")
    await _change(database, changed, retries=9)
    await write(database, job_table.remove, gone.id)
    await cache.refresh()
    assert set(cache.jobs) == {kept.id, changed.id, new.id}
    assert (cache.jobs[changed.id].spec.retries, cache.jobs[changed.id].revision) == (9, 2)
    assert cache.version > 1


async def test_a_job_that_came_and_went_between_two_looks_is_no_news(database: Database) -> None:
    cache = JobCache(database)
    await cache.refresh()
    job = await add_job(database)
    await write(database, job_table.remove, job.id)
    await cache.refresh()
    assert (cache.jobs, cache.version) == ({}, 0)


@pytest.mark.parametrize("text", ["{", "[]", '{"name":"x","type":"carrier pigeon"}'])
async def test_a_job_that_cannot_be_read_is_named_and_harms_no_other(database: Database, text: str) -> None:
    fine, broken = await add_job(database, "fine"), await add_job(database, "broken")
    await execute(database, "UPDATE job SET spec = :spec WHERE id = :id", spec=text, id=broken.id)
    cache = JobCache(database)
    await cache.refresh()
    assert set(cache.jobs) == {fine.id}
    assert set(cache.broken) == {broken.id}
    await cache.refresh()
    assert cache.version == 1, "it is news once"


async def test_a_job_that_can_be_read_again_is_back(database: Database) -> None:
    job = await add_job(database)
    cache = JobCache(database)
    await cache.refresh()
    await execute(database, "UPDATE job SET spec = '{', revision = 2")
    await cache.refresh()
    assert (cache.jobs, list(cache.broken)) == ({}, [job.id])
    await write(database, job_table.change, _at(job, 2), spec(), None, 0)
    await cache.refresh()
    assert (list(cache.jobs), cache.broken) == ([job.id], {})


async def test_a_removed_job_is_broken_no_more(database: Database) -> None:
    job = await add_job(database)
    await execute(database, "UPDATE job SET spec = '{'")
    cache = JobCache(database)
    await cache.refresh()
    await write(database, job_table.remove, job.id)
    await cache.refresh()
    assert (cache.jobs, cache.broken) == ({}, {})


def _at(job: Job, revision: int) -> Job:
    return attrs.evolve(job, revision=revision)


async def test_a_write_that_committed_late_is_seen(database: Database) -> None:
    """Its stamp is older than the last look: a transaction took its time."""
    cache = JobCache(database)
    await cache.refresh()
    job = await add_job(database)
    await execute(database, "UPDATE job SET updated_at = updated_at - 50000000")
    await cache.refresh()
    assert set(cache.jobs) == {job.id}


async def test_reading_everything_finds_what_carries_a_wrong_time(database: Database) -> None:
    """The database's clock was set back for a while."""
    gone, changed, broken = [await add_job(database, name) for name in ("gone", "changed", "broken")]
    await execute(database, "UPDATE job SET spec = '{' WHERE id = :id", id=broken.id)
    cache = JobCache(database)
    await cache.refresh()
    await write(database, job_table.remove, gone.id)
    await write(database, job_table.remove, broken.id)
    await _change(database, changed, retries=9)
    await execute(database, "UPDATE job SET updated_at = updated_at - :back", back=HOUR)
    await cache.refresh()
    assert set(cache.jobs) == {gone.id, changed.id}
    await cache.refresh(everything=True)
    assert {job_id: job.spec.retries for job_id, job in cache.jobs.items()} == {changed.id: 9}
    assert cache.broken == {}
    assert cache.version > 1


async def test_what_another_process_writes_is_seen(database: Database, store_address: tuple[str, bool]) -> None:
    cache = JobCache(database)
    await cache.refresh()
    other = connect(store_address[0], clock=SystemClock(), origin="there")
    await other.open()
    job_id = fresh("job")
    await write(other, job_table.add, {job_id: spec("theirs")}, ORIGIN_API, await now(other))
    await other.close()
    await cache.refresh()
    assert cache.jobs[job_id].spec.name == "theirs"


async def test_a_cache_reads_in_virtual_time_too(tmp_path: Path) -> None:
    class Still:
        def now_us(self) -> int:
            return 5

    database = SqliteDatabase(tmp_path / "x.db", Still(), inline=True)
    await database.open()
    cache = JobCache(database)
    await cache.refresh()
    job = await add_job(database)
    await cache.refresh()
    await database.close()
    assert set(cache.jobs) == {job.id}
