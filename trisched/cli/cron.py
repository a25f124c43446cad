"""``trisched cron``: says what a schedule means and when it fires, without a node."""

from __future__ import annotations

import attrs
import click

from trisched.cli.render import Output, output_option, print_json, print_rows
from trisched.clock import SystemClock
from trisched.domain.schedule import Fire, parse_schedule, preview
from trisched.domain.words import describe
from trisched.errors import FieldError, Invalid


@click.group()
def cron() -> None:
    """Try schedules without storing them."""


@cron.command()
@click.argument("expression", nargs=-1, required=True)
@click.option("--tz", default="UTC", show_default=True, show_envvar=True, help="Time zone of the schedule.")
@click.option(
    "--next",
    "count",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    show_envvar=True,
    help="How many fires to show.",
)
@click.option("--job", default="", show_envvar=True, help="Name of the job, from which H is drawn.")
@output_option
def explain(expression: tuple[str, ...], tz: str, count: int, job: str, output: Output) -> None:
    """Say in words what EXPRESSION means, and when it fires next.

    EXPRESSION is cron ("0 9 * * 1-5", "*/15 * * * * *", "@daily"), an interval ("every 5m") or a moment
    ("2027-01-31T09:00:00Z"). Quote it, or the shell takes * for the names of files.
    """
    text, now = " ".join(expression), SystemClock().now_us()
    try:
        schedule = parse_schedule(text, timezone=tz, key=job, now=now)
    except Invalid as error:
        # The path of a field says nothing about a single argument.
        raise Invalid(FieldError("", each.message) for each in error.errors) from None
    words, fires = describe(schedule), preview(schedule, now, count)
    if output == "json":
        plain = [attrs.asdict(fire, filter=lambda field, _: field.name != "slot") for fire in fires]
        print_json({"schedule": text, "timezone": tz, "words": words, "fires": plain})
    elif output == "id":
        click.echo("\n".join(fire.utc for fire in fires))
    else:
        click.echo(f"{words[:1].upper()}{words[1:]}\n")
        _print_fires(fires, tz)


def _print_fires(fires: list[Fire], tz: str) -> None:
    titles = ["local", "utc", "note"] if tz != "UTC" else ["utc", "note"]
    if not any(fire.note for fire in fires):
        titles.remove("note")
    print_rows(titles, [[getattr(fire, title) or "" for title in titles] for fire in fires])
