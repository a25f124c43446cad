"""What a running function can ask of trisched: who it is, progress, log, submit, its lease."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from trisched.domain.progress import TEXT_LIMIT, Progress
from trisched.errors import TrischedError
from trisched.worker.output import OutputBuffer, visible

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.define
class Context:
    """The run that a function works on. An argument annotated ``trisched.Context`` receives it.

    ``progress``, ``log`` and ``lease_ok`` may be called from any thread. After the attempt has ended
    (a thread that was given up goes on) they do nothing.
    """

    run_id: str
    #: The name of the job.
    job: str
    #: Counted from 1.
    attempt: int
    #: The same over all attempts of the run: hand it to what must not happen twice.
    idempotency_key: str
    #: The fencing token: grows with every claim, so a store can refuse a stale writer.
    token: int
    #: The id of the node that runs this attempt.
    node: str
    parameters: Mapping[str, object]
    #: The instant that the schedule prescribed, in microseconds; None when triggered or submitted.
    slot_at: int | None
    _output: OutputBuffer
    _submit: Callable[..., Awaitable[Any]] | None = None
    _transaction: Callable[[], AbstractAsyncContextManager[Any]] | None = None
    _lease_ok: Callable[[], bool] | None = None

    @property
    def slot(self) -> datetime | None:
        """The instant that the schedule prescribed; None when triggered or submitted."""
        return None if self.slot_at is None else _EPOCH + timedelta(microseconds=self.slot_at)

    @property
    def log(self) -> Log:
        """Writes lines into the output of the run: ``ctx.log("text")``, ``ctx.log.warning("text")``."""
        return Log(self._output)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Says how far the work is. The latest counts; a number that is not finite is left out."""
        reached, goal = float(done), None if total is None else float(total)
        if not math.isfinite(reached):
            return
        if goal is not None and not math.isfinite(goal):
            goal = None
        self._output.progress = Progress(reached, goal, visible(str(text))[:TEXT_LIMIT])

    async def submit(self, job: str, parameters: Mapping[str, object] | None = None, **options: Any) -> Any:
        """Makes a run of another job; takes the options of ``submit`` and returns the run.

        From a thread: ``trio.from_thread.run(ctx.submit, "name", {…})``.
        """
        if self._submit is None:
            raise TrischedError("this context was made without a node, so it cannot submit runs")
        return await self._submit(job, parameters, **options)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """The database transaction that commits the effects of this run together with its completion."""
        if self._transaction is None:
            raise TrischedError(
                f'job {self.job!r} has no transaction of its own: it needs delivery="transactional" in its definition'
            )
        return self._transaction()

    def lease_ok(self) -> bool:
        """Whether this node still holds the run. Work that cannot be stopped asks before each effect."""
        return True if self._lease_ok is None else self._lease_ok()


@attrs.frozen
class Log:
    """A logger whose lines end up in the output of the run."""

    _output: OutputBuffer

    def __call__(self, text: object, *args: object) -> None:
        """Writes ``text``, or ``text % args`` as the standard loggers do."""
        self._write("", text, args)

    info = __call__

    def warning(self, text: object, *args: object) -> None:
        """Like ``info``, marked as a warning."""
        self._write("warning: ", text, args)

    def error(self, text: object, *args: object) -> None:
        """Like ``info``, marked as an error."""
        self._write("error: ", text, args)

    def _write(self, level: str, text: object, args: tuple[object, ...]) -> None:
        line = str(text)
        if args:
            try:
                line = line % args
            except (TypeError, ValueError, KeyError):
                # A slip in a log text must not fail the job: show the parts instead.
                line = f"{line} {args!r}"
        self._output.write("log", (level + line).encode("utf-8", "replace") + b"\n")
