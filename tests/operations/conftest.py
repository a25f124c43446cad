"""The fixture of this room: a scope on an empty database, of each kind in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.operations.stage import opened
from trisched.operations.scope import Scope


@pytest.fixture
async def scope(database_url: str) -> AsyncIterator[Scope]:
    async with opened(database_url) as scope:
        yield scope
