"""Trying a schedule before it is saved: its words and its next fires."""

from __future__ import annotations

import attrs

from trisched.domain.preview import Fire, preview
from trisched.domain.schedule import parse_schedule
from trisched.domain.text import parse_number
from trisched.domain.words import describe
from trisched.operations.scope import Scope
from trisched.storage.tables import run as run_table

MOST_FIRES = 100


@attrs.frozen(kw_only=True)
class Preview:
    """A schedule in words, with its next fires."""

    words: str
    timezone: str
    fires: list[Fire]


async def show(
    scope: Scope, schedule: object, *, path: str, timezone: str = "UTC", after: int | None = None, count: int = 5
) -> Preview:
    """The next ``count`` fires after ``after`` (now, unless told); Invalid at ``path`` if it can never fire."""
    most = parse_number(count, "count", least=1, most=MOST_FIRES)
    now = await scope.database.read(run_table.now) if after is None else after
    parsed = parse_schedule(schedule, path=path, timezone=timezone, now=now)
    return Preview(words=describe(parsed), timezone=parsed.timezone, fires=preview(parsed, now, most))
