"""``trisched nodes`` and ``trisched queues``: who works, and what waits."""

from __future__ import annotations

from typing import Final

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.render import Column, Output, field, output_option, print_list
from trisched.client import Client

_NODE_COLUMNS: Final[tuple[Column, ...]] = (
    ("id", field("id")),
    ("state", field("state")),
    ("leader", field("leader")),
    ("active", field("active_jobs")),
    ("concurrency", field("concurrency")),
    ("tags", field("tags")),
    ("queues", lambda node: node.get("queues") or "all"),
    ("host", field("host")),
    ("last seen", field("last_seen")),
)
_QUEUE_COLUMNS: Final[tuple[Column, ...]] = (
    ("name", field("name")),
    ("pending", field("pending")),
    ("queued", field("queued")),
    ("running", field("running")),
    ("retrying", field("retrying")),
    ("held", field("held")),
    ("paused", field("paused")),
)


@click.group()
def nodes() -> None:
    """List the nodes of the cluster."""


@nodes.command("list")
@node_options
@output_option
def list_nodes(connection: Connection, output: Output) -> None:
    """List the nodes of the cluster."""
    print_list(output, connection.ask(Client.workers), _NODE_COLUMNS)


@click.group()
def queues() -> None:
    """List the queues."""


@queues.command("list")
@node_options
@output_option
def list_queues(connection: Connection, output: Output) -> None:
    """List the queues and what waits in them."""
    print_list(output, connection.ask(Client.queues), _QUEUE_COLUMNS, key="name")
