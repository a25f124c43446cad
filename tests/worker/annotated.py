"""Functions whose annotations are text, some of it known to type checkers only."""

from __future__ import annotations

from decimal import Context as DecimalContext
from typing import TYPE_CHECKING, Optional

import trisched.worker.context
from trisched.worker import context as ours

if TYPE_CHECKING:
    from trisched.worker.context import Context


async def by_module(a: int, ctx: ours.Context) -> None: ...


async def by_full_name(ctx: trisched.worker.context.Context, a: int) -> None: ...


async def for_checkers_only(a: int, ctx: Context) -> None: ...


async def for_checkers_or_none(a: int, *, ctx: Context | None = None) -> None: ...


async def optional(a: int, ctx: Optional[ours.Context] = None) -> None: ...  # noqa: UP045 - as older code spells it


async def foreign(a: int, ctx: DecimalContext) -> None: ...
