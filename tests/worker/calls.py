"""Factories for what an executor is given, and a look at the processes of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from trisched.domain.request import parse_request
from trisched.worker.context import Context
from trisched.worker.executors import Call
from trisched.worker.executors.function import bind
from trisched.worker.output import Line, OutputBuffer

NOW = 1_750_000_000_000_000


def make_output(limit: int = 1 << 20) -> OutputBuffer:
    return OutputBuffer(clock=lambda: NOW, limit=limit)


def make_context(output: OutputBuffer | None = None, **changes: Any) -> Context:
    given: dict[str, Any] = {
        "run_id": "run-1",
        "job": "report",
        "attempt": 2,
        "idempotency_key": "key-1",
        "token": 7,
        "node": "node-1",
        "parameters": {},
        "slot_at": None,
        "output": output or make_output(),
    }
    return Context(**{**given, **changes})


def make_call(
    *,
    function: Callable[..., Any] | None = None,
    parameters: Mapping[str, object] | None = None,
    command: str | tuple[str, ...] | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    kill_after: float = 10.0,
    slot_at: int | None = None,
    request: Mapping[str, object] | None = None,
    secrets: Mapping[str, str] | None = None,
    results: Mapping[str, object] | None = None,
) -> Call:
    output = make_output()
    return Call(
        run_id="run-1",
        job_name="report",
        attempt=2,
        token=7,
        claim_id="claim-1",
        node_id="node-1",
        slot_at=slot_at,
        idempotency_key="key-1",
        parameters=parameters or {},
        function=None if function is None else bind(function),
        command=command,
        cwd=cwd,
        env=env or {},
        kill_after=kill_after,
        output=output,
        context=make_context(output, parameters=parameters or {}, slot_at=slot_at),
        request=None if request is None else parse_request(request),
        secrets=secrets or {},
        results=results or {},
    )


def texts(lines: list[Line], stream: str | None = None) -> list[str]:
    return [line.text for line in lines if stream in (None, line.stream)]


def living(pgid: int) -> list[int]:
    """The processes of a group that still run; a zombie has ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == pgid and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


async def wait_until(condition: Callable[[], object], within: float = 10.0) -> None:
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - other processes send no events
            await trio.sleep(0.01)
