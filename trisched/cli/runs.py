"""``trisched runs``: looks at runs, cancels them and gives them new attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.render import (
    Column,
    Item,
    Output,
    field,
    output_option,
    print_json,
    print_list,
    print_object,
    print_rows,
    progress_text,
    seconds,
)
from trisched.cli.words import STATUS_WORDS
from trisched.client import Client, JsonObject, failure_of

#: The most that the node gives in one page.
_PAGE: Final = 1000
_LIST_COLUMNS: Final[tuple[Column, ...]] = (
    ("id", field("id")),
    ("job", field("job")),
    ("status", field("status")),
    ("queue", field("queue")),
    ("priority", field("priority")),
    ("created", field("created_at")),
    ("duration", seconds("duration")),
    ("worker", field("worker")),
)
_SHOW_COLUMNS: Final[tuple[Column, ...]] = (
    ("id", field("id")),
    ("job", field("job")),
    ("status", field("status")),
    ("reason", failure_of),
    ("parameters", field("parameters")),
    ("queue", field("queue")),
    ("priority", field("priority")),
    ("slot", field("slot")),
    ("due", field("due_at")),
    ("created", field("created_at")),
    ("started", field("started_at")),
    ("finished", field("finished_at")),
    ("duration", seconds("duration")),
    ("worker", field("worker")),
    ("progress", lambda run: None if run.get("progress") is None else progress_text(run["progress"])),
    ("result", field("result")),
)
_ATTEMPT_COLUMNS: Final[tuple[Column, ...]] = (
    ("attempt", field("number")),
    ("outcome", field("outcome")),
    ("worker", field("worker")),
    ("started", field("started_at")),
    ("duration", seconds("duration")),
    ("exit", field("exit_code")),
    ("error", field("error")),
)


@click.group()
def runs() -> None:
    """List, show, cancel and retry runs."""


@runs.command("list")
@node_options
@output_option
@click.option(
    "--status",
    type=click.Choice(STATUS_WORDS),
    show_envvar=True,
    help="Only runs of this status; failed, finished and active stand for several.",
)
@click.option("--job", show_envvar=True, help="Only runs of this job.")
@click.option("--queue", show_envvar=True, help="Only runs of this queue.")
@click.option("--worker", show_envvar=True, help="Only runs on this node.")
@click.option("--from", show_envvar=True, metavar="TIME", help="Only runs made at this moment or later.")
@click.option("--to", show_envvar=True, metavar="TIME", help="Only runs made before this moment.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    show_envvar=True,
    help="Most runs to list.",
)
def list_runs(connection: Connection, output: Output, limit: int, **filters: object) -> None:
    """List runs, the newest first."""

    async def collect(client: Client) -> tuple[list[JsonObject], bool]:
        found: list[JsonObject] = []
        cursor = None
        while len(found) < limit:
            page = await client.runs(**filters, limit=min(limit - len(found), _PAGE), cursor=cursor)
            found += page["runs"]
            cursor = page.get("next")
            if cursor is None:
                break
        return found, cursor is not None

    found, more = connection.ask(collect)
    print_list(output, found, _LIST_COLUMNS)
    if more:
        click.echo("there are more: raise --limit, or narrow the list down", err=True)


@runs.command("show")
@click.argument("run")
@node_options
@output_option
def show_run(connection: Connection, run: str, output: Output) -> None:
    """Show one run with its attempts."""
    print_run(output, connection.ask(lambda client: client.run(run)))


@runs.command("cancel")
@click.argument("run")
@node_options
@output_option
def cancel_run(connection: Connection, run: str, output: Output) -> None:
    """Take a waiting run back, or ask a running one to stop."""
    answer = connection.ask(lambda client: client.cancel(run))
    print_submitted(output, {"run_id": run, **answer})


@runs.command("retry")
@click.argument("run")
@node_options
@output_option
def retry_run(connection: Connection, run: str, output: Output) -> None:
    """Give a run new attempts; of a completed one, make a new run."""
    print_submitted(output, connection.ask(lambda client: client.retry(run)))


def print_run(output: Output, run: Item) -> None:
    """A run and, in a table of their own, its attempts."""
    print_object(output, run, _SHOW_COLUMNS)
    attempts: list[Mapping[str, Any]] = run.get("attempts") or []
    if output == "table" and attempts:
        click.echo()
        titles = [title for title, _ in _ATTEMPT_COLUMNS]
        print_rows(titles, [[cell(attempt) for _, cell in _ATTEMPT_COLUMNS] for attempt in attempts])


def print_submitted(output: Output, answer: Item) -> None:
    """The id of a run on stdout; what happened to it on stderr."""
    if output == "json":
        print_json(answer)
        return
    click.echo(answer["run_id"])
    if output == "table":
        found = " (this run was there already)" if answer.get("created") is False else ""
        click.echo(f"{answer.get('status')}{found}", err=True)
