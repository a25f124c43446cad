"""Executes commands: a process group of its own, captured output, an end that leaves nothing behind.

When the command's process has ended by itself, whatever it left in its group (``… &``) may write for a
short while more and is then killed: a run that is over has no processes. What leaves the group (``setsid``)
is found by the mark in its environment, and killed a moment later; a process that is meant to stay is started
without ``TRISCHED_CLAIM_ID``.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec
import trio

from trisched.worker.executors import Call, Ended, Failure
from trisched.worker.executors.spawn import Spawner
from trisched.worker.guardian import Guardian
from trisched.worker.process_group import signal_group, wait_group_gone

#: How long a left-behind process that holds the pipes may go on writing.
_LEFTOVER_GRACE: Final = 0.5
#: SIGKILL takes no longer, unless the process hangs in the kernel: then it is given up.
_KILL_BOUND: Final = 2.0
_READ: Final = 64 << 10
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CODE_MEANS: Final = {126: ": the command cannot be executed", 127: ": the command was not found"}


class Shell:
    """Starts commands and sees them to their end. Their environment is the node's, without its settings."""

    def __init__(
        self, guardian: Guardian, environment: Mapping[str, str] | None = None, spawner: Spawner | None = None
    ) -> None:
        self._guardian = guardian
        self._spawner = spawner or Spawner()
        # The node's own variables hold its database password and tokens: no job may see them.
        source = os.environ if environment is None else environment
        self._environment = {name: text for name, text in source.items() if not name.startswith("TRISCHED_")}

    async def execute(self, call: Call) -> Ended:
        assert call.command
        arguments = ("/bin/sh", "-c", call.command) if isinstance(call.command, str) else call.command
        async with self._spawner.place(call.turn):
            self._guardian.begin(call.claim_id, call.run_id)
            try:
                return await self._execute(arguments, call)
            finally:
                self._guardian.end(call.claim_id, call.run_id)

    async def _execute(self, arguments: tuple[str, ...], call: Call) -> Ended:
        environment = _variables(self._environment, call)
        try:
            process = await self._spawner.start(arguments, cwd=call.cwd, env=environment, turn=call.turn)
        except (OSError, ValueError) as error:
            return _not_started(error, call, arguments[0])
        self._guardian.watch(process.pid)
        try:
            return await _attend(process, call)
        finally:
            self._guardian.forget(process.pid)
            for stream in (process.stdout, process.stderr):
                if isinstance(stream, trio.lowlevel.FdStream):
                    stream.close()


async def _attend(process: trio.Process, call: Call) -> Ended:
    try:
        async with trio.open_nursery() as nursery:
            _pump(nursery, process, call)
            await process.wait()
            # It ended by itself: that counts, even when the time-out strikes while leftovers still write.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.deadline = trio.current_time() + _LEFTOVER_GRACE
    except BaseException:
        await _stop(process, call)
        # Three tasks were cancelled, perhaps as a group of three: the caller expects one Cancelled.
        await trio.lowlevel.checkpoint_if_cancelled()
        raise
    signal_group(process.pid, signal.SIGKILL)
    return _ended(process)


async def _stop(process: trio.Process, call: Call) -> None:
    """Ends the whole group: SIGTERM, up to ``kill_after`` for a clean end, SIGKILL."""
    with trio.CancelScope(shield=True):
        _note(call, "SIGTERM was sent to the process group")
        signal_group(process.pid, signal.SIGTERM)
        with trio.move_on_after(call.kill_after):
            await _wait_gone(process, call)
            return
        _note(call, f"SIGKILL was sent to the process group, {call.kill_after:g} s after SIGTERM")
        signal_group(process.pid, signal.SIGKILL)
        with trio.move_on_after(_KILL_BOUND):
            await _wait_gone(process, call)


async def _wait_gone(process: trio.Process, call: Call) -> None:
    """Takes the output until every process of the group has ended; the caller sets the bound."""
    async with trio.open_nursery() as nursery:
        _pump(nursery, process, call)
        await process.wait()
        await wait_group_gone(process.pid)
        nursery.cancel_scope.deadline = trio.current_time() + _LEFTOVER_GRACE


def _pump(nursery: trio.Nursery, process: trio.Process, call: Call) -> None:
    """Keeps both pipes empty, so that the command never waits for us."""
    assert process.stdout is not None
    assert process.stderr is not None
    nursery.start_soon(_copy, process.stdout, "stdout", call)
    nursery.start_soon(_copy, process.stderr, "stderr", call)


async def _copy(source: trio.abc.ReceiveStream, stream: Literal["stdout", "stderr"], call: Call) -> None:
    while data := await source.receive_some(_READ):
        call.output.write(stream, bytes(data))


def _note(call: Call, text: str) -> None:
    call.output.write("log", f"{text}\n".encode())


def _variables(environment: Mapping[str, str], call: Call) -> dict[str, str]:
    slot = "" if call.slot_at is None else _instant(call.slot_at)
    return {
        **environment,
        **call.env,
        "TRISCHED_RUN_ID": call.run_id,
        "TRISCHED_JOB": call.job_name,
        "TRISCHED_SLOT": slot,
        "TRISCHED_ATTEMPT": str(call.attempt),
        "TRISCHED_TOKEN": str(call.token),
        "TRISCHED_NODE": call.node_id,
        "TRISCHED_IDEMPOTENCY_KEY": call.idempotency_key,
        "TRISCHED_CLAIM_ID": call.claim_id,
        "TRISCHED_PARAMETERS": msgspec.json.encode(call.parameters).decode(),
    }


def _instant(at: int) -> str:
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def _ended(process: trio.Process) -> Ended:
    code = process.returncode
    assert code is not None
    if code == 0:
        return Ended(completed=True, exit_code=0)
    if code < 0:
        failure = Failure("Signal", f"killed by {_signal_name(-code)}")
    else:
        failure = Failure("ExitCode", f"exit code {code}{_CODE_MEANS.get(code, '')}")
    return Ended(completed=False, exit_code=code, error=failure)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _not_started(error: OSError | ValueError, call: Call, program: str) -> Ended:
    """The ending of a command that never ran, with the exit codes that a shell would give."""
    reason, code = (error.strerror or str(error), error.errno) if isinstance(error, OSError) else (str(error), 0)
    exit_code: int | None = None
    if isinstance(error, OSError) and call.cwd is not None and error.filename == call.cwd:
        message = f"the working directory {call.cwd!r} cannot be entered: {reason}"
    elif code == errno.ENOENT:
        message, exit_code = f"the command {program!r} was not found", 127
    elif code in (errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.ENOTDIR):
        message, exit_code = f"the command {program!r} cannot be executed: {reason}", 126
    elif code == errno.E2BIG:
        message = (
            "the command, its variables or its parameters are longer than the system passes to a process "
            "(128 KiB for each on Linux); hand over a file instead"
        )
    else:
        message = f"the command could not be started: {reason}"
    return Ended(completed=False, exit_code=exit_code, error=Failure(type(error).__name__, message))
