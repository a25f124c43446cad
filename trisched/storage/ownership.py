"""One node per SQLite file: a lock that the kernel frees when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from trisched.errors import Misconfigured, NodeAlreadyRunning


class Ownership:
    """The lock beside a SQLite file."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._lock = Path(f"{database}.lock")
        self._file: int | None = None

    def take(self) -> None:
        """Takes the lock, or says which process has it."""
        try:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Misconfigured(f"{self._lock} cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.read(file, 32).decode("ascii", "replace").strip()
            os.close(file)
            raise NodeAlreadyRunning(self._database, pid or "unknown") from None
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file

    def give_up(self) -> None:
        """Lets the lock go; the file stays, for removing it would race with the next owner."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
