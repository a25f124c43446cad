"""Serves the web interface inside the node: Hypercorn on the node's own loop, on a socket that is bound already."""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as hypercorn_serve
from hypercorn.typing import ASGIFramework

#: Requests under way get this long to end when the node stops.
GRACEFUL: Final = 3.0


async def serve(
    app: ASGIFramework,
    bound: socket.socket,
    stopping: trio.Event,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answers requests until ``stopping`` is set, and a little longer for those under way."""
    config = Config()
    config.bind = [f"fd://{os.dup(bound.fileno())}"]
    config.accesslog = None
    config.errorlog = _quiet_log()
    config.graceful_timeout = GRACEFUL
    config.include_server_header = False
    bound.close()
    async with trio.open_nursery() as nursery:
        await nursery.start(_hypercorn, app, config, stopping)
        task_status.started()


def _quiet_log() -> logging.Logger:
    """Where Hypercorn tells its troubles; where it listens, the node says itself."""
    log = logging.getLogger("trisched.web.hypercorn")
    log.setLevel(logging.WARNING)
    return log


async def _hypercorn(
    app: ASGIFramework, config: Config, stopping: trio.Event, *, task_status: trio.TaskStatus[list[str]]
) -> None:
    await hypercorn_serve(app, config, shutdown_trigger=stopping.wait, task_status=task_status)
