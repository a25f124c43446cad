"""Log records as lines for people: time, level, message, and the fields that came with it."""

from __future__ import annotations

import logging
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")
#: What every record has; the rest came with ``extra``.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FieldsFormatter(logging.Formatter):
    """``09:00:00 INFO attempt failed run_id=run-… attempt=2``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        fields = "".join(f" {name}={value}" for name, value in vars(record).items() if name not in _STANDARD)
        return (super().formatMessage(record) + fields).replace("\n", "\\n")


def log_to_stderr(level: str) -> None:
    """Sends what trisched logs to stderr; the program's own loggers stay as they are."""
    handler = logging.StreamHandler()
    handler.setFormatter(FieldsFormatter())
    logger = logging.getLogger("trisched")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
