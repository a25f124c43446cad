"""Makes sure that commands die with their node, also when it is killed with -9 or stopped.

    node ──"+1234"──▶ pipe ──▶ guardian child ──SIGKILL──▶ process groups
         (pipe ends with the node; the lease's deadline comes over it as well)

One child process serves a node. If the child dies or hangs, a new one takes over all live groups.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

_log = logging.getLogger(__name__)

_PROGRAM: Final = Path(__file__).with_name("guardian_child.py")
#: A write of at most this many bytes to a pipe is whole or not at all (POSIX guarantees 512).
_WHOLE_WRITE: Final = 512
_RESTART_PAUSE: Final = 0.2
_STOP_BOUND: Final = 2.0


class Guardian:
    """The node's side. ``watch``, ``forget`` and ``renew`` never block; call them from the Trio thread."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
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
        pending = list(self._groups)
        while pending and self._pipe is not None and not self._broken.is_set():
            # A group that ended while the pipe was full must not be named again: look at each write.
            batch = [pgid for pgid in pending[:32] if pgid in self._groups]
            lines = "".join(f"+{pgid}\n" for pgid in batch).encode()
            assert len(lines) <= _WHOLE_WRITE
            try:
                os.write(self._pipe, lines)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._pipe)
            except OSError:
                self._broken.set()
            else:
                del pending[:32]

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
