"""Threads that own connections: work goes in from Trio, its answer comes back to Trio.

A piece of work that still waits is taken back when its caller is cancelled; one that has begun runs to its end,
so that a cancellation never lands inside a transaction.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import attrs
import outcome
import trio

from trisched.storage.database import Work

T = TypeVar("T")


@attrs.define(slots=True, eq=False)
class Item:
    """One transaction on its way: the work, who asked, and what became of it."""

    work: Work[Any]
    token: trio.lowlevel.TrioToken
    task: trio.lowlevel.Task
    begun: bool = False
    answer: outcome.Outcome[Any] | None = None


class Connection(Protocol):
    """One connection, used by one thread."""

    def transact(self, works: Sequence[Work[Any]]) -> list[outcome.Outcome[Any]]:
        """Runs each work; when this returns, what succeeded is committed."""

    def topics(self) -> list[str]:
        """The wake-ups of the last transact, to be published by the caller; forgets them."""

    def usable(self) -> bool:
        """Whether it is as far as one can see without asking."""

    def close(self) -> None:
        """Lets the connection go."""


class Lane:
    """A line of work in front of some threads, each with a connection of its own."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        publish: Callable[[list[str]], None],
        *,
        threads: int = 1,
        group: int = 1,
    ) -> None:
        self._connect, self._publish, self._group = connect, publish, group
        self._waiting: deque[Item] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"trisched-{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Work[T]) -> T:
        """The answer of ``work``, run on one of the threads."""
        item = Item(work, trio.lowlevel.current_trio_token(), trio.lowlevel.current_task())
        with self._changed:
            if self._closed:
                raise trio.ClosedResourceError("the database is closed")
            self._waiting.append(item)
            self._changed.notify()

        def abort(_: Any) -> trio.lowlevel.Abort:
            with self._changed:
                if item.begun:
                    return trio.lowlevel.Abort.FAILED
                self._waiting.remove(item)
            return trio.lowlevel.Abort.SUCCEEDED

        answer: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return answer

    async def close(self) -> None:
        """Finishes what has begun and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            await trio.to_thread.run_sync(thread.join, 10.0)

    def _take(self) -> list[Item]:
        """The next items, or nothing when the lane is closed and empty."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return []
                self._changed.wait()
            items = [self._waiting.popleft() for _ in range(min(self._group, len(self._waiting)))]
            for item in items:
                item.begun = True
            return items

    def _serve(self) -> None:
        connection: Connection | None = None
        while items := self._take():
            try:
                if connection is not None and not connection.usable():
                    connection.close()
                    connection = None
                connection = connection or self._connect()
                answers = connection.transact([item.work for item in items])
                topics = connection.topics()
            except BaseException as error:  # noqa: BLE001 - every way to fail must reach who waits
                if connection is not None:
                    connection.close()
                    connection = None
                answers, topics = [outcome.Error(error) for _ in items], []
            self._deliver(items, answers, topics)
            del items, answers
        if connection is not None:
            connection.close()

    def _deliver(self, items: list[Item], answers: list[outcome.Outcome[Any]], topics: list[str]) -> None:
        def deliver() -> None:
            self._publish(topics)
            for item, answer in zip(items, answers, strict=True):
                trio.lowlevel.reschedule(item.task, answer)

        try:
            items[0].token.run_sync_soon(deliver)
        except trio.RunFinishedError:
            return
