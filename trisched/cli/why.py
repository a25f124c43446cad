"""``trisched why``: explains a run, a slot or a job in words."""

from __future__ import annotations

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.render import Output, output_option, print_json


@click.command()
@click.argument("name", metavar="JOB|RUN")
@click.option("--at", show_envvar=True, help="The slot, or a moment shortly after it: 2027-01-01T09:00:00Z.")
@node_options
@output_option
def why(connection: Connection, name: str, at: str | None, output: Output) -> None:
    """Say why a run, a slot or a job stands where it stands."""
    if name.startswith("run-"):
        answer = connection.ask(lambda client: client.why_run(name))
    else:
        answer = connection.ask(lambda client: client.why(name, at=at))
    if output == "json":
        print_json(answer)
    elif output == "id":
        click.echo(answer["run_id"] or "")
    else:
        click.echo("\n".join(answer["text"]))
