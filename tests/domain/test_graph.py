"""A cycle of dependencies is found with its path; without one, there is an order to run in."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.graph import find_cycle

NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=4, unique=True), max_size=8)


@given(edges=GRAPHS, start=NAMES)
def test_a_path_that_is_found_is_a_cycle_through_its_start(edges: dict[str, list[str]], start: str) -> None:
    path = find_cycle(edges, start)
    if path is not None:
        assert path[0] == path[-1] == start
        assert len(path) >= 2
        assert all(after in edges[before] for before, after in pairwise(path))
        assert len(set(path)) == len(path) - 1


@given(edges=GRAPHS)
def test_there_is_an_order_exactly_when_no_start_has_a_cycle(edges: dict[str, list[str]]) -> None:
    cyclic = {name for name in edges if find_cycle(edges, name)}
    assert bool(cyclic) is not _has_order(edges)


def _has_order(edges: dict[str, list[str]]) -> bool:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return False
    return True


@pytest.mark.parametrize(
    ("edges", "path"),
    [
        ({"a": ["a"]}, ["a", "a"]),
        ({"a": ["b"], "b": ["a"]}, ["a", "b", "a"]),
        ({"a": ["x", "b"], "b": ["c"], "c": ["x", "a"], "x": []}, ["a", "b", "c", "a"]),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, None),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, None),
        ({"a": ["nowhere"]}, None),
        ({}, None),
    ],
)
def test_the_path_is_told_as_people_read_it(edges: dict[str, list[str]], path: list[str] | None) -> None:
    assert find_cycle(edges, "a") == path


def test_a_chain_may_be_deeper_than_the_stack() -> None:
    length = 10_000
    chain = {str(number): [str(number + 1)] for number in range(length)}
    assert find_cycle(chain, "0") is None
    chain[str(length)] = ["0"]
    path = find_cycle(chain, "0")
    assert path == [*(str(number) for number in range(length + 1)), "0"]


def test_many_ways_to_the_same_place_are_walked_once() -> None:
    """A ladder has 2**1000 paths: only a search that remembers comes to an end."""
    ladder = {}
    for number in range(1000):
        ladder[f"l{number}"] = ladder[f"r{number}"] = [f"l{number + 1}", f"r{number + 1}"]
    assert find_cycle(ladder, "l0") is None
