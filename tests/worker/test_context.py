"""The context tells a function who it is and carries what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.worker.calls import make_context, make_output, texts
from trisched.domain.progress import Progress
from trisched.errors import TrischedError


def test_the_slot_is_an_instant_in_utc() -> None:
    assert make_context(slot_at=1_750_000_000_000_001).slot == datetime(2025, 6, 15, 15, 6, 40, 1, tzinfo=UTC)
    assert make_context(slot_at=None).slot is None


def test_log_lines_are_output_of_the_run() -> None:
    output = make_output()
    context = make_context(output)
    context.log("plain")
    context.log.info("%s of %d", "two", 3)
    context.log.warning("careful")
    context.log.error("broken\nin two lines")
    context.log("lone \ud800 surrogate")
    lines = output.close()
    assert texts(lines) == [
        "plain",
        "two of 3",
        "warning: careful",
        "error: broken",
        "in two lines",
        "lone ? surrogate",
    ]
    assert {line.stream for line in lines} == {"log"}


@pytest.mark.parametrize(("text", "args"), [("100%", (1,)), ("%d", ("x",)), ("none", (1, 2)), ("%(a)s", ({},))])
def test_a_slip_in_a_log_text_does_not_raise(text: str, args: tuple[object, ...]) -> None:
    output = make_output()
    make_context(output).log(text, *args)
    assert texts(output.close())[0].startswith(text)


def test_the_latest_progress_is_kept() -> None:
    output = make_output()
    context = make_context(output)
    context.progress(1, 10, "first")
    context.progress(2, 10, "second")
    assert output.progress == Progress(2, 10, "second")
    context.progress(3)
    assert output.progress == Progress(3, None, "")


def test_progress_that_no_store_can_hold_is_left_out() -> None:
    output = make_output()
    context = make_context(output)
    context.progress(1, 10)
    context.progress(float("nan"), 10)
    assert output.progress == Progress(1, 10)
    context.progress(2, float("inf"), "a\0b")
    assert output.progress == Progress(2, None, "a␀b")


async def test_submit_reaches_the_node() -> None:
    asked: list[object] = []

    async def submit(job: str, parameters: object, **options: object) -> str:
        asked.append((job, parameters, options))
        return "run-2"

    context = make_context(submit=submit)
    assert await context.submit("mail", {"to": "a"}, delay="5m") == "run-2"
    assert asked == [("mail", {"to": "a"}, {"delay": "5m"})]


async def test_submit_without_a_node_says_so() -> None:
    with pytest.raises(TrischedError, match="without a node"):
        await make_context().submit("mail")


async def test_a_transaction_needs_transactional_delivery() -> None:
    with pytest.raises(TrischedError, match='delivery="transactional"'):
        make_context().transaction()

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        yield "tx"

    async with make_context(transaction=transaction).transaction() as tx:
        assert tx == "tx"


def test_lease_ok_asks_the_node() -> None:
    held = [True]
    context = make_context(lease_ok=lambda: held[0])
    assert context.lease_ok()
    held[0] = False
    assert not context.lease_ok()
    assert make_context().lease_ok()
