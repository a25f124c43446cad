"""The fixtures of this room: the application on SQLite, and on each database in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.operations.stage import opened
from tests.web.stage import Browser


@pytest.fixture
async def web(sqlite_path: Path) -> AsyncIterator[Browser]:
    async with opened(f"sqlite:///{sqlite_path}") as scope:
        yield Browser(scope)


@pytest.fixture
async def web_anywhere(database_url: str) -> AsyncIterator[Browser]:
    """For what a database might see differently: odd text, big numbers."""
    async with opened(database_url) as scope:
        yield Browser(scope)
