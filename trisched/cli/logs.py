"""``trisched logs``: prints what a run wrote, and follows it while it goes on."""

from __future__ import annotations

import json
from typing import Final

import click
import trio

from trisched.cli.connection import Connection, node_options
from trisched.cli.render import progress_text
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
    """Prints each line once, attempt after attempt."""

    def __init__(self, run_id: str, attempt: int | None, *, as_json: bool) -> None:
        self._run_id, self._attempt, self._as_json = run_id, attempt, as_json
        #: The attempt that is being read, by its token, and the number of the last line that was printed.
        self._token: int | None = None
        self._last = 0
        self._progress: object = None

    async def read(self, client: Client) -> None:
        """Prints what there is beyond the last line."""
        answer = await client.output(self._run_id, attempt=self._attempt, token=self._token, after=self._last)
        for line in answer["lines"]:
            self._last = line["number"]
            self._print(line)

    async def follow(self, client: Client) -> None:
        """Prints until the run is over and its last line is out."""
        while True:
            run = await client.run(self._run_id)
            # Read after the look: what was written before the end is stored by now.
            if self._attempt is None:
                await self._read_attempts(client, run["attempts"])
            else:
                await self.read(client)
            self._print_progress(run)
            if run["status"] in FINISHED or run["status"] == RunStatus.HELD:
                return
            await trio.sleep(_PAUSE)

    async def _read_attempts(self, client: Client, attempts: list[JsonObject]) -> None:
        """Reads the attempt at hand to its end, then those that began since; of earlier ones only the last counts."""
        tokens = [attempt["token"] for attempt in attempts]
        fresh = [token for token in tokens if self._token is not None and token > self._token] or tokens[-1:]
        if self._token is not None:
            await self.read(client)
        for token in fresh:
            if token != self._token:
                self._begin(token, next(each["number"] for each in attempts if each["token"] == token))
                await self.read(client)

    def _begin(self, token: int, number: int) -> None:
        if self._token is not None:
            click.echo(f"attempt {number}", err=True)
        self._token, self._last = token, 0

    def _print(self, line: JsonObject) -> None:
        click.echo(json.dumps(line, ensure_ascii=False) if self._as_json else line["text"])

    def _print_progress(self, run: JsonObject) -> None:
        progress = run.get("progress")
        if progress is not None and progress != self._progress:
            self._progress = progress
            click.echo(f"progress {progress_text(progress)}", err=True)
