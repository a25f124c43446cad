"""Where commands run that need no node."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory and no settings from outside; what the command imports and logs to is undone."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("TRISCHED_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    logger, known = logging.getLogger("trisched"), set(sys.modules)
    handlers, level, propagate = [*logger.handlers], logger.level, logger.propagate
    yield tmp_path
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
