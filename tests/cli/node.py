"""A real node as a process of its own, and the commands that talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import attrs

#: Far more than a start takes on a machine that is busy with other tests.
START_LIMIT = 60.0


@attrs.define
class Command:
    """What a finished command said."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, without any setting of trisched but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRISCHED_")}
    return kept | {"NO_COLOR": "1"} | variables


def trisched(*arguments: str, cwd: Path, stdin: str | None = None, **variables: str) -> Command:
    """Runs one command to its end."""
    answer = subprocess.run(
        [sys.executable, "-m", "trisched", *arguments],
        cwd=cwd,
        env=environment(**variables),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    return Command(answer.returncode, answer.stdout, answer.stderr)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Returns when it is so; fails when it never is."""
    deadline = time.monotonic() + START_LIMIT
    while not is_so():
        assert time.monotonic() < deadline, "this never came true"


class Node:
    """``trisched run`` in ``directory``; use it as a context manager."""

    def __init__(self, directory: Path, *arguments: str, **variables: str) -> None:
        self.directory = directory
        # Files, not pipes: nobody reads while the node runs.
        self._stdout, self._stderr = directory / "stdout.txt", directory / "stderr.txt"
        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trisched", "run", "--port", "0", *arguments],
                cwd=directory,
                env=environment(**variables),
                stdout=stdout,
                stderr=stderr,
            )

    def __enter__(self) -> Self:
        self.wait_started()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def wait_started(self) -> None:
        """Returns when the node has announced itself; its address is found by then."""
        deadline = time.monotonic() + START_LIMIT
        while "Ctrl-C to stop" not in self.stdout:
            assert self.process.poll() is None, f"exit {self.process.returncode}: {self.stderr}"
            assert time.monotonic() < deadline, f"no start: {self.stdout}{self.stderr}"
            time.sleep(0.02)

    def command(self, *arguments: str, stdin: str | None = None, **variables: str) -> Command:
        """A command in the node's own directory, which finds the node by itself."""
        return trisched(*arguments, cwd=self.directory, stdin=stdin, **variables)

    def stop(self) -> int:
        """Asks the node to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_LIMIT)
