"""``trisched run`` with a mistake: exit 78, one line that says where and what to do, and nothing begun."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from trisched.cli.main import cli

pytestmark = pytest.mark.usefixtures("in_directory")


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["run", "--port", "0", *arguments])
    assert result.exit_code == 78, result.output
    assert result.stdout == ""
    assert not Path(".trisched").exists(), "a node that cannot start must leave nothing behind"
    return result.stderr.removeprefix("Error: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "--host: 0.0.0.0 is not a loopback address; serving other hosts needs tokens"),
        (["--redis", "redis://127.0.0.1"], "--redis: Redis is not available in this version; remove it"),
        (["--auth", "token"], "--auth: only auto is available in this version"),
        (["--read-only"], "--read-only: is not available in this version; remove it"),
        (["--concurrency", "many"], "--concurrency: must be a whole number"),
        (["--config", "other.toml"], "other.toml: no such file; `trisched init` writes one to begin with"),
        (["other.toml"], "other.toml: no such file; `trisched init` writes one to begin with"),
        (["missing:app"], "missing: no such module, looking from "),
        (["..:app"], "'..' is not the name of a module; write module:app or path/to/file.py:app"),
        (["missing.py:app"], "missing.py: no such file"),
        (["json:app"], "json:app: json has no app; write module:app or path/to/file.py:app"),
        (["json:dumps"], "json:dumps: dumps is of type function, not trisched.App"),
    ],
)
def test_a_wrong_flag_or_target_is_named(arguments: list[str], message: str) -> None:
    assert refusal(*arguments).startswith(message)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import trisched\napp = trisched.App(\n", "shop.py:2: SyntaxError: '(' was never closed"),
        ("x = 1\nprint(y)\n", "shop.py:2: NameError: name 'y' is not defined"),
        ("\nimport nowhere\n", "shop.py:2: ModuleNotFoundError: No module named 'nowhere'"),
        (
            "import trisched\napp = trisched.App()\n\n@app.job(colour='red')\ndef f(): ...\n",
            "shop.py:4: TypeError: job 'f': colour is not a field of a job",
        ),
        ("import trisched\nmain = trisched.App()\n", "shop:app: shop has no app; did you mean shop:main?"),
    ],
)
def test_a_mistake_in_the_program_is_told_with_its_line(in_directory: Path, code: str, message: str) -> None:
    (in_directory / "shop.py").write_text(code)
    assert refusal("shop:app").startswith(message)
    assert refusal("shop.py:app").startswith(message.replace("shop:app: shop has", "shop.py:app: shop.py has")
                                             .replace("mean shop:", "mean shop.py:"))  # fmt: skip


def test_a_mistake_in_the_job_file_is_told_with_its_line(in_directory: Path) -> None:
    text = "[jobs.backup]\ntype = 'shell'\ncommand = 'true'\n\nschedule = '61 * * * *'\n"
    (in_directory / "trisched.toml").write_text(text)
    assert refusal() == "trisched.toml:5: jobs.backup.schedule: minute: 61 is not within 0–59"
    assert refusal("--config", "trisched.toml") == refusal() == refusal("trisched.toml")


def test_a_variable_is_named_like_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRISCHED_DRAIN_TIMEOUT", "-1")
    assert refusal() == "TRISCHED_DRAIN_TIMEOUT: must not be negative"


def test_two_configuration_files_are_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["run", "a.toml", "--config", "b.toml"])
    assert result.exit_code == 2
    assert "a.toml and b.toml are two configuration files" in result.stderr
