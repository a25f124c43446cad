"""The registry of functions: nothing that is not in it is ever called."""

from __future__ import annotations

import pytest

from trisched.errors import Invalid
from trisched.worker.tasks import Tasks


async def later(number: int, *, text: str = "") -> None:
    return


def at_once(number: int) -> None:
    return


@pytest.mark.parametrize(("function", "mode"), [(later, "async"), (at_once, "thread")])
def test_the_mode_follows_from_the_kind_of_function(function: object, mode: str) -> None:
    tasks = Tasks()
    assert tasks.register("job", function, None).mode == mode  # type: ignore[arg-type]


@pytest.mark.parametrize(("function", "mode"), [(later, "thread"), (at_once, "async")])
def test_a_mode_that_does_not_suit_the_function_is_refused(function: object, mode: str) -> None:
    with pytest.raises(Invalid, match=f"mode: {mode} needs"):
        Tasks().register("job", function, mode)  # type: ignore[arg-type]


def test_both_ways_to_write_a_name_mean_the_same_function() -> None:
    tasks = Tasks()
    task = tasks.register("reports.daily", later, None)
    assert tasks.find("reports:daily") is task
    assert tasks.knows("reports:daily")
    assert not tasks.knows("reports.weekly")


def test_registering_the_same_function_again_is_welcome_and_another_one_is_not() -> None:
    tasks = Tasks()
    tasks.register("job", later, None)
    tasks.register("job", later, None)
    with pytest.raises(Invalid, match="another function registered as 'job'"):
        tasks.register("job", at_once, None)


def test_parameters_are_checked_for_functions_that_are_known() -> None:
    tasks = Tasks()
    tasks.register("job", later, None)
    tasks.check("job", {"number": 1})
    tasks.check("job", {"number": 1, "text": "x"})
    with pytest.raises(Invalid, match="nmber"):
        tasks.check("job", {"nmber": 1})
    tasks.check("not known here", {"anything": 1})
