"""A group of commands that imports a command when it is used, and ends every expected error in one line."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import click

from trisched.errors import Conflict, Invalid, Misconfigured, NotFound, StoreError, TooLarge, TrischedError, Unreadable

_FAILED: Final = 1
#: The first class that fits decides.
_EXIT_CODES: Final[tuple[tuple[type[TrischedError], int], ...]] = (
    (Misconfigured, 78),
    (NotFound, 3),
    (Conflict, 4),
    (StoreError, 5),
    (Invalid, 2),
    (Unreadable, 2),
    (TooLarge, 2),
)


@attrs.frozen
class Entry:
    """Where a command is, and the line about it: help must not need the import."""

    place: str
    summary: str


def exit_code(error: TrischedError) -> int:
    """The contract's number for this kind of error."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), _FAILED)


class CommandGroup(click.Group):
    """The root of the command line."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._entries:
            return None
        module, _, name = self._entries[cmd_name].place.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._entries.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TrischedError as error:
            _end(ctx, error)
        except BaseExceptionGroup as group:
            errors = [*_leaves(group)]
            expected = [error for error in errors if isinstance(error, TrischedError)]
            # Anything else among them is a defect, whose traceback somebody must see.
            if len(expected) < len(errors):
                raise
            _end(ctx, expected[0])


def _end(ctx: click.Context, error: TrischedError) -> None:
    # A configuration has a line for each mistake in it. Anything else is one line, however a driver words it.
    text = str(error) if isinstance(error, Misconfigured) else " ".join(str(error).split())
    click.echo(f"Error: {text}", err=True)
    ctx.exit(exit_code(error))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
