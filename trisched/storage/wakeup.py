"""Wake-ups: who waits for what, inside one process. A lost one costs a poll, never correctness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

#: Something about schedules changed: the scheduler looks again.
DUE: Final = "due"
#: A job was written: caches look again.
JOBS: Final = "jobs"
#: A run was asked to stop.
CANCEL: Final = "cancel"
#: Anything may have changed: everybody looks.
EVERYTHING: Final = "*"
_QUEUE: Final = "queue:"
_RUN: Final = "run:"


def queue_topic(queue: str) -> str:
    """Runs were put on ``queue``."""
    return _QUEUE + queue


def queue_of(topic: str) -> str | None:
    """The queue that ``topic`` is about, if it is about one."""
    return topic.removeprefix(_QUEUE) if topic.startswith(_QUEUE) else None


def run_topic(run_id: str) -> str:
    """The run changed its status."""
    return _RUN + run_id


class Wakeups:
    """Listeners by function, waiters by topic. All calls come from the Trio thread."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[str], None]] = []
        self._waiters: dict[str, list[trio.Event]] = {}

    def publish(self, topics: Iterable[str]) -> None:
        """Tells listeners and waiters; never blocks."""
        for topic in topics:
            for listener in self._listeners:
                listener(topic)
            for event in self._concerned(topic):
                event.set()

    def _concerned(self, topic: str) -> list[trio.Event]:
        if topic != EVERYTHING:
            return self._waiters.pop(topic, [])
        waiters, self._waiters = self._waiters, {}
        return [event for events in waiters.values() for event in events]

    def has_waiters(self) -> bool:
        """Whether publishing single topics is worth the trouble."""
        return bool(self._waiters)

    @contextmanager
    def listening(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Calls ``listener`` for every topic while the block lasts."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    @contextmanager
    def waiting(self, topic: str) -> Iterator[trio.Event]:
        """An event that the next publication of ``topic`` sets."""
        event = trio.Event()
        self._waiters.setdefault(topic, []).append(event)
        try:
            yield event
        finally:
            waiters = self._waiters.get(topic)
            if waiters and event in waiters:
                waiters.remove(event)
                if not waiters:
                    del self._waiters[topic]
