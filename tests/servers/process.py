"""A server process that ends with the one that started it, in a directory and on a port of its own."""

from __future__ import annotations

import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import attrs

T = TypeVar("T")

GUARD = Path(__file__).with_name("guard.py")
START_SECONDS = 60.0
STOP_SECONDS = 30.0
PORT_TRIES = 5


class CannotStart(Exception):
    """No server of that kind could be had; the text says what was tried and what to do."""


class PortTaken(Exception):
    """Somebody else bound the port between our choice and the server's start."""


@attrs.frozen
class Owner:
    """The account that a server runs under: Postgres refuses to run as root."""

    uid: int
    gid: int

    @classmethod
    def unprivileged(cls) -> Owner | None:
        """None when this process is unprivileged already."""
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid)
        raise CannotStart("as root, Postgres needs an account named postgres or nobody to run under")


class GuardedProcess:
    """A server process that ends with this one, and its directory."""

    def __init__(self, directory: Path, *, owner: Owner | None, stop_signal: signal.Signals) -> None:
        self.directory = directory
        self._owner = owner
        self._stop_signal = stop_signal
        self.argv: Sequence[str] = ()
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The server's own process id, also after its end."""
        if self._pid is None:
            raise CannotStart("the server was never started")
        return self._pid

    def launch(self, argv: Sequence[str], *, prepare: Sequence[Sequence[str]] = ()) -> None:
        """Starts ``argv`` after the commands of ``prepare``; returns as soon as it has a pid."""
        self.argv = argv
        order = {
            "argv": argv,
            "prepare": prepare,
            "directory": str(self.directory),
            "uid": self._owner and self._owner.uid,
            "gid": self._owner and self._owner.gid,
            "stop_signal": self._stop_signal,
        }
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_clean_environment(os.environ),
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        first_line = self._guard.stdout.readline()
        if not first_line:
            raise CannotStart(self.log())
        self._pid = int(first_line)

    def wait_ready(self, is_ready: Callable[[], bool]) -> None:
        """Returns once ``is_ready`` says so; raises when the server ends first or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if self.has_ended():
                if re.search("address already in use", self.log(), re.IGNORECASE):
                    raise PortTaken
                raise CannotStart(self.log())
            if time.monotonic() > deadline:
                raise CannotStart(f"no answer within {START_SECONDS:.0f} s\n{self.log()}")
            time.sleep(0.02)

    def has_ended(self) -> bool:
        """The guard closes its output, which makes it readable, when the server is no more."""
        if self._guard is None or self._guard.stdout is None:
            return True
        readable, _, _ = select.select([self._guard.stdout], [], [], 0)
        return bool(readable)

    def end(self, *, keep_directory: bool = False) -> None:
        """Ends the server, and removes its directory unless it is kept for a restart."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(b"keep" if keep_directory else b"", timeout=STOP_SECONDS)
        if not keep_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def log(self) -> str:
        """The last lines that the server wrote."""
        path = self.directory / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else "(no log)"


class Server:
    """What the servers share: an address, and a process unless somebody else runs the server."""

    def __init__(self, url: str, process: GuardedProcess | None) -> None:
        self.url = url
        self._process = process

    @property
    def process(self) -> GuardedProcess:
        """The process of a server that was started here."""
        if self._process is None:
            raise CannotStart(f"{self.url} was not started by this test, which needs a server of its own")
        return self._process

    @property
    def pid(self) -> int:
        """The server's process id, to freeze or kill it."""
        return self.process.pid

    @property
    def directory(self) -> Path:
        """Where the server keeps all its files."""
        return self.process.directory

    def answers(self) -> bool:
        """Whether *this* server answers, not another one that took its port."""
        raise NotImplementedError

    def stop(self, *, keep_data: bool = False) -> None:
        """Ends the server, if it was started here; with ``keep_data``, ``restart`` brings it back."""
        if self._process is not None:
            self._process.end(keep_directory=keep_data)

    def restart(self) -> None:
        """Stops the server, if it runs, and starts it again on the same port and data."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            self.process.end(keep_directory=True)
            try:
                self.process.launch(self.process.argv)
                self.process.wait_ready(self.answers)
                return
            except (CannotStart, PortTaken):
                # What remains of a server killed with -9 holds its port and memory for a moment.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def new_directory(prefix: str, owner: Owner | None) -> Path:
    """A new directory with a short path that ``owner`` can reach."""
    # TMPDIR may be private to this account or deep, so it is not asked.
    parent = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    if owner is not None:
        os.chown(directory, owner.uid, owner.gid)
    return directory


def retry_ports(start: Callable[[int], T]) -> T:
    """What ``start`` gives for a free port; another port is tried when it raises ``PortTaken``."""
    for _ in range(PORT_TRIES):
        try:
            return start(_free_port())
        except PortTaken:
            continue
    raise CannotStart(f"{PORT_TRIES} free ports in a row were taken by others before the server could bind them")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without PGDATA, PGPORT and the like, which would steer the server; messages in English."""
    return {name: value for name, value in environment.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
