"""Kills the process groups of a node that died or lost its lease; runs as a child of the node.

Started as ``python -I -S guardian_child.py NODE_PID`` with a pipe on stdin, it reads lines:

    +PGID               guard this group
    -PGID               the group has ended
    begin CLAIM RUN     processes with this mark in their environment belong to an attempt under way
    end CLAIM RUN       the attempt is over: a process that still has the mark left its group, and is killed
    deadline SECONDS    the node may work until this instant of the boottime clock

and kills every guarded group, and all that has a mark, when the pipe ends, when the node's process is gone (a forked
copy of the node may hold the pipe open), or when the deadline passes without a newer one. It imports next to nothing:
it must start fast, stay small, and work while the node is stopped or dead.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: Waiting does not count the time that the machine is suspended, the deadline does: look again this often.
_LONGEST_WAIT = 1.0
#: The process table is searched at most this often, and never for more than this part of the time.
_SEARCH_PAUSE = 1.0
_SEARCH_SHARE = 0.02
#: One that is killed may have started another meanwhile.
_ROUNDS = 4
_CLAIM, _RUN = b"TRISCHED_CLAIM_ID=", b"TRISCHED_RUN_ID="
#: The claim and the run that a process was started for.
Mark = tuple[bytes, bytes]


def read_mark(pid: int) -> Mark | None:
    """The mark that a process of this user was started with."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():  # noqa: PTH116 - paths are slow to import
            return None
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError:
        return None
    if _CLAIM not in data:
        return None
    claim = run = b""
    for variable in data.split(b"\0"):
        if variable.startswith(_CLAIM):
            claim = variable[len(_CLAIM) :]
        elif variable.startswith(_RUN):
            run = variable[len(_RUN) :]
    return (claim, run) if claim and run else None


def kill_marked(pid: int, mark: Mark) -> bool:
    """Kills the process if it has the mark: the number may be another's by now."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return False
    try:
        if read_mark(pid) != mark:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def process_ids() -> list[int]:
    """All processes of this host; none where the system has no such table."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return []


class Guard:
    """The groups and marks to kill, and until when the node may work."""

    def __init__(self, pipe: int) -> None:
        self.groups: set[int] = set()
        self.marks: set[Mark] = set()
        #: Attempts that are over: whoever has one of these marks is to be killed by the next search.
        self.ended: set[Mark] = set()
        self.deadline: float | None = None
        self.search_at = 0.0
        self.open = True
        self._pipe = pipe
        self._rest = b""

    def read(self) -> None:
        """Obeys every line that is there, and notes when the pipe has ended."""
        while self.open:
            try:
                data = os.read(self._pipe, 65536)
            except BlockingIOError:
                return
            self.open = bool(data)
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
            elif line.startswith(b"begin "):
                _, claim, run = line.split(b" ")
                self.marks.add((claim, run))
            elif line.startswith(b"end "):
                _, claim, run = line.split(b" ")
                self._end((claim, run))
            elif line.startswith(b"deadline "):
                self.deadline = float(line[9:])
        except ValueError:
            return

    def _end(self, mark: Mark) -> None:
        self.marks.discard(mark)
        if not self.ended:
            # Others may end meanwhile: they are searched for together.
            self.search_at = max(self.search_at, time.monotonic() + _SEARCH_PAUSE / 2)
        self.ended.add(mark)

    def wait_ms(self) -> float | None:
        """How long to sleep before something needs a look; None when there is nothing to kill."""
        waits = []
        if self.deadline is not None and (self.groups or self.marks):
            waits.append(min(self.deadline - time.clock_gettime(_CLOCK), _LONGEST_WAIT))
        if self.ended:
            waits.append(self.search_at - time.monotonic())
        return max(0.0, min(waits)) * 1000 if waits else None

    def act(self) -> None:
        """Does what is due: at the deadline all is killed, else what attempts left behind."""
        if self.deadline is not None and time.clock_gettime(_CLOCK) >= self.deadline:
            self.kill_all()
        elif self.ended and time.monotonic() >= self.search_at:
            self._search()

    def kill_all(self) -> None:
        """Kills every guarded group at once, then whoever left its group."""
        while self.groups:
            try:
                os.killpg(self.groups.pop(), signal.SIGKILL)
            except OSError:
                continue
        self.ended |= self.marks
        self.marks.clear()
        if self.ended:
            self._search()

    def _search(self) -> None:
        """Kills all processes that have the mark of an attempt that is over."""
        began, marks = time.monotonic(), self.ended
        self.ended = set()
        for _ in range(_ROUNDS):
            found = [kill_marked(pid, mark) for pid, mark in self._marked(marks)]
            if not any(found):
                break
        took = time.monotonic() - began
        self.search_at = began + max(_SEARCH_PAUSE, took / _SEARCH_SHARE)

    def _marked(self, marks: set[Mark]) -> Iterator[tuple[int, Mark]]:
        for count, pid in enumerate(process_ids()):
            if count % 64 == 0:
                # With very many processes this takes a while: the node must never find the pipe full.
                self.read()
            if pid not in self.groups and (mark := read_mark(pid)) in marks:
                assert mark is not None
                yield pid, mark


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
    guard, poll, node_pid = Guard(0), select.poll(), int(sys.argv[1])
    os.set_blocking(0, False)
    poll.register(0, select.POLLIN)
    wake_at_end_of(node_pid, poll)
    while True:
        # In this order: once the node is gone, the pipe holds everything that it ever said.
        gone = os.getppid() != node_pid
        guard.read()
        if gone or not guard.open:
            break
        guard.act()
        poll.poll(guard.wait_ms())
    guard.kill_all()


if __name__ == "__main__":
    main()
