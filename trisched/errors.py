"""Every error that trisched raises on purpose.

TrischedError
├── Invalid                 input that breaks a rule; carries (path, message) pairs
│   └── Cycle               dependencies that lead back to themselves; carries the path found
├── Unreadable              input that is not what it claims to be (broken JSON, broken TOML)
├── NotFound                no job, run, node or queue of that id or name
├── Conflict                the stored state forbids the change
│   └── Stale               the caller's revision is not the newest
├── TooLarge                input beyond its limit
├── Misconfigured           the node cannot start like this; the text says what to change
│   ├── NodeAlreadyRunning  the SQLite file has a living owner
│   ├── SchemaTooNew        the database was written by a newer trisched
│   └── MissingExtra        an optional driver is not installed
├── StoreError              the database did not do what was asked
│   ├── StoreUnavailable    it cannot be reached, or was lost on the way: outcome unknown
│   └── StoreFull           it has no room left
├── RunFailed               a run that was waited for did not complete
└── WaitTimeout             a run that was waited for is not finished yet
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs


class TrischedError(Exception):
    """The root: catch this to catch all of ours."""


@attrs.frozen
class FieldError:
    """One broken rule: where (``schedule.cron``, ``jobs[2].name``) and what to do about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Invalid(TrischedError):
    """Input that breaks one rule or more; nothing was stored."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))

    @classmethod
    def at(cls, path: str, message: str) -> Invalid:
        """One broken rule."""
        return cls([FieldError(path, message)])


class Cycle(Invalid):
    """Dependencies that lead back to themselves."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = tuple(path)
        super().__init__([FieldError("depends_on", "a cycle: " + " → ".join(self.path))])


class Unreadable(TrischedError):
    """Input that cannot be parsed at all."""


class NotFound(TrischedError):
    """Nothing of that kind has that id or name."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"no {kind} {name!r}")


class Conflict(TrischedError):
    """The stored state forbids the change; the text says which state."""


class Stale(Conflict):
    """The caller changed an older revision than the stored one."""


class TooLarge(TrischedError):
    """Input beyond its limit; the text names the limit."""


class Misconfigured(TrischedError):
    """The node cannot start like this; the text says what to change."""


class NodeAlreadyRunning(Misconfigured):
    """A living process owns the SQLite file."""

    def __init__(self, path: str, pid: str) -> None:
        self.path, self.pid = path, pid
        super().__init__(
            f"{path} is in use by the node with pid {pid}; SQLite serves one node. Stop that one, "
            "use another --data-dir, or use Postgres for several nodes"
        )


class SchemaTooNew(Misconfigured):
    """The database was migrated by a newer trisched than this one."""

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"the database has schema version {found}, this trisched knows up to {known}; upgrade trisched on this host"
        )


class MissingExtra(Misconfigured):
    """An optional driver is not installed."""

    def __init__(self, extra: str) -> None:
        super().__init__(f"this needs an optional driver: pip install 'trisched[{extra}]'")


class StoreError(TrischedError):
    """The database did not do what was asked."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or the connection broke: the outcome is unknown."""


class StoreFull(StoreError):
    """The database has no room left; nothing was stored."""


class RunFailed(TrischedError):
    """A run that was waited for ended, but not as completed."""

    def __init__(self, run_id: str, status: str, reason: str | None) -> None:
        self.run_id, self.status, self.reason = run_id, status, reason
        super().__init__(f"{run_id} is {status}" + (f": {reason}" if reason else ""))


class WaitTimeout(TrischedError):
    """A run that was waited for is not finished yet; it goes on."""

    def __init__(self, run_id: str, status: str) -> None:
        self.run_id, self.status = run_id, status
        super().__init__(f"{run_id} is still {status}")
