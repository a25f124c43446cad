"""Lanes: work goes to threads, answers come back, and every way to fail reaches who waits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import outcome
import pytest
import trio
import trio.testing

from trisched.errors import StoreUnavailable
from trisched.storage.database import Work
from trisched.storage.lane import Item, Lane


class Link:
    """A connection that hands itself to the work, and breaks when a work raises ``ConnectionError``."""

    def __init__(self) -> None:
        self.closed = False
        self.ended_by_server = False
        self.told: list[str] = []
        self.groups: list[int] = []

    def transact(self, works: Sequence[Work[Any]]) -> list[outcome.Outcome[Any]]:
        assert not self.closed
        self.groups.append(len(works))
        answers = []
        for work in works:
            answer = outcome.capture(cast("Any", work), self)
            if isinstance(answer, outcome.Error) and isinstance(answer.error, ConnectionError):
                raise StoreUnavailable("broken")
            answers.append(answer)
        return answers

    def topics(self) -> list[str]:
        told, self.told = self.told, []
        return told

    def usable(self) -> bool:
        return not self.ended_by_server

    def close(self) -> None:
        self.closed = True


def _break(_: Any) -> None:
    raise ConnectionError


def _miss(_: Any) -> str:
    return dict[str, str]()["missing"]


def _links() -> tuple[list[Link], Any]:
    made: list[Link] = []

    def connect() -> Link:
        made.append(Link())
        return made[-1]

    return made, connect


async def test_answers_and_errors_come_back_to_who_asked() -> None:
    made, connect = _links()
    lane = Lane("test", connect, lambda _: None)
    assert await lane.run(lambda _: 42) == 42
    with pytest.raises(KeyError):
        await lane.run(_miss)
    assert await lane.run(lambda link: cast("Any", link)) is made[0]
    await lane.close()
    assert [link.closed for link in made] == [True]


async def test_a_broken_connection_is_replaced_by_the_next_work() -> None:
    made, connect = _links()
    lane = Lane("test", connect, lambda _: None)
    with pytest.raises(StoreUnavailable):
        await lane.run(_break)
    assert await lane.run(lambda _: "fine") == "fine"
    assert [link.closed for link in made] == [True, False]
    await lane.close()


async def test_a_connection_that_ended_while_it_was_idle_costs_no_work() -> None:
    made, connect = _links()
    lane = Lane("test", connect, lambda _: None)
    await lane.run(lambda _: None)
    made[0].ended_by_server = True
    assert await lane.run(lambda link: cast("Any", link)) is made[1]
    assert made[0].closed
    await lane.close()


async def test_a_connection_that_cannot_be_made_fails_the_work_and_is_tried_again() -> None:
    tries: list[int] = []
    _, connect = _links()

    def connect_later() -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise StoreUnavailable("not yet")
        return connect()

    lane = Lane("test", connect_later, lambda _: None)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="not yet"):
            await lane.run(lambda _: None)
    assert await lane.run(lambda _: 1) == 1
    await lane.close()


async def test_wake_ups_are_published_on_the_trio_thread_before_the_answer() -> None:
    order: list[object] = []

    def publish(topics: list[str]) -> None:
        order.append((threading.current_thread() is home, topics))

    home = threading.current_thread()
    _, connect = _links()
    lane = Lane("test", connect, publish)
    await lane.run(lambda link: link.told.append("x"))  # type: ignore[attr-defined]
    order.append("answer")
    await lane.close()
    assert order == [(True, ["x"]), "answer"]


async def test_groups_are_bounded_and_keep_their_order() -> None:
    made, connect = _links()
    lane = Lane("test", connect, lambda _: None, group=3)
    begun, go_on, seen = trio.Event(), threading.Event(), list[int]()
    token = trio.lowlevel.current_trio_token()

    async def ask(number: int) -> None:
        await lane.run(lambda _: seen.append(number))

    def first(_: object) -> None:
        token.run_sync_soon(begun.set)
        go_on.wait(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run, first)
        await begun.wait()
        for number in range(7):
            nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    assert seen == list(range(7))
    assert made[0].groups == [1, 3, 3, 1]
    await lane.close()


async def test_threads_work_side_by_side() -> None:
    _, connect = _links()
    lane = Lane("test", connect, lambda _: None, threads=2)
    barrier = threading.Barrier(2, timeout=30)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(lane.run, lambda _: barrier.wait())
    await lane.close()


async def test_closing_finishes_what_was_asked_and_refuses_what_comes_later() -> None:
    _, connect = _links()
    lane = Lane("test", connect, lambda _: None)
    go_on, answers = threading.Event(), list[object]()

    async def ask(work: Work[object]) -> None:
        answers.append(await lane.run(work))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda _: go_on.wait(30))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, lambda _: "second")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(lane.close)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.ClosedResourceError):
            await lane.run(lambda _: None)
        go_on.set()
    assert set(answers) == {True, "second"}


def test_an_answer_for_a_trio_run_that_is_over_is_dropped() -> None:
    """The process is on its way out: the thread must end, not fail."""
    _, connect = _links()
    go_on = threading.Event()
    lanes: list[Lane] = []

    async def main() -> None:
        lanes.append(Lane("test", connect, lambda _: None))
        token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
        with lanes[0]._changed:
            lanes[0]._waiting.append(Item(lambda _: go_on.wait(30), token, task))
            lanes[0]._changed.notify()

    trio.run(main)
    go_on.set()
    trio.run(lanes[0].close)
    assert not any(thread.is_alive() for thread in lanes[0]._threads)
