"""Kills the process groups of a node that died or lost its lease; runs as a child of the node.

Started as ``python -I -S guardian_child.py NODE_PID`` with a pipe on stdin, it reads lines:

    +PGID               guard this group
    -PGID               the group has ended
    deadline SECONDS    the node may work until this instant of the boottime clock

and kills every guarded group when the pipe ends, when the node's process is gone (a forked copy of the node
may hold the pipe open), or when the deadline passes without a newer one. It imports next to nothing: it must
start fast, stay small, and work while the node is stopped or dead.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: Waiting does not count the time that the machine is suspended, the deadline does: look again this often.
_LONGEST_WAIT = 1.0


class Guard:
    """The groups to kill, and until when the node may work."""

    def __init__(self) -> None:
        self.groups: set[int] = set()
        self.deadline: float | None = None
        self._rest = b""

    def read(self, pipe: int) -> bool:
        """Obeys every line that is there; False when the pipe has ended."""
        while True:
            try:
                data = os.read(pipe, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self.obey(line)

    def obey(self, line: bytes) -> None:
        """Takes one line of the pipe; a broken one is ignored, for the others still count."""
        try:
            if line.startswith(b"+") and int(line) > 1:
                self.groups.add(int(line))
            elif line.startswith(b"-"):
                self.groups.discard(-int(line))
            elif line.startswith(b"deadline "):
                self.deadline = float(line[9:])
        except ValueError:
            return

    def wait_ms(self) -> float | None:
        """How long to sleep before the deadline needs a look; None when there is nothing to kill."""
        if self.deadline is None or not self.groups:
            return None
        left = self.deadline - time.clock_gettime(_CLOCK)
        return max(0.0, min(left, _LONGEST_WAIT)) * 1000

    def enforce_deadline(self) -> None:
        """Kills when the time is over."""
        if self.deadline is not None and time.clock_gettime(_CLOCK) >= self.deadline:
            self.kill_all()

    def kill_all(self) -> None:
        """Kills every guarded group at once."""
        while self.groups:
            try:
                os.killpg(self.groups.pop(), signal.SIGKILL)
            except OSError:
                continue


def wake_at_end_of(node_pid: int, poll: select.poll) -> None:
    """Lets the poll return when the node's process ends, where the system can tell."""
    try:
        poll.register(os.pidfd_open(node_pid), select.POLLIN)
    except (AttributeError, OSError):
        return


def main() -> None:
    """Guards until the node is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guard, poll, node_pid = Guard(), select.poll(), int(sys.argv[1])
    os.set_blocking(0, False)
    poll.register(0, select.POLLIN)
    wake_at_end_of(node_pid, poll)
    while True:
        # In this order: once the node is gone, the pipe holds everything that it ever said.
        gone = os.getppid() != node_pid
        if not guard.read(0) or gone:
            break
        guard.enforce_deadline()
        poll.poll(guard.wait_ms())
    guard.kill_all()


if __name__ == "__main__":
    main()
