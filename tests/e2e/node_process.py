"""A node as its own process, the way a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx

ROOT = Path(__file__).resolve().parents[2]


@attrs.define
class NodeProcess:
    """A running ``trisched run``."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def get(self, path: str) -> Any:
        answer = httpx.get(self.url + path, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def wait_for_run(self, run_id: str, *statuses: str, timeout: float = 30) -> Any:
        """The run once it has one of ``statuses``."""
        deadline = time.monotonic() + timeout
        while True:
            run = self.get(f"/api/runs/{run_id}")
            if run["status"] in statuses:
                return run
            if time.monotonic() > deadline:
                raise AssertionError(f"{run_id} is {run['status']}, not {' or '.join(statuses)}: {run}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout: float = 45) -> int:
        """Sends a signal and waits for the end; the exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout)


@contextmanager
def running_node(directory: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> Iterator[NodeProcess]:
    """``trisched run`` on a free port, with its data in ``directory``; killed at the end if it still lives."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "node.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRISCHED_")}
    environment |= {"PYTHONPATH": str(ROOT), **(variables or {})}
    command = [
        sys.executable,
        "-m",
        "trisched",
        "run",
        *arguments,
        "--port",
        "0",
        "--data-dir",
        str(directory / "data"),
    ]
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=file, stderr=file, text=True)
    try:
        yield NodeProcess(process, _url(process, directory / "data" / "node.json", log), log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _url(process: subprocess.Popen[str], card: Path, log: Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the node ended with {process.returncode}:\n{log.read_text()}")
        if card.exists():
            about = json.loads(card.read_text())
            if about["pid"] == process.pid:
                return str(about["url"])
        time.sleep(0.02)
    raise AssertionError(f"the node did not come up:\n{log.read_text()}")


def wait_until(what: str, condition: Callable[[], object], timeout: float = 30) -> None:
    """Returns when ``condition`` holds; fails after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s for {what}"
        time.sleep(0.05)
