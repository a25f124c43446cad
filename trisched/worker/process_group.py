"""Process groups: sends them signals, and knows when nobody in one is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import trio

_POLL: Final = 0.02
_PROC: Final = Path("/proc")


def signal_group(pgid: int, number: int) -> bool:
    """Sends a signal to the group (0: only asks); False when nobody is left that we may signal."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def wait_group_gone(pgid: int) -> None:
    """Returns when every process of the group has ended; the caller sets the bound.

    Orphans that have ended stay in the group until init reaps them, which some take their time to do: the
    kernel's process table tells them from the living. It is read as a whole only to learn who is there.
    """
    while signal_group(pgid, 0):
        await trio.sleep(_POLL)
        members = await trio.to_thread.run_sync(_living_members, pgid)
        if members is None:
            continue
        if not members:
            return
        while any(_lives(pid, pgid) for pid in members):  # noqa: ASYNC110 - their ends send no event to us
            await trio.sleep(_POLL)


def _living_members(pgid: int) -> list[int] | None:
    """Who is in the group and has not ended; None where the system has no such table."""
    try:
        entries = os.listdir(_PROC)  # noqa: PTH208 - names are enough, and there may be thousands
    except OSError:
        return None
    return [int(entry) for entry in entries if entry.isdecimal() and _lives(int(entry), pgid)]


def _lives(pid: int, pgid: int) -> bool:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return False
    # The fields follow the name, which is in parentheses and may hold any character.
    state, _, group = stat.rpartition(b")")[2].split()[:3]
    return int(group) == pgid and state not in (b"Z", b"X")
