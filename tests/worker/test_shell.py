"""Commands run in their own group, are captured whole, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.worker.calls import NOW, living, make_call, texts, wait_until
from trisched.domain.progress import Progress
from trisched.worker.executors import Call, Ended, Failure
from trisched.worker.executors.shell import Shell
from trisched.worker.guardian import Guardian


class Watched(Guardian):
    """A guardian that tells which groups it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def watch(self, pgid: int) -> None:
        self.seen.append(pgid)
        super().watch(pgid)

    @property
    def guarded(self) -> set[int]:
        return self._groups


@pytest.fixture
async def guardian() -> AsyncIterator[Watched]:
    async with Watched.open() as opened:
        assert isinstance(opened, Watched)
        yield opened


@pytest.fixture
def shell(guardian: Watched) -> Shell:
    return Shell(guardian)


async def stopped(shell: Shell, call: Call, *, when: Callable[[], object]) -> None:
    """Executes the call and cancels it as soon as ``when`` holds."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await wait_until(when)
                scope.cancel()

            nursery.start_soon(cancel)
            await shell.execute(call)
            pytest.fail("the command was to be cancelled")


def says(call: Call, text: str) -> Callable[[], bool]:
    """Whether the command has printed the line."""
    seen: list[str] = []

    def look() -> bool:
        seen.extend(texts(call.output.take()))
        return text in seen

    return look


async def test_a_command_as_text_goes_through_the_shell(shell: Shell) -> None:
    call = make_call(command="echo $((40 + 2)); echo oops >&2")
    assert await shell.execute(call) == Ended(completed=True, exit_code=0)
    lines = call.output.close()
    assert texts(lines, "stdout") == ["42"]
    assert texts(lines, "stderr") == ["oops"]


async def test_a_command_as_words_is_executed_as_it_is(shell: Shell) -> None:
    call = make_call(command=("printf", "%s\n", "$HOME; echo no"))
    assert (await shell.execute(call)).completed
    assert texts(call.output.close()) == ["$HOME; echo no"]


@pytest.mark.parametrize(
    ("command", "exit_code", "failure"),
    [
        ("exit 3", 3, Failure("ExitCode", "exit code 3")),
        ("kill -9 $$", -9, Failure("Signal", "killed by SIGKILL")),
        ("kill -TERM $$", -15, Failure("Signal", "killed by SIGTERM")),
        ("no-such-command", 127, Failure("ExitCode", "exit code 127: the command was not found")),
        ("/dev/null", 126, Failure("ExitCode", "exit code 126: the command cannot be executed")),
        (
            ("no-such-command", "x"),
            127,
            Failure("FileNotFoundError", "the command 'no-such-command' was not found"),
        ),
    ],
)
async def test_how_a_command_ended_is_told(
    shell: Shell, command: str | tuple[str, ...], exit_code: int, failure: Failure
) -> None:
    assert await shell.execute(make_call(command=command)) == Ended(completed=False, exit_code=exit_code, error=failure)


def reason(ended: Ended) -> str:
    assert not ended.completed
    assert ended.error is not None
    return ended.error.message


async def test_a_file_that_is_not_executable_is_exit_126(shell: Shell, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    ended = await shell.execute(make_call(command=(str(plain),)))
    assert ended.exit_code == 126
    assert "cannot be executed: Permission denied" in reason(ended)
    plain.chmod(stat.S_IRWXU)
    ended = await shell.execute(make_call(command=(str(plain),)))
    assert ended.exit_code == 126
    assert "cannot be executed: Exec format error" in reason(ended)


async def test_an_absent_working_directory_is_a_plain_reason(shell: Shell, tmp_path: Path) -> None:
    ended = await shell.execute(make_call(command="pwd", cwd=str(tmp_path / "absent")))
    assert "absent' cannot be entered: No such file or directory" in reason(ended)
    assert ended.exit_code is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": "echo a\0b"}, "could not be started: embedded null byte"),
        ({"command": "true", "env": {"A=B": "1"}}, "could not be started: illegal environment variable name"),
        ({"command": "true", "parameters": {"a": "x" * 500_000}}, "128 KiB"),
    ],
)
async def test_what_no_system_can_start_is_a_failure(shell: Shell, changes: dict[str, Any], message: str) -> None:
    assert message in reason(await shell.execute(make_call(**changes)))


async def test_a_command_runs_in_its_directory_with_its_variables(guardian: Watched, tmp_path: Path) -> None:
    secret = {
        "TRISCHED_DATABASE": "postgresql://secret",
        "TRISCHED_TOKEN_FILE": "secret",
        "PATH": os.environ["PATH"],
    }
    call = make_call(
        command="pwd; env; cat",
        cwd=str(tmp_path),
        env={"COLOUR": "blue", "TRISCHED_RUN_ID": "forged"},
        parameters={"to": "ü"},
        slot_at=NOW,
    )
    assert (await Shell(guardian, secret).execute(call)).completed
    first, *rest = texts(call.output.close())
    variables = dict(line.split("=", 1) for line in rest)
    assert first == str(tmp_path)
    assert variables["COLOUR"] == "blue"
    assert variables["PATH"] == secret["PATH"]
    assert json.loads(variables.pop("TRISCHED_PARAMETERS")) == {"to": "ü"}
    assert {name: text for name, text in variables.items() if name.startswith("TRISCHED_")} == {
        "TRISCHED_RUN_ID": "run-1",
        "TRISCHED_JOB": "report",
        "TRISCHED_SLOT": "2025-06-15T15:06:40Z",
        "TRISCHED_ATTEMPT": "2",
        "TRISCHED_TOKEN": "7",
        "TRISCHED_NODE": "node-1",
        "TRISCHED_IDEMPOTENCY_KEY": "key-1",
        "TRISCHED_CLAIM_ID": "claim-1",
    }


async def test_a_run_without_a_slot_has_an_empty_slot(shell: Shell) -> None:
    call = make_call(command='set -u; echo "[$TRISCHED_SLOT]"')
    await shell.execute(call)
    assert texts(call.output.close()) == ["[]"]


async def test_progress_is_read_from_stdout(shell: Shell) -> None:
    call = make_call(command="echo ::progress 64/100 loading; echo line")
    await shell.execute(call)
    assert call.output.progress == Progress(64, 100, "loading")
    assert texts(call.output.close()) == ["line"]


async def test_output_that_is_no_text_does_not_hurt(shell: Shell) -> None:
    call = make_call(command=r"printf 'bad \377 \000 bytes\n10%%\r20%%\nlast'")
    assert (await shell.execute(call)).completed
    assert texts(call.output.close()) == ["bad \ufffd ␀ bytes", "20%", "last"]


async def test_much_output_needs_little_memory_and_the_exit_code_is_right(shell: Shell) -> None:
    call = make_call(command="echo first; yes | head -c 67108864; echo last; exit 4")
    tracemalloc.start()
    try:
        ended = await shell.execute(call)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lines = call.output.close()
    assert ended.exit_code == 4
    assert peak < 32 << 20
    assert lines[0].text == "first"
    assert lines[-1].text == "last"
    assert lines[-1].number == (64 << 19) + 2
    assert sum(len(line.text) + 1 for line in lines) <= 1 << 20


async def test_both_pipes_are_emptied_at_once(shell: Shell) -> None:
    call = make_call(command="yes err | head -c 1000000 >&2; yes out | head -c 1000000; yes err | head -c 1000000 >&2")
    with trio.fail_after(30):
        assert (await shell.execute(call)).completed


async def test_a_group_is_guarded_from_start_to_end(guardian: Watched) -> None:
    call = make_call(command="echo ready; sleep 300", kill_after=5)
    await stopped(Shell(guardian), call, when=says(call, "ready"))
    (group,) = guardian.seen
    assert not living(group)
    assert guardian.guarded == set()


async def test_stopping_lets_a_command_end_cleanly(guardian: Watched) -> None:
    command = 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
    call = make_call(command=command, kill_after=30)
    with trio.fail_after(20):
        await stopped(Shell(guardian), call, when=says(call, "ready"))
    lines = call.output.close()
    assert texts(lines, "stdout") == ["bye"]
    assert texts(lines, "log") == ["SIGTERM was sent to the process group"]


async def test_stopping_waits_for_the_whole_group_to_end_cleanly(guardian: Watched) -> None:
    """The shell dies of SIGTERM at once; its child still has kill_after to clean up."""
    child = 'trap "sleep 0.8; echo cleaned; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
    call = make_call(command=f"sh -c '{child}' & wait", kill_after=30)
    await stopped(Shell(guardian), call, when=says(call, "ready"))
    assert texts(call.output.close(), "stdout") == ["cleaned"]


async def test_a_command_that_ignores_sigterm_is_killed_with_its_group(guardian: Watched) -> None:
    call = make_call(command='trap "" TERM; sleep 300 & echo ready; sleep 300', kill_after=0.3)
    with trio.fail_after(20):
        await stopped(Shell(guardian), call, when=says(call, "ready"))
    (group,) = guardian.seen
    await wait_until(lambda: not living(group))
    assert texts(call.output.close(), "log") == [
        "SIGTERM was sent to the process group",
        "SIGKILL was sent to the process group, 0.3 s after SIGTERM",
    ]


async def test_a_command_that_writes_without_end_is_stopped(guardian: Watched) -> None:
    call = make_call(command='trap "" TERM PIPE; echo ready; yes', kill_after=0.3)
    with trio.fail_after(30):
        await stopped(Shell(guardian), call, when=says(call, "ready"))
    (group,) = guardian.seen
    await wait_until(lambda: not living(group))


async def test_a_cancelled_call_starts_nothing(guardian: Watched) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await Shell(guardian).execute(make_call(command="sleep 300"))
    assert scope.cancelled_caught
    assert guardian.seen == []


async def test_what_a_command_leaves_behind_does_not_hold_up_the_run_and_is_killed(guardian: Watched) -> None:
    call = make_call(command="sleep 300 & echo done")
    with trio.fail_after(20):
        assert (await Shell(guardian).execute(call)).completed
    assert texts(call.output.close()) == ["done"]
    (group,) = guardian.seen
    await wait_until(lambda: not living(group))


async def test_what_a_command_leaves_behind_silently_is_killed_too(guardian: Watched) -> None:
    call = make_call(command="sleep 300 >/dev/null 2>&1 &")
    assert (await Shell(guardian).execute(call)).completed
    (group,) = guardian.seen
    await wait_until(lambda: not living(group))


async def test_a_process_that_left_the_group_does_not_hold_up_the_run(shell: Shell) -> None:
    call = make_call(command="setsid sh -c 'echo $$; exec sleep 300' & sleep 0.2")
    with trio.fail_after(20):
        assert (await shell.execute(call)).completed
    (escaped,) = texts(call.output.close())
    os.kill(int(escaped), signal.SIGKILL)


async def test_an_ending_counts_even_if_the_time_is_over_while_leftovers_write(guardian: Watched) -> None:
    call = make_call(command="sleep 300 & exit 5")
    shell, ended = Shell(guardian), []

    def main_process_ended() -> bool:
        return bool(guardian.seen) and not Path(f"/proc/{guardian.seen[0]}").exists()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await wait_until(main_process_ended)
                scope.cancel()

            nursery.start_soon(cancel)
            ended.append(await shell.execute(call))
    assert [ending.exit_code for ending in ended] == [5]


async def test_no_descriptor_is_left_open(shell: Shell) -> None:
    await shell.execute(make_call(command="true"))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for command in ("true", "exit 3", ("no-such-command",)):
        await shell.execute(make_call(command=command))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
