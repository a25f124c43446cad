"""Of the slots that came due none is lost and none is planned twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import instant
from trisched.domain.misfire import MOST_SKIPPED, Misfire, plan_slots
from trisched.domain.slot import At, Cron, Every, Schedule, next_slot, slots_between

SECOND = 1_000_000
MINUTE = 60 * SECOND
YEAR = 365 * 86_400 * SECOND
NOW = instant("2026-11-18T08:00:30+00:00")
EACH_MINUTE = Schedule(rule=Cron(expression="* * * * *"))
POLICIES: tuple[Misfire, ...] = ("skip", "catch_up_one", "catch_up_all")

schedules = st.sampled_from(
    [
        EACH_MINUTE,
        Schedule(rule=Cron(expression="*/5 * * * * *")),
        Schedule(rule=Cron(expression="* 30 8 * * *")),
        Schedule(rule=Cron(expression="0 0 * * *"), timezone="Europe/Berlin"),
        Schedule(rule=Every(seconds=0.7, anchor_us=NOW - 40 * MINUTE)),
        Schedule(rule=Every(seconds=90, anchor_us=NOW - YEAR)),
        Schedule(rule=Every(seconds=1, anchor_us=NOW - YEAR), end_us=NOW - 10 * MINUTE),
        Schedule(rule=At(at_us=NOW - 5 * MINUTE)),
    ]
)


@given(
    schedules,
    st.sampled_from(POLICIES),
    st.integers(0, 30 * MINUTE),
    st.integers(0, 30),
    st.sampled_from([0, SECOND, 5 * MINUTE]),
)
def test_every_due_slot_is_planned_exactly_once(
    schedule: Schedule, policy: Misfire, down: int, max_catch_up: int, grace: int
) -> None:
    first = next_slot(schedule, NOW - down)
    if first is None:
        return
    plan = plan_slots(schedule, next_slot=first, now=NOW, policy=policy, max_catch_up=max_catch_up, grace_us=grace)
    due = slots_between(schedule, first - 1, NOW, 10**6)
    planned = sorted([*plan.run, *plan.made_up, *plan.skipped])
    assert due[plan.unrecorded :] == planned
    assert plan.unrecorded == len(due) - len(planned)
    assert plan.next == next_slot(schedule, max(NOW, first - 1))
    assert all(list(part) == sorted(part) for part in (plan.run, plan.made_up, plan.skipped))
    assert all(NOW - slot <= grace for slot in plan.run)
    assert len(plan.run) <= max(max_catch_up, 1)
    assert len(plan.skipped) <= MOST_SKIPPED
    assert not plan.unrecorded or len(plan.skipped) == MOST_SKIPPED
    missed = len(due) - len(plan.run)
    assert (
        len(plan.made_up)
        == {
            "skip": 0,
            "catch_up_one": min(missed, 1),
            "catch_up_all": min(missed, max_catch_up),
        }[policy]
    )


@pytest.mark.parametrize(("policy", "made_up"), [("skip", 0), ("catch_up_one", 1), ("catch_up_all", 10)])
def test_ten_minutes_down_are_made_up_by_policy(policy: Misfire, made_up: int) -> None:
    plan = plan_slots(
        EACH_MINUTE, next_slot=NOW - 10 * MINUTE - 30 * SECOND, now=NOW - 31 * SECOND, policy=policy,
        max_catch_up=100, grace_us=SECOND,
    )  # fmt: skip
    assert plan.run == ()
    assert len(plan.made_up) == made_up
    assert len(plan.skipped) == 10 - made_up
    assert plan.next == NOW - 30 * SECOND


def test_the_latest_missed_slots_are_the_ones_made_up() -> None:
    first = NOW - 30 * SECOND - 20 * MINUTE
    plan = plan_slots(EACH_MINUTE, next_slot=first, now=NOW, policy="catch_up_all", max_catch_up=3, grace_us=0)
    last = NOW - 30 * SECOND
    assert plan.made_up == (last - 2 * MINUTE, last - MINUTE, last)
    assert plan.skipped == tuple(first + n * MINUTE for n in range(18))


def test_a_slot_on_time_runs_whatever_the_policy() -> None:
    slot = NOW - 30 * SECOND
    for policy in POLICIES:
        plan = plan_slots(EACH_MINUTE, next_slot=slot, now=NOW, policy=policy, max_catch_up=0, grace_us=30 * SECOND)
        assert (plan.run, plan.made_up, plan.skipped, plan.unrecorded) == ((slot,), (), (), 0)


def test_nothing_due_plans_nothing() -> None:
    slot = NOW + 30 * SECOND
    plan = plan_slots(EACH_MINUTE, next_slot=slot, now=NOW, policy="catch_up_all", max_catch_up=9, grace_us=0)
    assert (plan.run, plan.made_up, plan.skipped, plan.unrecorded, plan.next) == ((), (), (), 0, slot)


def test_a_missed_moment_is_skipped_or_made_up_and_has_no_next() -> None:
    schedule = Schedule(rule=At(at_us=NOW - MINUTE))
    skip = plan_slots(schedule, next_slot=NOW - MINUTE, now=NOW, policy="skip", max_catch_up=9, grace_us=SECOND)
    assert (skip.skipped, skip.made_up, skip.next) == ((NOW - MINUTE,), (), None)
    one = plan_slots(schedule, next_slot=NOW - MINUTE, now=NOW, policy="catch_up_one", max_catch_up=9, grace_us=SECOND)
    assert (one.skipped, one.made_up) == ((), (NOW - MINUTE,))


# Walking the 31 million slots one by one would take minutes.
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(rule=Cron(expression="* * * * * *"), timezone="Europe/Berlin"),
        Schedule(rule=Every(seconds=1, anchor_us=NOW - 2 * YEAR)),
    ],
)
def test_a_year_of_seconds_is_planned_without_walking_through_it(schedule: Schedule) -> None:
    plan = plan_slots(
        schedule, next_slot=NOW - YEAR, now=NOW, policy="catch_up_all", max_catch_up=1000, grace_us=SECOND
    )
    assert plan.run == (NOW - SECOND, NOW)
    assert plan.made_up == tuple(NOW - n * SECOND for n in range(1001, 1, -1))
    assert len(plan.skipped) == MOST_SKIPPED
    total = YEAR // SECOND + 1
    assert plan.unrecorded == pytest.approx(total - 1102, rel=1e-3)


@pytest.mark.timeout(20)
def test_a_burst_long_ago_is_found() -> None:
    schedule = Schedule(rule=Cron(expression="* * * 1 1 *"))
    first = instant("2026-01-01T00:00:00+00:00")
    plan = plan_slots(schedule, next_slot=first, now=NOW, policy="catch_up_all", max_catch_up=50, grace_us=SECOND)
    end = instant("2026-01-02T00:00:00+00:00")
    assert plan.made_up == tuple(end - n * SECOND for n in range(50, 0, -1))
    assert plan.unrecorded == pytest.approx(86_400 - 150, rel=1e-3)
    assert plan.next == instant("2027-01-01T00:00:00+00:00")
