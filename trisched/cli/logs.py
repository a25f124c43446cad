"""``trisched logs``: prints what a run wrote, and follows it while it goes on."""

from __future__ import annotations

import json
from typing import Final

import click
import trio

from trisched.cli.connection import Connection, node_options
from trisched.client import Client, JsonObject
from trisched.domain.run import FINISHED, RunStatus

#: As often as a person can read new lines.
_PAUSE: Final = 0.5


@click.command()
@click.argument("run")
@node_options
@click.option("-f", "--follow", is_flag=True, show_envvar=True, help="Go on until the run is over.")
@click.option("--attempt", type=int, show_envvar=True, help="Only this attempt. [default: the last one]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    envvar="TRISCHED_OUTPUT",
    show_envvar=True,
    help="Plain lines, or a JSON object of each with number, time and stream.",
)
def logs(connection: Connection, run: str, follow: bool, attempt: int | None, output: str) -> None:
    """Print the output of a run."""
    reader = _Reader(run, attempt, as_json=output == "json")
    connection.ask(reader.follow if follow else reader.read)


class _Reader:
    """Prints each line once, and begins anew where a run begins another attempt."""

    def __init__(self, run_id: str, attempt: int | None, *, as_json: bool) -> None:
        self._run_id, self._attempt, self._as_json = run_id, attempt, as_json
        self._current: int | None = None
        self._last = 0

    async def read(self, client: Client) -> None:
        """Prints what there is beyond the last line."""
        answer = await client.output(self._run_id, attempt=self._attempt, after=self._last)
        for line in answer["lines"]:
            self._last = line["number"]
            self._print(line)

    async def follow(self, client: Client) -> None:
        """Prints until the run is over and its last line is out."""
        while True:
            run = await client.run(self._run_id)
            if self._attempt is None and run.get("attempt") != self._current:
                self._current, self._last = run.get("attempt"), 0
            # Read after the look: what was written before the end is stored by now.
            await self.read(client)
            if run["status"] in FINISHED or run["status"] == RunStatus.HELD:
                return
            await trio.sleep(_PAUSE)

    def _print(self, line: JsonObject) -> None:
        click.echo(json.dumps(line, ensure_ascii=False) if self._as_json else line["text"])
