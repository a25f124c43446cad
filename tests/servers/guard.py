"""Runs one server process and ends it, and removes its directory, as soon as the starter is gone.

    starter ──stdin──▶ guard ──signals──▶ server
       ▲                 │
       └──────stdout─────┘   the server's pid, then end of file once the server has ended

The starter holds the only writing end of the guard's standard input. The kernel closes it however the starter
ends, kill -9 included, so the end of that file is the order to clean up. ``keep`` sent before it means that
the directory stays, for a restart.

This program stands alone (no imports from the project), so that it starts in a few milliseconds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

STOP_SECONDS = 10.0


def main() -> None:
    """Obeys the order given as JSON in the first argument."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    directory = Path(order["directory"])
    server = _start(order, directory)
    waiter = threading.Thread(target=_report_end, args=(server,), daemon=True)
    waiter.start()
    last_word = sys.stdin.buffer.read()
    if server is not None:
        _end(server, waiter, signal.Signals(order["stop_signal"]))
    if last_word != b"keep":
        shutil.rmtree(directory, ignore_errors=True)


def _start(order: dict[str, Any], directory: Path) -> subprocess.Popen[bytes] | None:
    """The server, or None when it could not be prepared or started; the log says why."""
    identity: dict[str, Any] = {}
    if order["uid"] is not None:
        identity = {"user": order["uid"], "group": order["gid"], "extra_groups": []}
    with (directory / "log").open("wb") as log:
        try:
            for argv in order["prepare"]:
                subprocess.run(
                    argv,
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    check=True,
                    **identity,
                )
            server = subprocess.Popen(
                order["argv"], cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **identity
            )
        except (OSError, subprocess.CalledProcessError) as error:
            log.write(f"{error}\n".encode())
            return None
    os.write(1, f"{server.pid}\n".encode())
    return server


def _report_end(server: subprocess.Popen[bytes] | None) -> None:
    """Closes standard output once there is no server any more: that is how the starter learns of it."""
    if server is not None:
        server.wait()
    os.close(1)


def _end(server: subprocess.Popen[bytes], waiter: threading.Thread, stop_signal: signal.Signals) -> None:
    """Asks the server to stop, and kills it when it does not (it may be frozen by a test)."""
    server.send_signal(stop_signal)
    server.send_signal(signal.SIGCONT)
    waiter.join(STOP_SECONDS)
    if waiter.is_alive():
        server.kill()
        waiter.join(STOP_SECONDS)


if __name__ == "__main__":
    main()
