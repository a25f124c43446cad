"""Executes Python functions inside the node: coroutine functions on Trio, the others in threads."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import trio

from trisched.domain.text import encode_json
from trisched.errors import FieldError, Invalid, TooLarge
from trisched.worker.context import Context
from trisched.worker.executors import Call, Ended, Failure
from trisched.worker.executors.failure import describe, ending

RESULT_LIMIT: Final = 1 << 20
_COMPLETED: Final = Ended(completed=True)
_NAMES_CONTEXT = re.compile(
    r"(?:typing\.)?(?:Optional\[)?(?:\w+\.)*Context\]?(?:\s*\|\s*None)?|None\s*\|\s*(?:\w+\.)*Context"
)
_THREAD_GOES_ON: Final = b"the thread cannot be stopped; it goes on in the background\n"


@attrs.frozen(kw_only=True)
class BoundFunction:
    """A function whose signature was read once, so that a call costs nothing but the call."""

    function: Callable[..., Any]
    name: str
    is_async: bool
    #: The parameter that receives the context, if any.
    context_name: str | None
    #: Every name that may be given, and those that must be.
    names: frozenset[str]
    required: frozenset[str]
    #: The function takes ``**names``: any further name is welcome.
    takes_any: bool

    def __call__(self, call: Call) -> Any:
        """Calls the function: the result, or the coroutine of a coroutine function."""
        if self.context_name is None:
            return self.function(**call.parameters)
        return self.function(**call.parameters, **{self.context_name: call.context})


class AsyncFunction:
    """Awaits a coroutine function. What the function prints is not captured; ``ctx.log`` is.

    A function that never awaits makes no checkpoint here: the caller's own steps have theirs.
    """

    async def execute(self, call: Call) -> Ended:
        assert call.function is not None
        try:
            result = await call.function(call)
        except GeneratorExit as error:
            # Awaiting is not allowed if the coroutine itself is being closed.
            return ending(error)
        except BaseException as error:  # noqa: BLE001 - nothing that a job raises may end the node
            return await _ended_by(call, error)
        return _COMPLETED if result is None else _with_result(result)


class ThreadFunction:
    """Calls a function in a thread, at most as many at once as the limiter allows.

    A thread cannot be stopped: when the call is cancelled the thread is given up, keeps its place in the
    limiter until it returns, and whatever it returns is dropped.
    """

    def __init__(self, limiter: trio.CapacityLimiter) -> None:
        self._limiter = limiter

    async def execute(self, call: Call) -> Ended:
        started = False

        def work() -> Ended:
            nonlocal started
            started = True
            return _call_here(call)

        try:
            return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
        except trio.Cancelled:
            if started:
                call.output.write("log", _THREAD_GOES_ON)
            raise
        except RuntimeError as error:
            return Ended(completed=False, error=describe(error))


def bind(function: Callable[..., Any]) -> BoundFunction:
    """Reads the signature of a function; refuses what could never be called with named parameters."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    called = function if inspect.isroutine(function) else getattr(function, "func", type(function).__call__)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise Invalid.at("function", f"{name} is a generator: calling it does no work; return a value instead")
    context_name, names, required, takes_any = None, set(), set(), False
    for parameter in _signature(function, name).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise Invalid.at("function", f"{name}: {parameter.name} cannot be given by name; remove the '/'")
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            if context_name is None and _is_context(parameter.annotation, function):
                context_name = parameter.name
                continue
            names.add(parameter.name)
            if parameter.default is parameter.empty:
                required.add(parameter.name)
    return BoundFunction(
        function=function,
        name=name,
        is_async=inspect.iscoroutinefunction(called),
        context_name=context_name,
        names=frozenset(names),
        required=frozenset(required),
        takes_any=takes_any,
    )


def check_parameters(bound: BoundFunction, parameters: Mapping[str, object], *, complete: bool = True) -> None:
    """Raises ``Invalid`` with each name that the function does not take, and each that it misses.

    ``complete=False`` is for defaults that a later submit adds to: nothing is missed then.
    """
    errors = list(_unknown(bound, parameters))
    if complete:
        missing = sorted(bound.required - parameters.keys())
        errors += [FieldError(f"parameters.{name}", f"is missing; {bound.name} needs it") for name in missing]
    if errors:
        raise Invalid(errors)


def _unknown(bound: BoundFunction, parameters: Mapping[str, object]) -> Iterator[FieldError]:
    takes = ", ".join(sorted(bound.names)) or "no parameters"
    for name in parameters:
        if name == bound.context_name:
            yield FieldError(f"parameters.{name}", "is filled in by trisched; leave it out")
        elif not bound.takes_any and name not in bound.names:
            yield FieldError(f"parameters.{name}", f"is unknown; {bound.name} takes {takes}")


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise Invalid.at("function", f"the signature of {name} cannot be read; wrap it in a def") from None


def _is_context(annotation: object, function: Callable[..., Any]) -> bool:
    if isinstance(annotation, str | typing.ForwardRef):
        annotation = _resolve(annotation, function)
    if isinstance(annotation, type):
        return issubclass(annotation, Context)
    if isinstance(annotation, str):
        return _NAMES_CONTEXT.fullmatch(annotation) is not None
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return any(_is_context(arm, function) for arm in typing.get_args(annotation))
    return False


def _resolve(annotation: str | typing.ForwardRef, function: Callable[..., Any]) -> object:
    """What a string annotation means; the text itself when its names exist for type checkers only."""
    text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
    inner = inspect.unwrap(getattr(function, "func", function))
    holder = types.SimpleNamespace(__annotations__={"it": text})
    try:
        return typing.get_type_hints(holder, getattr(inner, "__globals__", {}))["it"]
    except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything
        return text


def _call_here(call: Call) -> Ended:
    assert call.function is not None
    try:
        result = call.function(call)
    except BaseException as error:  # noqa: BLE001 - nothing that a job raises may end the node
        return ending(error)
    return _COMPLETED if result is None else _with_result(result)


async def _ended_by(call: Call, error: BaseException) -> Ended:
    """The failure, unless the call is being stopped: then the stop goes on and the error is a note.

    Asking Trio also tells a real cancellation from a ``Cancelled`` that a job kept and raised later.
    """
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
    except trio.Cancelled:
        if (own := _without_cancelled(error)) is not None:
            failure = describe(own)
            call.context.log.warning("raised while being stopped: %s: %s", failure.type, failure.message)
        raise
    return ending(error)


def _without_cancelled(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error


def _with_result(result: object) -> Ended:
    try:
        return Ended(completed=True, result=encode_json(result, "result", limit=RESULT_LIMIT))
    except TooLarge as error:
        failure = Failure("trisched.errors.TooLarge", f"{error}; store it elsewhere and return where it is")
    except Exception as error:  # noqa: BLE001 - the result's own properties may raise anything
        reason = error.errors[0].message if isinstance(error, Invalid) else f"is not JSON: {describe(error).message}"
        failure = Failure("trisched.errors.Invalid", f"result {reason}")
    return Ended(completed=False, error=failure)
