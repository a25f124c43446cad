"""Starts commands: as many at once as there is room for, and again where the system had no room for one more."""

from __future__ import annotations

import errno
import itertools
import logging
import resource
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from trisched.worker.descriptors import Descriptors
from trisched.worker.executors import Turn

log = logging.getLogger(__name__)
#: The system lacks something that others give back before long: files, processes, memory.
_SHORT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
#: A command that cannot be started for so long has failed.
PATIENCE: Final = 60.0
_QUIET: Final = 10.0
#: Commands that are started at the same moment; more of them do not start sooner.
_STARTING: Final = 8


class Spawner:
    """The places for commands on this node. While one waits for its turn, its time-out does not count."""

    def __init__(self, descriptors: Descriptors | None = None, *, patience: float = PATIENCE) -> None:
        self._descriptors, self._patience = descriptors, patience
        self._places = None if descriptors is None else trio.CapacityLimiter(descriptors.commands)
        # Pipes are opened before a thread is free to start the command: those that wait must have none.
        self._starting = trio.CapacityLimiter(_STARTING)
        self._complained_at = float("-inf")

    @asynccontextmanager
    async def place(self, turn: Turn | None) -> AsyncIterator[None]:
        """A place for one command, for as long as the block lasts."""
        if self._places is None:
            yield
            return
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            if turn is not None:
                turn.waits()
            await self._places.acquire()
            if turn is not None:
                turn.begins()
        try:
            yield
        finally:
            self._places.release()

    async def start(
        self, arguments: Sequence[str], *, cwd: str | None, env: Mapping[str, str], turn: Turn | None
    ) -> trio.Process:
        """The command in a session of its own, its output in pipes; OSError or ValueError if it cannot be started."""
        give_up = trio.current_time() + self._patience
        for tries in itertools.count():
            try:
                async with self._starting:
                    process = await _open(arguments, cwd, env)
            except OSError as error:
                if error.errno not in _SHORT_OF or trio.current_time() >= give_up:
                    raise
                self._complain(error)
            else:
                if tries and turn is not None:
                    turn.begins()
                self._give_limit_back(process.pid)
                return process
            if turn is not None:
                turn.waits()
            await trio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        raise AssertionError

    def _complain(self, error: OSError) -> None:
        now = trio.current_time()
        if now >= self._complained_at + _QUIET:
            self._complained_at = now
            log.warning("the system has no room for another process; trying again", extra={"reason": error.strerror})

    def _give_limit_back(self, pid: int) -> None:
        """The node raised its limit of open files; programs that close them all at their start count on a low one."""
        if self._descriptors is None or self._descriptors.found == self._descriptors.limit:
            return
        try:
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (self._descriptors.found, hard))
        except (AttributeError, OSError, ValueError):
            return


async def _open(arguments: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> trio.Process:
    try:
        return await trio.lowlevel.open_process(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except RuntimeError as error:
        if "thread" not in str(error):
            raise
        # Processes are started from threads, and a thread may be the one process too many.
        raise OSError(errno.EAGAIN, str(error)) from error
