"""Makes sure that commands die with their node, also when it is killed with -9 or stopped.

    node ──"+1234"──▶ pipe ──▶ guardian child ──SIGKILL──▶ process groups
         (pipe ends with the node; the lease's deadline comes over it as well)

What leaves its group is found by the mark in its environment. One child process serves a node. If the child dies
or hangs, a new one takes over all that lives.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

_log = logging.getLogger(__name__)

_PROGRAM: Final = Path(__file__).with_name("guardian_child.py")
#: Room for what is said while the child searches a long process table.
_PIPE_SIZE: Final = 256 << 10
_RESTART_PAUSE: Final = 0.2
_STOP_BOUND: Final = 2.0


class Guardian:
    """The node's side. What tells the child something never blocks; call it from the Trio thread."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        #: Attempts under way, as a claim and a run: what their processes have in their environment.
        self._marks: set[tuple[str, str]] = set()
        self._deadline: float | None = None
        self._pipe: int | None = None
        self._child: trio.Process | None = None
        self._broken = trio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Guardian]:
        """A guardian that is at work; when the block ends, the groups still watched are killed."""
        guardian = cls()
        try:
            await guardian._start()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(guardian._keep)
                try:
                    yield guardian
                finally:
                    nursery.cancel_scope.cancel()
        finally:
            await guardian._stop()

    @property
    def pid(self) -> int | None:
        """The process id of the child, None between two of them."""
        return None if self._child is None else self._child.pid

    def begin(self, claim_id: str, run_id: str) -> None:
        """From now on processes with this mark die with this node; said before the first of them starts."""
        self._marks.add((claim_id, run_id))
        self._tell(f"begin {claim_id} {run_id}\n")

    def end(self, claim_id: str, run_id: str) -> None:
        """The attempt is over: a process that still has its mark is killed before long."""
        self._marks.discard((claim_id, run_id))
        self._tell(f"end {claim_id} {run_id}\n")

    def watch(self, pgid: int) -> None:
        """From now on the group dies with this node."""
        self._groups.add(pgid)
        self._tell(f"+{pgid}\n")

    def forget(self, pgid: int) -> None:
        """The group has ended; its number may come back as another's."""
        self._groups.discard(pgid)
        self._tell(f"-{pgid}\n")

    def renew(self, deadline: float) -> None:
        """The node may work until ``deadline``, in seconds of the boottime clock."""
        self._deadline = deadline
        self._tell(f"deadline {deadline:.6f}\n")

    def _tell(self, line: str) -> None:
        if self._pipe is None or self._broken.is_set():
            return  # The next child is told everything when it starts.
        try:
            os.write(self._pipe, line.encode())
        except OSError:
            # Gone, or so long without reading that the pipe is full: as good as gone.
            self._broken.set()

    async def _keep(self) -> None:
        """Replaces a child that died or hangs."""
        while True:
            await self._wait_broken()
            _log.warning("the guardian process was lost; starting another")
            if self._child is not None:
                # First of all: a hanging child that wakes up to a closed pipe would kill what still runs.
                self._child.kill()
            await self._stop()
            await trio.sleep(_RESTART_PAUSE)
            try:
                await self._start()
            except OSError as error:
                _log.error("the guardian process cannot be started", extra={"reason": str(error)})
                self._broken.set()

    async def _wait_broken(self) -> None:
        if self._child is None:
            await trio.lowlevel.checkpoint()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_child, self._child)
            await self._broken.wait()
            nursery.cancel_scope.cancel()

    async def _wait_child(self, child: trio.Process) -> None:
        await child.wait()
        self._broken.set()

    async def _start(self) -> None:
        self._broken = trio.Event()
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        _enlarge(writing)
        self._pipe = writing
        try:
            self._child = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            self._close_pipe()
            raise
        finally:
            os.close(reading)
        await self._repeat()

    async def _repeat(self) -> None:
        """Tells a new child what the last one knew."""
        if self._deadline is not None:
            self.renew(self._deadline)
        # What ended while the pipe was full must not be named again: look at each write.
        for mark in list(self._marks):
            await self._repeat_one(partial(self._marks.__contains__, mark), f"begin {mark[0]} {mark[1]}\n")
        for pgid in list(self._groups):
            await self._repeat_one(partial(self._groups.__contains__, pgid), f"+{pgid}\n")

    async def _repeat_one(self, holds: Callable[[], bool], line: str) -> None:
        while holds() and self._pipe is not None and not self._broken.is_set():
            try:
                os.write(self._pipe, line.encode())
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._pipe)
            except OSError:
                self._broken.set()
            else:
                return

    async def _stop(self) -> None:
        """Closes the pipe, so a living child kills what it guards and ends; reaps it."""
        self._close_pipe()
        child, self._child = self._child, None
        if child is None:
            return
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_STOP_BOUND):
                await child.wait()
            if child.returncode is None:
                child.kill()
                with trio.move_on_after(_STOP_BOUND):
                    await child.wait()

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    except (AttributeError, OSError):
        return  # The usual size is enough, but for very many commands at once.
