"""For programs without Trio: a thread that runs it, and plain functions that ask it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import trio

from trisched.handle import RunHandle

if TYPE_CHECKING:
    from trisched.app import App

T = TypeVar("T")


class NodeThread:
    """A thread that keeps an app open or running until it is stopped."""

    def __init__(self, body: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._body = body
        # A daemon: a program that forgets to stop it can still end; the work is then taken over as after a crash.
        self._thread = threading.Thread(target=self._main, name="trisched", daemon=True)
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._stopping: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        #: What the app said when it was up: the node's id, its store, its URL.
        self.started: Any = None

    @property
    def alive(self) -> bool:
        """Whether it is up."""
        return self._thread.is_alive() and self._error is None

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """The way into its Trio loop."""
        assert self._token is not None
        return self._token

    def start(self) -> None:
        """Returns when it is up; raises what kept it from that."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Drains and ends; raises what went wrong meanwhile."""
        if self._thread.is_alive() and self._stopping is not None:
            with suppress(trio.RunFinishedError):
                trio.from_thread.run_sync(self._stopping.set, trio_token=self.token)
            self._thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _main(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - handed to whoever starts or stops the thread
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._stopping = trio.Event()
        async with self._body() as self.started:
            self._token = trio.lowlevel.current_trio_token()
            self._ready.set()
            await self._stopping.wait()


class Sync:
    """``app.sync``: each call blocks until the database has answered."""

    def __init__(self, app: App, thread: Callable[[], NodeThread]) -> None:
        self._app, self._thread = app, thread

    def submit(self, job: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Makes a run of ``job`` with parameters."""
        return self._ask(lambda app: app.submit(job, parameters, **options))

    def submit_many(self, job: str, parameters: Iterable[Mapping[str, Any]], **options: Any) -> list[RunHandle]:
        """Makes many runs of ``job`` in one transaction."""
        return self._ask(lambda app: app.submit_many(job, parameters, **options))

    def trigger(self, job: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> RunHandle:
        """Runs a stored job now."""
        return self._ask(lambda app: app.trigger(job, parameters, **options))

    def wait(self, run: RunHandle | str, timeout: float | str | None = None) -> Any:
        """The result of the run when it is over."""

        async def ask(app: App) -> Any:
            handle = await app.find_run(run if isinstance(run, str) else run.id)
            return await handle.wait(timeout)

        return self._ask(ask)

    def cancel(self, run: RunHandle | str) -> None:
        """Ends the run if it waits, asks its worker to stop it if it runs."""

        async def ask(app: App) -> None:
            await (await app.find_run(run if isinstance(run, str) else run.id)).cancel()

        self._ask(ask)

    def close(self) -> None:
        """Ends the thread that a first call without a node has started; the next call starts another."""
        self._thread().stop()

    def _ask(self, question: Callable[[App], Awaitable[T]]) -> T:
        return trio.from_thread.run(question, self._app, trio_token=self._thread().token)
