"""The words of the domain that options take as their values."""

from __future__ import annotations

from typing import Final

from trisched.domain.run import STATUS_GROUPS, Priority, RunStatus

#: Plain texts: click would show and take the names of an enum's members instead of their values.
PRIORITIES: Final = [priority.value for priority in Priority]
STATUS_WORDS: Final = [*(status.value for status in RunStatus), *STATUS_GROUPS]
