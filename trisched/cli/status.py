"""``trisched status``: the state of the node and its cluster at a glance."""

from __future__ import annotations

from typing import Any, Final

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.render import Column, Output, field, output_option, print_object
from trisched.client import Client, JsonObject

_COLUMNS: Final[tuple[Column, ...]] = (
    ("state", field("state")),
    ("url", field("url")),
    ("version", field("version")),
    ("node", field("node")),
    ("leader", field("leader")),
    ("database", lambda system: _joined(system.get("database"))),
    ("nodes", field("nodes")),
    ("jobs", field("jobs")),
    ("alarms", lambda system: "\n".join(f"{alarm['job']}: {alarm['text']}" for alarm in system.get("alarms", ()))),
)


def _joined(part: Any) -> str | None:
    if not isinstance(part, dict):
        return None
    return ", ".join(str(value) for value in part.values() if isinstance(value, str))


@click.command()
@node_options
@output_option
def status(connection: Connection, output: Output) -> None:
    """Show the state of the node and its cluster."""

    async def ask(client: Client) -> JsonObject:
        system = await client.system()
        nodes = [node["id"] for node in await client.workers() if node["state"] != "left"]
        return {"url": client.url, **system, "nodes": nodes, "jobs": (await client.jobs(limit=1))["total"]}

    print_object(output, connection.ask(ask), _COLUMNS, key="node")
