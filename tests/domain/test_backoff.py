"""Waits grow, keep below their cap, and never fail for a large count."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.backoff import Backoff, backoff_fields, delay, parse_backoff
from trisched.errors import Invalid

seconds = st.floats(0, 1000, allow_subnormal=False)
backoffs = st.builds(
    lambda kind, base, more, factor, jitter: Backoff(
        kind=kind, base=base, factor=factor, max=base + more, jitter=jitter
    ),
    st.sampled_from(["exponential", "fixed"]),
    seconds,
    seconds,
    st.floats(1, 100),
    seconds,
)


def test_the_default_doubles_up_to_five_minutes() -> None:
    calm = parse_backoff({"jitter": 0})
    assert [delay(calm, n, Random(1)) for n in range(1, 12)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_fixed_waits_are_all_the_same() -> None:
    calm = parse_backoff({"kind": "fixed", "base": "5s", "jitter": 0})
    assert [delay(calm, n, Random(1)) for n in (1, 2, 3, 1000)] == [5, 5, 5, 5]


@given(backoffs, st.integers(1, 10**12), st.integers())
def test_a_wait_keeps_between_its_base_and_its_cap_and_jitter(backoff: Backoff, failures: int, seed: int) -> None:
    wait = delay(backoff, failures, Random(seed))
    assert backoff.base <= wait * (1 + 1e-9)
    assert wait <= backoff.max + backoff.jitter


@given(backoffs, st.integers(1, 10**6), st.integers())
def test_a_later_wait_is_not_shorter_but_for_the_jitter(backoff: Backoff, failures: int, seed: int) -> None:
    earlier = delay(backoff, failures, Random(seed))
    later = delay(backoff, failures + 1, Random(seed))
    assert later >= earlier * (1 - 1e-9)


def test_jitter_spreads_runs_that_failed_together() -> None:
    random = Random(7)
    waits = {delay(Backoff(), 1, random) for _ in range(100)}
    assert len(waits) == 100
    assert all(1.0 <= wait <= 1.5 for wait in waits)


@given(backoffs)
def test_what_is_written_back_is_read_as_the_same_backoff(backoff: Backoff) -> None:
    assert parse_backoff(backoff_fields(backoff)) == backoff


@pytest.mark.parametrize(
    ("value", "backoff"),
    [
        ("fixed", Backoff(kind="fixed")),
        ("exponential", Backoff()),
        ({}, Backoff()),
        ({"base": "2s", "max": "1h", "factor": 3, "jitter": "250ms"},
         Backoff(base=2.0, max=3600.0, factor=3.0, jitter=0.25)),
        ({"base": None}, Backoff()),
    ],
)  # fmt: skip
def test_words_and_objects_are_read(value: object, backoff: Backoff) -> None:
    assert parse_backoff(value) == backoff


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("linear", "backoff"),
        (5, "backoff"),
        (None, "backoff"),
        ({"kind": "linear"}, "backoff.kind"),
        ({"base": -1}, "backoff.base"),
        ({"base": "2d"}, "backoff.base"),
        ({"factor": 0.5}, "backoff.factor"),
        ({"factor": 101}, "backoff.factor"),
        ({"factor": True}, "backoff.factor"),
        ({"factor": float("nan")}, "backoff.factor"),
        ({"factor": "2"}, "backoff.factor"),
        ({"jitter": "much"}, "backoff.jitter"),
        ({"base": 600}, "backoff.max"),
        ({"cap": 5}, "backoff.cap"),
    ],
)
def test_what_is_wrong_is_refused_at_its_path(value: object, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_backoff(value)
    assert [error.path for error in refused.value.errors] == [path]


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        parse_backoff({"cap": 5, "base": "x", "jitter": -1}, "jobs[0].backoff")
    paths = {error.path for error in refused.value.errors}
    assert paths == {"jobs[0].backoff.cap", "jobs[0].backoff.base", "jobs[0].backoff.jitter"}
