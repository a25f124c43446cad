"""The command line without a node: its table of commands, exit codes, and the commands that need none."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from trisched import errors
from trisched.cli.group import exit_code
from trisched.cli.main import COMMANDS, cli
from trisched.cli.parameters import parse_lines, parse_pairs
from trisched.config import load, read_jobs

pytestmark = pytest.mark.usefixtures("in_directory")


def trisched(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="trisched")


def all_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))


EVERY = dict(all_commands(cli))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    result = trisched(*path, "--help")
    assert result.exit_code == 0
    assert EVERY[path].help
    for option in EVERY[path].params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{option.name} says nothing"


def test_the_summary_of_a_command_is_its_first_line() -> None:
    summaries = {name: (EVERY[name,].help or "").partition("\n")[0] for name in COMMANDS}
    assert summaries == {name: entry.summary for name, entry in COMMANDS.items()}


def test_help_needs_neither_trio_nor_the_web_framework() -> None:
    program = (
        "import sys\n"
        "from trisched.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sorted({'trio', 'quart', 'httpx', 'rich', 'sqlite3'} & set(sys.modules)), file=sys.stderr)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True)
    assert "Commands:" in answer.stdout
    assert answer.stderr.strip() == ""


def test_version_is_told() -> None:
    result = trisched("--version")
    assert result.output.startswith("trisched ")


def test_usage_errors_exit_2() -> None:
    assert trisched("fly").exit_code == 2
    assert trisched("jobs", "show").exit_code == 2
    assert trisched("runs", "list", "--status", "exploded").exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RunFailed("run-1", "dead", None), 1),
        (errors.WaitTimeout("run-1", "running"), 1),
        (errors.Invalid.at("x", "y"), 2),
        (errors.Unreadable(""), 2),
        (errors.TooLarge(""), 2),
        (errors.NotFound("job", "x"), 3),
        (errors.Conflict(""), 4),
        (errors.Stale(""), 4),
        (errors.StoreUnavailable(""), 5),
        (errors.StoreFull(""), 5),
        (errors.Misconfigured(""), 78),
        (errors.NodeAlreadyRunning("f", "1"), 78),
        (errors.SchemaTooNew(2, 1), 78),
        (errors.MissingExtra("postgres"), 78),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_has_its_exit_code(error: errors.TrischedError, code: int) -> None:
    assert exit_code(error) == code


def test_a_node_that_does_not_answer_exits_5_with_one_line() -> None:
    result = trisched("status", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 5
    assert result.stdout == ""
    assert result.stderr.startswith("Error: no answer from http://127.0.0.1:1 ")
    assert result.stderr.count("\n") == 1


def test_a_broken_file_in_the_directory_stops_other_commands_too(in_directory: Path) -> None:
    (in_directory / "trisched.toml").write_text("[node]\nport = 'x'\n")
    result = trisched("status")
    assert result.exit_code == 78
    assert result.stderr == "Error: trisched.toml:2: node.port: must be a whole number\n"


def test_cron_explain_says_words_and_fires() -> None:
    result = trisched("cron", "explain", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--next", "3")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "At 09:00 every weekday, Europe/Berlin"
    assert lines[2].split() == ["LOCAL", "UTC"]
    assert len(lines) == 6
    assert all("T09:00:00+0" in line for line in lines[3:])


def test_cron_explain_tells_of_changes_of_the_clock() -> None:
    result = trisched("cron", "explain", "30 2 * * *", "--tz", "Europe/Berlin", "--next", "366", "-o", "json")
    notes = [fire["note"] for fire in json.loads(result.stdout)["fires"]]
    assert len(notes) == 366
    assert sum(note is not None for note in notes) == 2


def test_cron_explain_prints_moments_alone_for_programs() -> None:
    result = trisched("cron", "explain", "@daily", "--next", "2", "-o", "id")
    assert [line[10:] for line in result.stdout.splitlines()] == ["T00:00:00Z", "T00:00:00Z"]


def test_cron_explain_takes_words_unquoted_and_draws_h_from_the_job() -> None:
    assert trisched("cron", "explain", "every", "5m").stdout.startswith("Every 5 minutes\n")
    assert trisched("cron", "explain", "H 3 * * *", "--job", "backup").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["61 * * * *"], "Error: minute: 61 is not within 0–59"),
        (["* * *"], "Error: has 3 fields; write five"),
        (["0 0 31 2 *"], "Error: never fires within 5 years"),
        (
            ["0 9 * * *", "--tz", "Europe/Berln"],
            "Error: 'Europe/Berln' is not a time zone; did you mean Europe/Berlin?",
        ),
        (["H * * * *"], "Error: minute: H is drawn from the job's name"),
    ],
)
def test_cron_explain_refuses_with_the_reason(arguments: list[str], message: str) -> None:
    result = trisched("cron", "explain", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_init_writes_files_that_are_sound(in_directory: Path) -> None:
    result = trisched("init")
    assert result.exit_code == 0
    assert result.stdout.split() == ["trisched.toml", "tasks.py"]
    load({}, {}, Path("trisched.toml"))
    jobs = {job.name for job in read_jobs(Path("trisched.toml"), now=0)}
    assert jobs == {"disk-usage", "monday-report"}
    compile((in_directory / "tasks.py").read_text(), "tasks.py", "exec")


def test_what_init_comments_out_is_sound_too(in_directory: Path) -> None:
    trisched("init")
    text = (in_directory / "trisched.toml").read_text()
    uncommented = text.replace("\n# ", "\n").replace("\nFlags and", "\n# Flags and")
    (in_directory / "trisched.toml").write_text(uncommented)
    assert tomllib.loads(uncommented)["worker"] == {"concurrency": 100, "queues": ["default"]}
    assert load({}, {}, Path("trisched.toml")).port == 8000


def test_init_never_overwrites(in_directory: Path) -> None:
    (in_directory / "tasks.py").write_text("mine")
    result = trisched("init")
    assert result.exit_code == 4
    assert result.stderr == "Error: tasks.py exist already; nothing was written\n"
    assert [path.name for path in in_directory.iterdir()] == ["tasks.py"]
    assert (in_directory / "tasks.py").read_text() == "mine"


def test_init_makes_the_directory_it_is_told(in_directory: Path) -> None:
    assert trisched("init", "shop/jobs").exit_code == 0
    assert (in_directory / "shop/jobs/trisched.toml").exists()


def test_a_value_is_json_where_it_reads_as_json_and_text_elsewhere() -> None:
    assert parse_pairs(["a=1", "b=x=y", "c=[1,2]", "d=", 'e="1"', "f=true", "g=NaN", "h=007"]) == {
        "a": 1, "b": "x=y", "c": [1, 2], "d": "", "e": "1", "f": True, "g": "NaN", "h": "007",
    }  # fmt: skip


@pytest.mark.parametrize("pairs", [["a"], ["=1"], ["a=1", "a=2"]])
def test_what_is_no_parameter_is_refused(pairs: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse_pairs(pairs)


def test_lines_of_parameters_are_checked_before_any_is_used() -> None:
    assert parse_lines(['{"a": 1}\n', "\n", '{"a": 2}'], "f") == [{"a": 1}, {"a": 2}]
    with pytest.raises(click.UsageError, match="f:2: is not JSON"):
        parse_lines(["{}", "{"], "f")
    with pytest.raises(click.UsageError, match="f:1: must be an object"):
        parse_lines(["[1]"], "f")
