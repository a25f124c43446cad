"""``trisched init``: writes files to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from trisched.errors import Conflict, Misconfigured

_CONFIG: Final = """\
# Settings and jobs of a trisched node. Start it with: trisched run tasks:app
# Flags and TRISCHED_... variables come before what is written here. A mistake stops the node with its line.

[node]
# database = "postgresql://trisched@db.example/trisched"   # default: a SQLite file in the data directory
# data_dir = ".trisched"
# port = 8000

[worker]
# concurrency = 100
# queues = ["default"]    # default: all

[jobs.disk-usage]
type = "shell"
command = "df -h /"
schedule = "every 1m"
timeout = "10s"

[jobs.monday-report]
type = "python"
function = "tasks.report"    # registered by tasks.py
schedule = "0 9 * * MON"     # try it: trisched cron explain "0 9 * * MON" --tz Europe/Berlin
timezone = "Europe/Berlin"
parameters = { recipient = "team@example.org" }
retries = 5
"""
_TASKS: Final = '''\
"""Tasks of this project. Run them with: trisched run tasks:app"""

import trisched

app = trisched.App()


@app.task()
async def report(recipient: str) -> str:
    """Called by the job monday-report of trisched.toml."""
    return f"report for {recipient}"


@app.job(schedule="every 10s")
async def heartbeat() -> str:
    """A job that is declared where it is written."""
    return "alive"


@app.job(retries=2)
def greet(name: str, ctx: trisched.Context) -> str:
    """Try it: trisched submit greet name=World --wait"""
    return f"Hello, {name}! (attempt {ctx.attempt})"
'''


@click.command()
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(directory: Path) -> None:
    """Write a trisched.toml and example tasks to begin with.

    They go into DIRECTORY, by default the current one. Files that exist are never overwritten.
    """
    files = {directory / "trisched.toml": _CONFIG, directory / "tasks.py": _TASKS}
    taken = [str(path) for path in files if path.exists()]
    if taken:
        raise Conflict(f"{' and '.join(taken)} exist already; nothing was written")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text)
            click.echo(path)
    except OSError as error:
        raise Misconfigured(f"{error.filename}: cannot be written: {error.strerror}") from None
    there = "" if directory == Path() else f"cd {directory} && "
    click.echo(f"Start a node with: {there}trisched run tasks:app", err=True)
