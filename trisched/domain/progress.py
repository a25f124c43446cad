"""Progress: how far a run says it is, as a line that a job prints and as JSON that is stored."""

from __future__ import annotations

import re
from typing import Final, Self

import attrs
import msgspec

TEXT_LIMIT: Final = 200
START: Final = "::progress "
_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_LINE: Final = re.compile(rf"::progress {_NUMBER}(?:/{_NUMBER})?(?:\s+(.*))?", re.DOTALL)


@attrs.frozen
class Progress:
    """How far a run says it is; ``total`` is None when it does not know."""

    done: float
    total: float | None = None
    text: str = ""

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """The progress in a line ``::progress 64/100 text``, or None when it is an ordinary line."""
        if not line.startswith(START) or (found := _LINE.fullmatch(line)) is None:
            return None
        done, total, text = found.groups()
        short = (text or "").strip()[:TEXT_LIMIT]
        return cls(float(done), None if total is None else float(total), short)


class _Stored(msgspec.Struct):
    token: int
    at: int
    done: float
    total: float | None
    text: str


@attrs.frozen
class Reported:
    """The latest progress of a run, and when its worker had it."""

    progress: Progress
    at: int


def to_json(progress: Progress, token: int, at: int) -> str:
    """What is stored with the run; the token tells of which attempt it is."""
    stored = _Stored(token, at, progress.done, progress.total, progress.text)
    return msgspec.json.encode(stored).decode()


def from_json(text: str | None, token: int) -> Reported | None:
    """The progress that was stored, if it is of the attempt with that token: an earlier one's says nothing."""
    if text is None:
        return None
    stored = msgspec.json.decode(text, type=_Stored)
    if stored.token != token:
        return None
    return Reported(Progress(stored.done, stored.total, stored.text), stored.at)
