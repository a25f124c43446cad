"""Tasks: the Python functions that this node has, by name, with their signatures read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from trisched.errors import Invalid
from trisched.worker.executors.function import BoundFunction, bind, check_parameters


@attrs.frozen
class Task:
    """A registered function and where it runs: ``async`` or ``thread``."""

    name: str
    bound: BoundFunction
    mode: str


class Tasks:
    """The registry. Nothing that is not in here is ever called, whatever the API asks for."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def register(self, name: str, function: Callable[..., Any], mode: str | None) -> Task:
        """Adds a function; coroutine functions run on the node's loop, the others in threads."""
        bound = bind(function)
        chosen = mode or ("async" if bound.is_async else "thread")
        if (chosen == "async") != bound.is_async:
            need = "a coroutine function" if chosen == "async" else "a plain function"
            raise Invalid.at("mode", f"{chosen} needs {need}; {name} is none")
        known = self._tasks.get(name)
        if known is not None and known.bound.function is not function:
            raise Invalid.at("name", f"there is another function registered as {name!r}; give one of them a name=")
        task = Task(name, bound, chosen)
        self._tasks[name] = task
        return task

    def find(self, name: str) -> Task | None:
        """The task of that name; ``module:function`` and ``module.function`` are the same."""
        return self._tasks.get(name.replace(":", "."))

    def names(self) -> tuple[str, ...]:
        """The names of all tasks, in order."""
        return tuple(sorted(self._tasks))

    def knows(self, function: str) -> bool:
        """Whether this node has the function."""
        return self.find(function) is not None

    def check(self, function: str, parameters: Mapping[str, object]) -> None:
        """Refuses parameters that the function does not take; what is not known here is not judged."""
        task = self.find(function)
        if task is not None:
            check_parameters(task.bound, parameters)
