"""File descriptors: raises the limit of this process, and says how many commands may run at once below it."""

from __future__ import annotations

import resource
from typing import Final

import attrs

#: What a command takes while it runs: a pipe for each of its two streams, and a handle to wait for its end.
PER_COMMAND: Final = 3
#: For the database, the web interface, and commands that are just being started.
RESERVE: Final = 512
#: No node needs more, and some systems call a number without end a limit.
_MOST: Final = 1 << 20


@attrs.frozen
class Descriptors:
    """The limit as it was found, which commands get back, and as it is now."""

    found: int
    limit: int

    @property
    def commands(self) -> int:
        """How many commands may run at once."""
        return max(1, (self.limit - min(RESERVE, self.limit // 2)) // PER_COMMAND)

    def shortage(self, concurrency: int) -> str | None:
        """What to tell whoever asked for more attempts at once than commands can be; None if all is well."""
        if concurrency <= self.commands:
            return None
        return (
            f"at most {self.commands:,} of {concurrency:,} attempts can be commands at the same time, for a process "
            f"may open {self.limit:,} files here: the others wait; `ulimit -Hn {concurrency * PER_COMMAND + RESERVE}` "
            "before the start allows all"
        )


def raise_limit() -> Descriptors:
    """Raises the number of files that this process may open as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return Descriptors(most if soft == resource.RLIM_INFINITY else soft, max(most, soft))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return Descriptors(soft, soft)
    return Descriptors(soft, most)
