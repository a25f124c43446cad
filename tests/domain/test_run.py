"""Runs: urgency is one number, and waiting makes up for a lower class."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.run import AGING_US, CLASS_PRIORITY, PRIORITY_CLASS, Priority, rank

MOMENTS = st.integers(0, 2**51)
CLASSES = st.sampled_from(sorted(CLASS_PRIORITY))


def test_classes_are_numbered_from_the_most_urgent() -> None:
    assert [PRIORITY_CLASS[priority] for priority in Priority] == [0, 1, 2, 3]
    assert list(Priority) == ["critical", "high", "normal", "low"]
    assert {CLASS_PRIORITY[number]: number for number in CLASS_PRIORITY} == PRIORITY_CLASS


@given(due=MOMENTS, one=CLASSES, other=CLASSES)
def test_at_the_same_moment_the_higher_class_goes_first(due: int, one: int, other: int) -> None:
    assert (rank(due, one) < rank(due, other)) is (one < other)


@given(early=MOMENTS, late=MOMENTS, priority=CLASSES)
def test_within_a_class_the_earlier_goes_first(early: int, late: int, priority: int) -> None:
    assert (rank(early, priority) < rank(late, priority)) is (early < late)


@given(due=MOMENTS, high=CLASSES, low=CLASSES)
def test_an_hour_is_worth_one_class_exactly(due: int, high: int, low: int) -> None:
    waited = (low - high) * AGING_US
    assert rank(due - waited, low) == rank(due, high)
    assert AGING_US == 3600 * 1_000_000


@given(due=MOMENTS, priority=CLASSES)
def test_a_rank_fits_in_the_databases_whole_numbers(due: int, priority: int) -> None:
    assert rank(due, priority) < 2**63
