"""How a command reaches a node: the options that name it, and the client that talks to it."""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click
import trio

from trisched.client import Client, discover
from trisched.config import load

T = TypeVar("T")
CONFIG_FILE: Final = Path("trisched.toml")


@attrs.frozen
class Connection:
    """The address of a node."""

    url: str

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """What the node answers; its errors are trisched's own."""

        async def talk() -> T:
            async with Client(self.url) as client:
                return await question(client)

        return trio.run(talk)


def config_file(named: str | None) -> Path | None:
    """The file that was named, else ``trisched.toml`` of this directory where there is one."""
    if named is not None:
        return Path(named)
    return CONFIG_FILE if CONFIG_FILE.exists() else None


def find_url(data_dir: str | None) -> str:
    """The address of the node of this directory's configuration."""
    settings = load({"data_dir": data_dir}, os.environ, config_file(os.environ.get("TRISCHED_CONFIG") or None))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return discover(settings.data_dir, os.environ, f"http://{host}:{settings.port or 8000}")


def node_options(command: Callable[..., T]) -> Callable[..., T]:
    """Adds ``--url`` and ``--data-dir``; the command gets a Connection as its first argument."""

    @click.option(
        "--url", envvar="TRISCHED_URL", show_envvar=True, help="Address of the node. [default: the one found]"
    )
    @click.option(
        "--data-dir",
        envvar="TRISCHED_DATA_DIR",
        show_envvar=True,
        help="Data directory of the node, where its address is found. [default: .trisched]",
    )
    @functools.wraps(command)
    def connected(url: str | None, data_dir: str | None, **options: Any) -> T:
        return command(Connection(url or find_url(data_dir)), **options)

    return connected
