"""Commands die with their node, however it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.worker.calls import living, wait_until
from trisched.worker.guardian import Guardian

REPOSITORY = Path(__file__).parents[2]


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def state_of(pid: int) -> str | None:
    """The kernel's letter for a process: ``T`` stopped, ``Z`` zombie; None when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


@asynccontextmanager
async def command() -> AsyncIterator[int]:
    """The group of a shell with a child, both asleep for long."""
    process = await trio.lowlevel.open_process(["/bin/sh", "-c", "sleep 300 & sleep 300"], start_new_session=True)
    await wait_until(lambda: len(living(process.pid)) == 3)
    try:
        yield process.pid
    finally:
        if living(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def node(grant: float = 0.0, kind: str = "plain") -> AsyncIterator[tuple[trio.Process, int, int]]:
    """A node in a process of its own, the group that it guards, and the copy that it forked."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.worker.node", str(grant), kind],
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = b""
    while not said.endswith(b"\n"):
        received = await process.stdout.receive_some()
        assert received
        said += received
    group, copy = map(int, said.split())
    try:
        yield process, group, copy
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await process.stdout.aclose()


async def test_a_killed_node_leaves_no_process_of_the_group() -> None:
    async with node() as (process, group, _):
        assert living(group)
        process.kill()
        await wait_until(lambda: not living(group), within=5)


async def test_a_forked_copy_of_a_killed_node_does_not_keep_its_commands_alive() -> None:
    async with node(kind="fork") as (process, group, copy):
        assert living(group)
        process.kill()
        await wait_until(lambda: not living(group), within=5)
        assert state_of(copy) == "S"


async def test_a_stopped_node_loses_its_commands_when_its_deadline_passes() -> None:
    async with node(grant=1.0) as (process, group, _):
        process.send_signal(signal.SIGSTOP)
        await wait_until(lambda: not living(group), within=10)
        assert state_of(process.pid) == "T"


async def test_a_newer_deadline_keeps_the_command_alive() -> None:
    async with Guardian.open() as guardian, command() as group:
        guardian.watch(group)
        guardian.renew(boottime() + 0.6)
        guardian.renew(boottime() + 600)
        await trio.sleep(0.9)
        assert len(living(group)) == 3


async def test_a_passed_deadline_kills_and_the_guardian_goes_on() -> None:
    async with Guardian.open() as guardian, command() as first, command() as second:
        pid = guardian.pid
        guardian.watch(first)
        guardian.renew(boottime() - 1)
        await wait_until(lambda: not living(first))
        guardian.renew(boottime() + 600)
        guardian.watch(second)
        await trio.sleep(0.1)
        assert len(living(second)) == 3
        assert guardian.pid == pid


async def test_a_forgotten_group_is_left_alone() -> None:
    async with command() as kept, command() as forgotten:
        async with Guardian.open() as guardian:
            guardian.watch(kept)
            guardian.watch(forgotten)
            guardian.forget(forgotten)
        await wait_until(lambda: not living(kept))
        assert len(living(forgotten)) == 3


async def test_leaving_the_block_reaps_the_guardian() -> None:
    async with Guardian.open() as guardian:
        pid = guardian.pid
        assert pid is not None
        assert state_of(pid) is not None
    assert state_of(pid) is None
    assert guardian.pid is None


@asynccontextmanager
async def escaped(claim: str, run: str) -> AsyncIterator[int]:
    """A process in a session of its own, with the mark of an attempt in its environment."""
    environment = {**os.environ, "TRISCHED_CLAIM_ID": claim, "TRISCHED_RUN_ID": run}
    process = await trio.lowlevel.open_process(["/bin/sleep", "300"], start_new_session=True, env=environment)
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def test_what_left_the_group_of_an_attempt_that_is_over_is_killed() -> None:
    async with (
        Guardian.open() as guardian,
        escaped("claim-a", "run-1") as over,
        escaped("claim-a", "run-2") as under_way,
        escaped("claim-b", "run-1") as unknown,
    ):
        guardian.begin("claim-a", "run-1")
        guardian.begin("claim-a", "run-2")
        guardian.end("claim-a", "run-1")
        await wait_until(lambda: state_of(over) in ("Z", None))
        assert state_of(under_way) == "S"
        assert state_of(unknown) == "S"


async def test_what_left_its_group_dies_with_the_node_and_at_the_deadline() -> None:
    async with escaped("claim-a", "run-1") as at_the_deadline, escaped("claim-a", "run-2") as with_the_node:
        async with Guardian.open() as guardian:
            guardian.begin("claim-a", "run-1")
            guardian.renew(boottime() - 1)
            await wait_until(lambda: state_of(at_the_deadline) in ("Z", None))
            guardian.renew(boottime() + 600)
            guardian.begin("claim-a", "run-2")
            await trio.sleep(0.1)
            assert state_of(with_the_node) == "S"
        await wait_until(lambda: state_of(with_the_node) in ("Z", None))


async def test_a_new_guardian_knows_the_marks_of_the_lost_one() -> None:
    async with escaped("claim-a", "run-1") as left:
        async with Guardian.open() as guardian:
            old = guardian.pid
            assert old is not None
            guardian.begin("claim-a", "run-1")
            os.kill(old, signal.SIGKILL)
            await wait_until(lambda: guardian.pid not in (None, old))
            await trio.sleep(0.1)
            assert state_of(left) == "S"
        await wait_until(lambda: state_of(left) in ("Z", None))


def resident_kib(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


async def wait_ready(pid: int | None) -> None:
    """Waits until the guardian's program ignores SIGTERM: signal 15 is bit 14 of the mask."""
    status = Path(f"/proc/{pid}/status")
    await wait_until(lambda: int(status.read_text().split("SigIgn:")[1].split()[0], 16) & 1 << 14)


async def test_the_guardian_outlives_the_signals_that_stop_a_node() -> None:
    async with Guardian.open() as guardian, command() as group:
        pid = guardian.pid
        assert pid is not None
        await wait_ready(pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        guardian.watch(group)
        guardian.renew(boottime() - 1)
        await wait_until(lambda: not living(group))
        assert guardian.pid == pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "hanging"])
async def test_a_lost_guardian_is_replaced_and_knows_all_groups(number: signal.Signals) -> None:
    async with command() as group:
        async with Guardian.open() as guardian:
            old = guardian.pid
            assert old is not None
            guardian.watch(group)
            guardian.renew(boottime() + 600)
            os.kill(old, number)
            if number == signal.SIGSTOP:
                # Nobody reads: the pipe fills until the next line does not fit.
                for _ in range(60_000):
                    guardian.forget(999_999)
                # It wakes up again: it must not take the end of its pipe for the end of the node.
                os.kill(old, signal.SIGCONT)
            await wait_until(lambda: guardian.pid not in (None, old))
            assert len(living(group)) == 3
            assert state_of(old) is None
        await wait_until(lambda: not living(group))


async def test_a_replacement_is_told_of_more_groups_than_fit_into_the_pipe() -> None:
    async with command() as group:
        async with Guardian.open() as guardian:
            old = guardian.pid
            assert old is not None
            os.kill(old, signal.SIGKILL)
            # Groups that do not exist, beyond the largest process id, on both sides of the real one.
            for absent in range(5_000_000, 5_020_000):
                guardian.watch(absent)
            guardian.watch(group)
            await wait_until(lambda: guardian.pid not in (None, old))
            await trio.sleep(0.1)
            assert len(living(group)) == 3
        await wait_until(lambda: not living(group))


async def test_the_guardian_is_small() -> None:
    async with Guardian.open() as guardian:
        await wait_ready(guardian.pid)
        assert resident_kib(guardian.pid) < 20_000
