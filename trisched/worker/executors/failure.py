"""Turns whatever a function raised into a failure that can be stored; never raises itself."""

from __future__ import annotations

import builtins
import traceback
from types import TracebackType
from typing import Final

from trisched.worker.executors import Ended, Failure
from trisched.worker.output import visible

_MESSAGE_LIMIT: Final = 10_000
_TRACEBACK_LIMIT: Final = 64_000
_LEAVES_SHOWN: Final = 5
#: Frames of these packages at the top of a traceback tell nothing about the job.
_OUR_FRAMES: Final = ("trisched.worker.executors", "trio.", "outcome.")


def ending(error: BaseException) -> Ended:
    """How a function ended that raised ``error``.

    ``SystemExit`` is taken as a program's exit: code 0 or None completes, any other code fails.
    Every other exception fails, ``KeyboardInterrupt`` and ``GeneratorExit`` included.
    """
    error = _only_leaf(error)
    if isinstance(error, SystemExit):
        if error.code is None or error.code == 0:
            return Ended(completed=True, exit_code=0)
        # What a process could not exit with, a text included, is the plain failure code of a process.
        code = error.code if isinstance(error.code, int) and -128 <= error.code <= 255 else 1
        return Ended(completed=False, exit_code=code, error=describe(error))
    return Ended(completed=False, error=describe(error))


def describe(error: BaseException) -> Failure:
    """The type, message and traceback of ``error``, each bounded."""
    return Failure(_type_name(error), _message(error), _traceback(error))


def _only_leaf(error: BaseException) -> BaseException:
    """A nursery wraps even a single error into a group; the job's author thinks of the error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = visible(kind.__qualname__)[:200]
    return name if kind.__module__ == builtins.__name__ else f"{kind.__module__}.{name}"


def _message(error: BaseException) -> str:
    text = _text(error)
    if isinstance(error, BaseExceptionGroup):
        shown = [f"{_type_name(leaf)}: {_text(leaf)}" for leaf in error.exceptions[:_LEAVES_SHOWN]]
        text = f"{text}: {'; '.join(shown)}"
    return visible(text if len(text) <= _MESSAGE_LIMIT else text[:_MESSAGE_LIMIT] + " …")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - the job's own __str__ may raise anything at all
        return f"the exception has no text: its __str__ raised {type(broken).__name__}"


def _traceback(error: BaseException) -> str | None:
    try:
        described = traceback.TracebackException(type(error), error, _trim(error.__traceback__), compact=True)
        text = "".join(described.format())
    except Exception:  # noqa: BLE001 - what the job raised may break the formatting; the failure still counts
        return None
    if len(text) > _TRACEBACK_LIMIT:
        half = _TRACEBACK_LIMIT // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
    return visible(text)


def _trim(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OUR_FRAMES):
        trace = trace.tb_next
    return trace
