"""Shows long work while it goes on: on stderr, and only where a person looks at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of ``total`` steps; call what it gives with the number of steps that were done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


@contextmanager
def spinner(title: str) -> Iterator[Callable[[str], None]]:
    """A sign of life; call what it gives with the news."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(title)) as status:
        yield lambda news: status.update(Text(f"{title} {news}"))
