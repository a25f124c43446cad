"""The stage on virtual time, for the tests of this room."""

from __future__ import annotations

from tests.engine_stage import stage

__all__ = ["stage"]
