"""What a program holds in its hands: a job it declared, and a run it made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, ParamSpec, TypeVar

import attrs
import msgspec
import trio

from trisched.domain.duration import parse_duration
from trisched.domain.run import FINISHED, RunStatus
from trisched.errors import NotFound, RunFailed, WaitTimeout
from trisched.operations import runs as run_operations
from trisched.operations.scope import Scope
from trisched.storage.wakeup import run_topic

P = ParamSpec("P")
R = TypeVar("R")
#: What ``submit`` takes besides the parameters of the function.
OPTIONS: Final = frozenset({"key", "delay", "at", "priority", "queue", "retries", "timeout"})
#: Ends that another process records are not told to this one: look at least this often.
_LOOK: Final = 0.25


@attrs.frozen
class RunHandle:
    """A run that was made, or found by its key."""

    id: str
    #: False when the key or the trigger found a run that was there already.
    created: bool
    _scope: Scope = attrs.field(repr=False)

    async def status(self) -> RunStatus:
        """Where the run stands now."""
        return (await run_operations.get(self._scope, self.id)).run.status

    async def wait(self, timeout: float | str | None = None) -> Any:
        """The result of the run when it is over; RunFailed if it did not complete, WaitTimeout if it takes longer."""
        seconds = float("inf") if timeout is None else parse_duration(timeout, "timeout")
        with trio.move_on_after(seconds):
            return await self._wait_over()
        raise WaitTimeout(self.id, str(await self.status()))

    async def cancel(self) -> None:
        """Ends the run if it waits, asks its worker to stop it if it runs."""
        await run_operations.cancel(self._scope, self.id)

    async def _wait_over(self) -> Any:
        while True:
            with self._scope.database.wakeups.waiting(run_topic(self.id)) as news:
                found = await run_operations.get(self._scope, self.id)
                run = found.run
                if run.status in FINISHED or run.status is RunStatus.HELD:
                    break
                with trio.move_on_after(_LOOK):
                    await news.wait()
        if run.status is not RunStatus.COMPLETED:
            raise RunFailed(self.id, run.status, run.reason)
        results = [attempt.result for attempt in found.attempts if attempt.result is not None]
        return msgspec.json.decode(results[-1]) if results else None


class JobHandle(Generic[P, R]):
    """A declared job. Calling it calls the function; ``submit`` and ``trigger`` make runs."""

    def __init__(self, name: str, function: Callable[P, R], desk: Desk) -> None:
        self.name, self.function, self._desk = name, function, desk
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    async def submit(self, **parameters: Any) -> RunHandle:
        """Makes a run with these parameters; ``key``, ``delay``, ``at``, ``priority``, … are options of the run.

        Where the function has a parameter with the name of an option, use ``app.submit(name, {…}, key=…)``.
        """
        options = {name: parameters.pop(name) for name in OPTIONS & parameters.keys()}
        return await self._desk.submit(self.name, parameters, **options)

    async def submit_many(self, parameters: Iterable[Mapping[str, Any]], **options: Any) -> list[RunHandle]:
        """Makes a run of each set of parameters, all in one transaction; the handles are in their order."""
        return await self._desk.submit_many(self.name, parameters, **options)

    async def trigger(self, **options: Any) -> RunHandle:
        """Runs the job now with its stored parameters; twice at once gives one run."""
        return await self._desk.trigger(self.name, **options)

    def __repr__(self) -> str:
        return f"<job {self.name!r}>"


class Desk:
    """Where handles hand in their wishes: the operations of an app that is open."""

    def __init__(self, scope: Callable[[], Scope]) -> None:
        self._scope = scope

    async def submit(self, job: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Makes a run of ``job``."""
        scope = self._scope()
        made = await run_operations.submit(scope, _submission(job, parameters or {}, options))
        return RunHandle(made.run_id, made.created, scope)

    async def submit_many(self, job: str, parameters: Iterable[Mapping[str, Any]], **options: Any) -> list[RunHandle]:
        """Makes many runs of ``job`` in one transaction."""
        scope = self._scope()
        made = await run_operations.submit_many(scope, [_submission(job, each, options) for each in parameters])
        return [RunHandle(each.run_id, each.created, scope) for each in made]

    async def trigger(self, job: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Runs a stored job now."""
        scope = self._scope()
        made = await run_operations.trigger(scope, job, parameters=parameters, **options)
        return RunHandle(made.run_id, made.created, scope)

    async def find_run(self, run_id: str) -> RunHandle:
        """The handle of a run that exists."""
        scope = self._scope()
        if await run_operations.get(scope, run_id) is None:
            raise NotFound("run", run_id)
        return RunHandle(run_id, False, scope)


def _submission(job: str, parameters: Mapping[str, Any], options: Mapping[str, Any]) -> run_operations.Submission:
    unknown = options.keys() - OPTIONS
    if unknown:
        raise TypeError(f"submit takes no option {', '.join(sorted(unknown))}; it takes {', '.join(sorted(OPTIONS))}")
    return run_operations.Submission(job=job, parameters=parameters, **options)
