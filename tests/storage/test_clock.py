"""Ids: in the order they were made, never twice the same, whatever the clock does."""

from __future__ import annotations

import random
import re
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from trisched.clock import Ids, SystemClock


class Readings:
    """A clock that shows what it is told, and its last reading from then on."""

    def __init__(self, readings: list[int]) -> None:
        self._readings = readings

    def now_us(self) -> int:
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


@given(
    readings=st.lists(st.integers(0, 2**52), min_size=1, max_size=20),
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_ids_only_grow_though_the_clock_may_jump(readings: list[int], counts: list[int]) -> None:
    ids = Ids(Readings(readings), random.Random(1))
    made = [run_id for count in counts for run_id in ids.some("run", count)]
    assert made == sorted(made)
    assert len({run_id[:18] for run_id in made}) == len(made)


def test_an_id_begins_with_the_time_it_was_made() -> None:
    ids = Ids(Readings([1_700_000_000_000_000]), random.Random(1))
    assert re.fullmatch(r"run-060a24181e4000[0-9a-f]{12}", ids.new("run"))
    assert re.fullmatch(r"job-060a24181e4001[0-9a-f]{12}", ids.new("job"))


def test_two_makers_at_the_same_moment_differ() -> None:
    first, second = (Ids(Readings([5]), random.Random(seed)) for seed in (1, 2))
    assert first.new("run") != second.new("run")
    assert first.token() != second.token()


def test_threads_get_ids_of_their_own() -> None:
    ids, made = Ids(Readings([5]), random.Random(1)), list[str]()
    threads = [threading.Thread(target=lambda: made.extend(ids.some("r", 500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run_id[:16] for run_id in made}) == 2000


def test_tokens_are_long_and_different() -> None:
    ids = Ids(Readings([5]), random.Random(1))
    tokens = {ids.token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[0-9a-f]{24}", token) for token in tokens)


def test_the_systems_clock_tells_microseconds() -> None:
    before = time.time_ns()
    now = SystemClock().now_us()
    assert before // 1000 <= now <= time.time_ns() // 1000
