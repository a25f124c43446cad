"""``trisched submit``: makes one run or many, and waits for one if asked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TextIO

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.parameters import parse_lines, parse_pairs
from trisched.cli.progress import bar, spinner
from trisched.cli.render import Output, output_option, print_json
from trisched.cli.runs import print_run, print_submitted
from trisched.cli.words import PRIORITIES
from trisched.client import Client, JsonObject
from trisched.errors import RunFailed, TrischedError

#: Runs in one request: one transaction each, and few enough to see the bar move.
_BATCH: Final = 1000


@click.command()
@click.argument("job")
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@node_options
@output_option
@click.option("--wait", is_flag=True, show_envvar=True, help="Wait until the run is over; exit 1 if it fails.")
@click.option("--timeout", "patience", show_envvar=True, help='With --wait: give up after this long, "90s".')
@click.option("--key", show_envvar=True, help="Repeating the command with the same key gives the same run.")
@click.option("--delay", show_envvar=True, help='Wait this long before it may start, such as "10m".')
@click.option("--at", show_envvar=True, help="Wait until this moment, such as 2027-01-31T09:00:00Z.")
@click.option("--priority", type=click.Choice(PRIORITIES), show_envvar=True, help="Who goes first.")
@click.option("--queue", show_envvar=True, help="Queue instead of the job's own.")
@click.option(
    "--file",
    "lines",
    type=click.File(encoding="utf-8"),
    show_envvar=True,
    help="Make a run of each line, a JSON object of parameters; - reads stdin.",
)
def submit(
    connection: Connection,
    job: str,
    pairs: tuple[str, ...],
    output: Output,
    wait: bool,
    patience: str | None,
    lines: TextIO | None,
    **options: Any,
) -> None:
    """Make a run of a job with parameters.

    A VALUE that is JSON is taken as such (count=3, ids=[1,2], draft=true), any other is text. With --file, the
    parameters of the command line hold for every line, and --key makes one key for each line from its place.
    """
    parameters = parse_pairs(pairs)
    if patience is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    if lines is not None:
        if wait:
            raise click.UsageError("--wait is for a single run; leave it out with --file")
        requests = _requests(job, parameters, parse_lines(lines, lines.name), options)
        _print_many(output, _submit_many(connection, requests))
        return
    answer = connection.ask(lambda client: client.submit(job, parameters, **options))
    if not wait:
        print_submitted(output, answer)
        return
    click.echo(f"{answer['run_id']} is {answer['status']}", err=True)
    _wait(connection, answer["run_id"], patience, output)


def _wait(connection: Connection, run_id: str, patience: str | None, output: Output) -> None:
    """Prints the run when it is over, whichever way, and then fails if it did."""
    failure: RunFailed | None = None
    with spinner(f"waiting for {run_id}") as tell:

        def watch(run: JsonObject) -> None:
            tell(f"({run['status']})")

        async def ask(client: Client) -> JsonObject:
            nonlocal failure
            try:
                return await client.wait(run_id, patience, watch=watch)
            except RunFailed as error:
                failure = error
                return await client.run(run_id)

        run = connection.ask(ask)
    print_run(output, run)
    if failure is not None:
        raise failure


def _requests(job: str, shared: JsonObject, lines: Sequence[JsonObject], options: dict[str, Any]) -> list[JsonObject]:
    key = options.pop("key")
    given = {name: value for name, value in options.items() if value is not None}
    requests = [{"job": job, "parameters": {**shared, **line}, **given} for line in lines]
    if key is not None:
        for number, request in enumerate(requests, start=1):
            request["key"] = f"{key}:{number}"
    return requests


def _submit_many(connection: Connection, requests: Sequence[JsonObject]) -> list[JsonObject]:
    made: list[JsonObject] = []

    async def send(client: Client, advance: Callable[[int], None]) -> None:
        for start in range(0, len(requests), _BATCH):
            made.extend(await client.submit_batch(requests[start : start + _BATCH]))
            advance(len(made) - start)

    with bar("submitting", len(requests)) as advance:
        try:
            connection.ask(lambda client: send(client, advance))
        except TrischedError:
            # What was stored stays stored; with --key the same command can simply be repeated.
            click.echo(f"{len(made):,} of {len(requests):,} runs were submitted before this:", err=True)
            raise
    return made


def _print_many(output: Output, made: Sequence[JsonObject]) -> None:
    if output == "json":
        print_json(made)
        return
    for each in made:
        click.echo(each["run_id"])
    if output == "table":
        known = sum(not each.get("created", True) for each in made)
        click.echo(f"{len(made):,} runs submitted" + (f", {known:,} of them before" if known else ""), err=True)
