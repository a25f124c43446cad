"""The seam between an attempt and what executes it: one call in, one ending out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from trisched.domain.request import Request
from trisched.worker.context import Context
from trisched.worker.output import OutputBuffer

if TYPE_CHECKING:
    from trisched.worker.executors.function import BoundFunction

#: For the many calls without; made once.
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Turn(Protocol):
    """How an executor whose places are few says when a call really starts: the time-out counts from there."""

    def waits(self) -> None:
        """The call stands in line; nothing of it has begun."""

    def begins(self) -> None:
        """The call starts now."""


@attrs.define
class Call:
    """Everything that one execution needs."""

    run_id: str
    job_name: str
    attempt: int
    token: int
    claim_id: str
    node_id: str
    slot_at: int | None
    idempotency_key: str
    parameters: Mapping[str, object]
    #: A Python job's function, as ``function.bind`` prepared it.
    function: BoundFunction | None
    #: A shell job's command: text for ``/bin/sh -c``, or the words to execute.
    command: str | tuple[str, ...] | None
    cwd: str | None
    #: With the secrets in it.
    env: Mapping[str, str] = attrs.field(repr=False)
    kill_after: float
    output: OutputBuffer
    context: Context
    turn: Turn | None = None
    #: What an HTTP job sends, with the secrets that its texts refer to.
    request: Request | None = None
    secrets: Mapping[str, str] = attrs.field(default=_NOTHING, repr=False)
    #: What the runs before this one returned, by the names of their jobs.
    results: Mapping[str, object] = _NOTHING


@attrs.frozen
class Failure:
    """Why an execution failed, as text that every store can hold."""

    #: The qualified name of the exception (``ValueError``, ``reports.Empty``), ``ExitCode`` or ``Signal``.
    type: str
    message: str
    traceback: str | None = None
    #: The names of the exception's classes, the nearest first, without ``object`` and ``BaseException``.
    bases: tuple[str, ...] = ()


@attrs.frozen
class Ended:
    """How an execution ended by itself."""

    completed: bool
    exit_code: int | None = None
    #: JSON text; None when the function returned None.
    result: str | None = None
    error: Failure | None = None
    #: Seconds that the job wants before its next attempt, instead of its backoff.
    retry_after: float | None = None
    #: No attempt may follow.
    fatal: bool = False
    #: Seconds after which it is to be tried again; nothing failed, and no attempt is used.
    snooze: float | None = None


class Executor(Protocol):
    """Executes the runs of one type of job."""

    async def execute(self, call: Call) -> Ended:
        """Does the work and says how it ended; errors of the job are an ending, never raised.

        Cancelling it (time-out, cancel, drain, lost lease: the caller knows which) stops what it started
        as well as its kind allows, within a bound, and lets ``trio.Cancelled`` through.
        """
