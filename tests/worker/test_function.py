"""Functions end as completed or failed, whatever they raise or return, and the node lives."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Never

import pytest
import trio

from tests.worker import annotated
from tests.worker.calls import make_call, texts, wait_until
from trisched.errors import Invalid
from trisched.worker.context import Context
from trisched.worker.executors import Ended, Failure
from trisched.worker.executors.function import AsyncFunction, ThreadFunction, bind, check_parameters


class OddError(Exception):
    """An error of the job's own."""


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def run_async(function: Callable[..., Any], **parameters: object) -> Ended:
    return await AsyncFunction().execute(make_call(function=function, parameters=parameters))


async def run_thread(function: Callable[..., Any], **parameters: object) -> Ended:
    executor = ThreadFunction(trio.CapacityLimiter(2))
    return await executor.execute(make_call(function=function, parameters=parameters))


async def raised(error: BaseException, *, in_thread: bool) -> Ended:
    """How a function that raises ``error`` ends."""

    async def awaited() -> Never:
        await trio.lowlevel.checkpoint()
        raise error

    def called() -> Never:
        raise error

    return await (run_thread(called) if in_thread else run_async(awaited))


def failure(ended: Ended) -> Failure:
    assert not ended.completed
    assert ended.error is not None
    return ended.error


async def test_a_coroutine_function_gets_its_parameters_and_context() -> None:
    seen: list[object] = []

    async def job(a: int, ctx: Context, b: str = "default") -> None:
        seen.extend([a, b, ctx.run_id])

    assert await run_async(job, a=1) == Ended(completed=True)
    assert seen == [1, "default", "run-1"]


async def test_a_function_in_a_thread_gets_its_parameters_and_context() -> None:
    def job(a: int, *, ctx: Context) -> list[object]:
        return [a, ctx.run_id, threading.current_thread() is threading.main_thread()]

    assert await run_thread(job, a=1) == Ended(completed=True, result='[1,"run-1",false]')


@pytest.mark.parametrize("value", [0, False, "", [], {"a": [1, None]}, "ü", 2**80])
async def test_results_are_kept_as_json(value: object) -> None:
    async def job() -> object:
        return value

    ended = await run_async(job)
    assert ended.completed
    assert ended.result is not None
    assert json.loads(ended.result) == value


@pytest.mark.parametrize("value", [object(), {1, object()}, {"f": print}, float("nan"), "lone \ud800"])
async def test_a_result_that_is_not_json_fails(value: object) -> None:
    async def job() -> object:
        return value

    assert failure(await run_async(job)).message.startswith("result ")


async def test_the_reason_says_that_the_result_is_not_json() -> None:
    assert failure(await run_thread(object)).message.startswith("result is not JSON: ")


async def test_a_result_beyond_the_limit_fails_with_the_reason() -> None:
    error = failure(await run_thread(lambda: "x" * (50 << 20)))
    assert error.type == "trisched.errors.TooLarge"
    assert "at most 1,048,576" in error.message


async def test_a_result_that_holds_itself_fails() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "result" in failure(await run_thread(lambda: loop)).message


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize(
    ("error", "type_name", "message"),
    [
        (ValueError("wrong"), "ValueError", "wrong"),
        (OddError("own"), "tests.worker.test_function.OddError", "own"),
        (BaseException("rare"), "BaseException", "rare"),
        (KeyboardInterrupt(), "KeyboardInterrupt", ""),
        (GeneratorExit(), "GeneratorExit", ""),
        (RecursionError("deep"), "RecursionError", "deep"),
        (
            UnprintableError(),
            "tests.worker.test_function.UnprintableError",
            "its __str__ raised RuntimeError",
        ),
        (ExceptionGroup("nursery", [ExceptionGroup("inner", [KeyError("k")])]), "KeyError", "'k'"),
        (
            ExceptionGroup("two", [KeyError("k"), OddError("o")]),
            "ExceptionGroup",
            "KeyError: 'k'; tests.worker",
        ),
        (ValueError("a\0b\ud800"), "ValueError", "a␀b?"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_what_a_job_raises_is_its_failure(
    error: BaseException, type_name: str, message: str, in_thread: bool
) -> None:
    found = failure(await raised(error, in_thread=in_thread))
    assert found.type == type_name
    assert message in found.message
    assert found.traceback is not None


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "thread"])
async def test_stop_iteration_is_a_failure(in_thread: bool) -> None:
    assert "StopIteration" in str(failure(await raised(StopIteration("x"), in_thread=in_thread)))


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize(
    ("code", "completed", "exit_code"),
    [(0, True, 0), (None, True, 0), (3, False, 3), ("a reason", False, 1), (10**30, False, 1)],
)
async def test_system_exit_counts_as_an_exit(
    code: str | int | None, completed: bool, exit_code: int, in_thread: bool
) -> None:
    ended = await raised(SystemExit(code), in_thread=in_thread)
    assert (ended.completed, ended.exit_code) == (completed, exit_code)


async def test_endless_recursion_is_a_failure() -> None:
    def job() -> Any:
        return job()

    error = failure(await run_thread(job))
    assert error.type == "RecursionError"
    assert error.traceback is not None
    assert len(error.traceback) < 70_000


async def test_messages_and_tracebacks_are_bounded() -> None:
    error = failure(await raised(ValueError("x" * 1_000_000), in_thread=False))
    assert len(error.message) < 10_100
    assert error.traceback is not None
    assert len(error.traceback) < 70_000


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "thread"])
async def test_the_traceback_shows_the_job_and_not_us(in_thread: bool) -> None:
    trace = failure(await raised(ValueError("wrong"), in_thread=in_thread)).traceback
    assert trace is not None
    assert "raise error" in trace
    assert "executors" not in trace
    assert "trio" not in trace.replace("trio.lowlevel", "")


async def test_an_error_in_a_nursery_of_the_job_is_shown_by_its_own_name() -> None:
    async def child() -> None:
        raise OddError("from a child task")

    async def job() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    error = failure(await run_async(job))
    assert (error.type, error.message) == ("tests.worker.test_function.OddError", "from a child task")


async def test_code_written_for_asyncio_fails_and_the_node_lives() -> None:
    async def job() -> None:
        await asyncio.sleep(0.01)

    assert failure(await run_async(job)).type in ("RuntimeError", "TypeError")


async def test_cancelling_stops_a_coroutine_function() -> None:
    cleaned = []

    async def job() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cleaned.append(True)

    with trio.move_on_after(0.01) as scope:
        await run_async(job)
    assert scope.cancelled_caught
    assert cleaned == [True]


async def test_an_error_while_being_stopped_is_a_note_and_the_stop_goes_on() -> None:
    async def job() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OddError("in the clean-up")

    call = make_call(function=job)
    with trio.move_on_after(0.01) as scope:
        await AsyncFunction().execute(call)
    assert scope.cancelled_caught
    assert "in the clean-up" in texts(call.output.close())[0]


async def test_a_cancelled_nursery_with_an_error_inside_lets_the_stop_through_alone() -> None:
    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OddError("from a child task")

    async def job() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)

    call = make_call(function=job)
    with trio.move_on_after(0.01) as scope:
        await AsyncFunction().execute(call)
    assert scope.cancelled_caught
    (note,) = texts(call.output.close())
    assert "OddError: from a child task" in note
    assert "Cancelled" not in note


async def test_a_cancellation_that_the_job_kept_for_later_is_a_failure() -> None:
    async def job() -> None:
        kept: list[trio.Cancelled] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                kept.append(cancelled)
        raise kept[0]

    assert failure(await run_async(job)).type == "trio.Cancelled"


async def test_a_time_out_of_the_jobs_own_is_its_failure() -> None:
    async def job() -> None:
        with trio.fail_after(0):
            await trio.sleep_forever()

    assert failure(await run_async(job)).type == "trio.TooSlowError"


async def test_a_job_that_completes_despite_the_stop_has_completed() -> None:
    async def job() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.02)
        return "done"

    with trio.move_on_after(0.001):
        ended = await run_async(job)
    assert ended == Ended(completed=True, result='"done"')


async def test_a_cancelled_thread_is_given_up_with_an_honest_note() -> None:
    release, ended = threading.Event(), threading.Event()

    def job() -> None:
        release.wait(10)
        ended.set()

    call = make_call(function=job)
    limiter = trio.CapacityLimiter(1)
    with trio.move_on_after(0.05) as scope:
        await ThreadFunction(limiter).execute(call)
    assert scope.cancelled_caught
    assert texts(call.output.close()) == ["the thread cannot be stopped; it goes on in the background"]
    assert limiter.borrowed_tokens == 1
    release.set()
    await wait_until(ended.is_set)


async def test_a_thread_that_never_started_is_not_said_to_go_on() -> None:
    call, limiter = make_call(function=lambda: None), trio.CapacityLimiter(1)
    await limiter.acquire()
    with trio.move_on_after(0.01) as scope:
        await ThreadFunction(limiter).execute(call)
    assert scope.cancelled_caught
    assert call.output.close() == []


@pytest.mark.parametrize(
    ("function", "context_name"),
    [
        (annotated.by_module, "ctx"),
        (annotated.by_full_name, "ctx"),
        (annotated.for_checkers_only, "ctx"),
        (annotated.for_checkers_or_none, "ctx"),
        (annotated.optional, "ctx"),
        (annotated.foreign, None),
        (functools.partial(annotated.by_module, a=1), "ctx"),
    ],
)
def test_the_context_is_found_by_its_annotation(function: Callable[..., Any], context_name: str | None) -> None:
    bound = bind(function)
    assert bound.context_name == context_name
    assert bound.is_async
    assert ("ctx" in bound.names) == (context_name is None)


def test_callable_objects_and_methods_are_bound() -> None:
    class Job:
        async def __call__(self, a: int) -> None: ...

        def method(self, b: int) -> None: ...

    assert bind(Job()).is_async
    assert bind(Job()).required == {"a"}
    assert not bind(Job().method).is_async
    assert bind(Job().method).required == {"b"}


def test_functions_that_do_no_work_when_called_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(Invalid, match="is a generator"):
            bind(function)


def test_a_parameter_that_has_no_name_is_refused() -> None:
    def job(a: int, /) -> None: ...

    with pytest.raises(Invalid, match="a cannot be given by name"):
        bind(job)


def test_a_function_without_a_signature_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        bind(type)


def test_unknown_and_missing_parameters_are_named_by_path() -> None:
    async def job(a: int, b: int, ctx: Context, c: int = 0) -> None: ...

    bound = bind(job)
    check_parameters(bound, {"a": 1, "b": 2})
    check_parameters(bound, {"a": 1, "b": 2, "c": 3})
    with pytest.raises(Invalid) as caught:
        check_parameters(bound, {"a": 1, "x": 2, "ctx": 3})
    assert [error.path for error in caught.value.errors] == ["parameters.x", "parameters.ctx", "parameters.b"]
    assert "takes a, b, c" in caught.value.errors[0].message


def test_defaults_of_a_job_need_not_be_complete() -> None:
    async def job(a: int, b: int) -> None: ...

    check_parameters(bind(job), {"a": 1}, complete=False)
    with pytest.raises(Invalid):
        check_parameters(bind(job), {"x": 1}, complete=False)


def test_a_function_that_takes_any_name_takes_any_name() -> None:
    async def job(a: int, **rest: int) -> None: ...

    check_parameters(bind(job), {"a": 1, "b": 2})
