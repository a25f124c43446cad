"""``trisched jobs``: looks at stored jobs, triggers them, switches them on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.parameters import parse_pairs
from trisched.cli.render import Column, Output, field, output_option, print_list, print_object, schedule_text, seconds
from trisched.cli.runs import print_submitted
from trisched.cli.words import PRIORITIES, STATUS_WORDS
from trisched.domain.job import JOB_TYPES

_LIST_COLUMNS: Final[tuple[Column, ...]] = (
    ("name", field("name")),
    ("type", field("type")),
    ("schedule", schedule_text),
    ("enabled", field("enabled")),
    ("last run", lambda job: (job.get("last_run") or {}).get("status")),
    ("next run", field("next_run")),
    ("queue", field("queue")),
    ("priority", field("priority")),
)
_SHOW_COLUMNS: Final[tuple[Column, ...]] = (
    ("id", field("id")),
    ("name", field("name")),
    ("description", field("description")),
    ("type", field("type")),
    ("function", field("function")),
    ("command", field("command")),
    ("request", field("request")),
    ("schedule", schedule_text),
    ("enabled", field("enabled")),
    ("next run", field("next_run")),
    ("alarm", field("alarm")),
    ("parameters", field("parameters")),
    ("tags", field("tags")),
    ("requires", field("requires")),
    ("depends on", field("depends_on")),
    ("queue", field("queue")),
    ("priority", field("priority")),
    ("timeout", seconds("timeout")),
    ("retries", field("retries")),
    ("misfire", field("misfire")),
    ("overlap", field("overlap")),
    ("delivery", field("delivery")),
    ("revision", field("revision")),
    ("updated", field("updated_at")),
)


_SLOT_COLUMNS: Final[tuple[Column, ...]] = (
    ("slot", field("slot")),
    ("local", field("local")),
    ("state", field("state")),
    ("late", seconds("late")),
    ("run", field("run_id")),
    ("reason", field("reason")),
)
_BACKFILL_COLUMNS: Final[tuple[Column, ...]] = (("made", field("made")), ("runs", field("runs")))


@click.group()
def jobs() -> None:
    """List, show, trigger, switch and backfill jobs; their slots."""


@jobs.command("list")
@node_options
@output_option
@click.option("--tag", show_envvar=True, help="Only jobs with this tag.")
@click.option("--type", "kind", type=click.Choice(JOB_TYPES), show_envvar=True, help="Only jobs of this type.")
@click.option(
    "--schedule",
    type=click.Choice(["cron", "interval", "once", "none"]),
    show_envvar=True,
    help="Only jobs with this kind of schedule.",
)
@click.option(
    "--status",
    type=click.Choice(STATUS_WORDS),
    show_envvar=True,
    help="Only jobs whose newest run has this status; failed, finished and active stand for several.",
)
@click.option("--queue", show_envvar=True, help="Only jobs of this queue.")
@click.option("--enabled/--disabled", default=None, help="Only jobs that are switched on, or off.")
@click.option("--search", show_envvar=True, help="Only jobs whose name contains this.")
@click.option("--sort", show_envvar=True, help="Field to sort by; a leading - reverses.")
@click.option("--limit", type=int, default=100, show_default=True, show_envvar=True, help="Most jobs to list.")
def list_jobs(
    connection: Connection,
    output: Output,
    kind: str | None,
    enabled: bool | None,
    **filters: object,
) -> None:
    """List stored jobs."""
    filters |= {"type": kind, "enabled": None if enabled is None else str(enabled).lower()}
    answer = connection.ask(lambda client: client.jobs(**filters))
    print_list(output, answer["jobs"], _LIST_COLUMNS)
    hidden = answer.get("total", 0) - len(answer["jobs"])
    if hidden > 0:
        click.echo(f"{hidden} more: raise --limit, or narrow the list down", err=True)


@jobs.command("show")
@click.argument("job")
@node_options
@output_option
def show_job(connection: Connection, job: str, output: Output) -> None:
    """Show one job, by name or id."""
    print_object(output, connection.ask(lambda client: client.job(job)), _SHOW_COLUMNS)


@jobs.command("trigger")
@click.argument("job")
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@node_options
@output_option
@click.option("--priority", type=click.Choice(PRIORITIES), show_envvar=True, help="Who goes first.")
@click.option("--delay", show_envvar=True, help='Wait this long, such as "10m".')
@click.option("--key", show_envvar=True, help="Repeating the command with the same key gives the same run.")
def trigger_job(connection: Connection, job: str, pairs: tuple[str, ...], output: Output, **options: object) -> None:
    """Run a stored job now.

    Without --key, a run of the job with the same parameters that still waits or runs is found instead.
    """
    parameters = parse_pairs(pairs)
    answer = connection.ask(lambda client: client.trigger(job, parameters=parameters or None, **options))
    print_submitted(output, answer)


@jobs.command("enable")
@click.argument("job")
@node_options
def enable_job(connection: Connection, job: str) -> None:
    """Let the schedule of a job make runs again."""
    _say_switched(connection.ask(lambda client: client.enable(job)))


@jobs.command("disable")
@click.argument("job")
@node_options
def disable_job(connection: Connection, job: str) -> None:
    """Stop a job from making runs; those that exist go on."""
    _say_switched(connection.ask(lambda client: client.disable(job)))


@jobs.command("slots")
@click.argument("job")
@node_options
@output_option
@click.option("--from", "since", show_envvar=True, help="First moment. [default: 24 hours before --to]")
@click.option("--to", "until", show_envvar=True, help="Last moment. [default: now]")
@click.option("--limit", type=int, default=200, show_default=True, show_envvar=True, help="Most slots to list.")
def list_slots(
    connection: Connection, job: str, output: Output, since: str | None, until: str | None, limit: int
) -> None:
    """List slots of a job and what became of each."""
    wanted: dict[str, object] = {"from": since, "to": until, "limit": limit}
    answer = connection.ask(lambda client: client.slots(job, **wanted))
    print_list(output, answer["slots"], _SLOT_COLUMNS, key="slot")
    if answer["next"] is not None:
        click.echo(f"more from {answer['next']}", err=True)


@jobs.command("backfill")
@click.argument("job")
@node_options
@output_option
@click.option("--from", "since", required=True, show_envvar=True, help="First moment: 2027-01-01T00:00:00Z.")
@click.option("--to", "until", required=True, show_envvar=True, help="The moment after the last.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def backfill_job(connection: Connection, job: str, output: Output, since: str, until: str, yes: bool) -> None:
    """Make the slots of a range that never had a run."""
    wanted: dict[str, object] = {"from": since, "to": until}
    found = connection.ask(lambda client: client.backfill(job, dry_run=True, **wanted))
    click.echo(
        "{slots} slots: {existing} have a run, {skipped} were skipped, {forgotten} are too old to know, "
        "{missing} are missing".format(**found),
        err=True,
    )
    if not found["missing"]:
        return
    if not yes:
        click.confirm(f"Make {found['missing']} runs?", abort=True, err=True)
    done = connection.ask(lambda client: client.backfill(job, expect=found["missing"], **wanted))
    print_object(output, {"id": "\n".join(done["runs"]), **done}, _BACKFILL_COLUMNS)


def _say_switched(job: Mapping[str, object]) -> None:
    state = "enabled" if job.get("enabled") else "disabled"
    next_run = f", next run {job['next_run']}" if job.get("next_run") else ""
    click.echo(f"{job.get('name')} is {state}{next_run}", err=True)
