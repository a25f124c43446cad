"""Prints data on stdout as a table, as JSON, or as ids alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trisched.domain.duration import format_duration
from trisched.domain.run import RunStatus

Output = Literal["table", "json", "id"]
Item = Mapping[str, Any]
#: A title, and the text of the cell.
Column = tuple[str, Callable[[Item], object]]
F = TypeVar("F", bound=Callable[..., Any])

#: Wide enough that a program which reads a table through a pipe gets whole cells.
_PIPE_WIDTH: Final = 100_000
_STYLES: Final[Mapping[str, str]] = {
    RunStatus.COMPLETED: "green",
    RunStatus.RUNNING: "cyan",
    RunStatus.RETRYING: "yellow",
    RunStatus.DEAD: "red",
    RunStatus.HELD: "magenta",
    RunStatus.SKIPPED: "dim",
    RunStatus.CANCELLED: "dim",
}


def output_option(command: F) -> F:
    """Adds ``-o table|json|id``."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "id"]),
        default="table",
        show_default=True,
        envvar="TRISCHED_OUTPUT",
        show_envvar=True,
        help="How to print the answer.",
    )(command)


def print_list(output: Output, items: Sequence[Item], columns: Sequence[Column], *, key: str = "id") -> None:
    """Many things, one a line."""
    if output == "json":
        print_json(items)
    elif output == "id":
        for item in items:
            click.echo(item[key])
    else:
        print_rows([title for title, _ in columns], [[cell(item) for _, cell in columns] for item in items])


def print_object(output: Output, item: Item, columns: Sequence[Column], *, key: str = "id") -> None:
    """One thing, one field a line; fields without a value are left out."""
    if output == "json":
        print_json(item)
    elif output == "id":
        click.echo(item[key])
    else:
        fields = [(title, cell(item)) for title, cell in columns]
        print_rows(None, [[title, value] for title, value in fields if value not in (None, "", [], {})])


def print_json(data: object) -> None:
    """``data`` for another program."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def field(name: str) -> Callable[[Item], object]:
    """The cell that shows the field of that name."""
    return lambda item: item.get(name)


def seconds(name: str) -> Callable[[Item], object]:
    """The cell that shows a duration."""

    def cell(item: Item) -> object:
        value = item.get(name)
        if value is None:
            return None
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s" if value < 10 else f"{value:,.0f} s"

    return cell


def schedule_text(job: Item) -> str | None:
    """A schedule as it is written in one line."""
    schedule = job.get("schedule")
    if not isinstance(schedule, Mapping):
        return None if schedule is None else str(schedule)
    if "every" in schedule:
        return f"every {format_duration(schedule['every'])}"
    rule = str(schedule.get("cron") or schedule.get("at"))
    zone = schedule.get("timezone", "UTC")
    return rule if zone == "UTC" else f"{rule} {zone}"


def progress_text(progress: Item) -> str:
    """How far a run is, in one line: ``64/100 (64%) loading``."""
    done, total = progress["done"], progress.get("total")
    parts = [f"{done:g}" if total is None else f"{done:g}/{total:g}"]
    if total:
        parts.append(f"({done / total:.0%})")
    return _plain(" ".join([*parts, progress.get("text") or ""]).strip())


def print_rows(titles: Sequence[str] | None, rows: Iterable[Sequence[object]]) -> None:
    """A table as wide as its content; without titles, two columns of names and values."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    table = Table(box=None, show_header=titles is not None, header_style="bold", pad_edge=False)
    for title in titles or ("", ""):
        table.add_column(title.upper(), overflow="fold", no_wrap=not console.is_terminal)
    for row in rows:
        table.add_row(*map(_cell, row))
    console.print(table)


def _cell(value: object) -> Text:
    text = _plain(value)
    return Text(text, style=_STYLES.get(text, ""))


def _plain(value: object) -> str:
    """The text of a value, without characters that would steer the terminal."""
    if value is None:
        text = "-"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, list | tuple):
        text = ", ".join(map(str, value)) or "-"
    elif isinstance(value, Mapping):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)
