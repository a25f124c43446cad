"""The seam between an attempt and what executes it: one call in, one ending out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import attrs

from trisched.worker.context import Context
from trisched.worker.output import OutputBuffer

if TYPE_CHECKING:
    from trisched.worker.executors.function import BoundFunction


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
    env: Mapping[str, str]
    kill_after: float
    output: OutputBuffer
    context: Context
    turn: Turn | None = None


@attrs.frozen
class Failure:
    """Why an execution failed, as text that every store can hold."""

    #: The qualified name of the exception (``ValueError``, ``reports.Empty``), ``ExitCode`` or ``Signal``.
    type: str
    message: str
    traceback: str | None = None


@attrs.frozen
class Ended:
    """How an execution ended by itself."""

    completed: bool
    exit_code: int | None = None
    #: JSON text; None when the function returned None.
    result: str | None = None
    error: Failure | None = None


class Executor(Protocol):
    """Executes the runs of one type of job."""

    async def execute(self, call: Call) -> Ended:
        """Does the work and says how it ended; errors of the job are an ending, never raised.

        Cancelling it (time-out, cancel, drain, lost lease: the caller knows which) stops what it started
        as well as its kind allows, within a bound, and lets ``trio.Cancelled`` through.
        """
