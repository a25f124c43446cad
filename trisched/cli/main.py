"""The ``trisched`` command: its table of commands, imported one by one as they are used."""

from __future__ import annotations

from typing import Final

import click

from trisched.cli.group import CommandGroup, Entry

COMMANDS: Final = {
    "run": Entry("trisched.cli.run:run", "Start a node: scheduler, worker and web interface."),
    "init": Entry("trisched.cli.init:init", "Write a trisched.toml and example tasks to begin with."),
    "status": Entry("trisched.cli.status:status", "Show the state of the node and its cluster."),
    "why": Entry("trisched.cli.why:why", "Say why a run, a slot or a job stands where it stands."),
    "submit": Entry("trisched.cli.submit:submit", "Make a run of a job with parameters."),
    "jobs": Entry("trisched.cli.jobs:jobs", "List, show, trigger, switch and backfill jobs; their slots."),
    "runs": Entry("trisched.cli.runs:runs", "List, show, cancel and retry runs."),
    "logs": Entry("trisched.cli.logs:logs", "Print the output of a run."),
    "nodes": Entry("trisched.cli.cluster:nodes", "List the nodes of the cluster."),
    "queues": Entry("trisched.cli.cluster:queues", "List the queues."),
    "cron": Entry("trisched.cli.cron:cron", "Try schedules without storing them."),
}


@click.group(
    "trisched",
    cls=CommandGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "TRISCHED"},
)
@click.version_option(package_name="trisched", message="%(prog)s %(version)s")
def cli() -> None:
    """Job scheduler and priority task queue.

    Every option can also be set by a TRISCHED_… variable. Exit codes: 0 done, 1 failed, 2 wrong usage,
    3 not found, 4 conflict, 5 node or database unreachable, 78 wrong configuration.
    """


def main() -> None:
    """The console script."""
    cli(prog_name="trisched")
