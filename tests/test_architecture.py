"""The shape of the house: import layers, sizes, names, and one place for the words of a run's life."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trisched.domain.run import Outcome, RunStatus

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "trisched"
MIGRATIONS = PACKAGE / "storage" / "migrations"

MOST_LINES_OF_A_MODULE = 300
MOST_LINES_OF_A_FUNCTION = 40
EMPTY_WORDS = {"manager", "helper", "helpers", "util", "utils", "common"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

MODULES = sorted(PACKAGE.rglob("*.py"))
PARSED = {path: ast.parse(path.read_text(), str(path)) for path in MODULES}


def _each_module(*, outside: str | None = None) -> pytest.MarkDecorator:
    paths = [path for path in MODULES if outside is None or not path.is_relative_to(PACKAGE / outside)]
    return pytest.mark.parametrize("path", paths, ids=[str(path.relative_to(ROOT)) for path in paths])


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


def _words(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def _spelled(node: ast.AST) -> set[str]:
    """The strings that a collection, a dict or a ``Literal[…]`` spells out as its members."""
    match node:
        case ast.Set(elts=members) | ast.List(elts=members) | ast.Tuple(elts=members):
            parts: list[ast.expr] = members
        case ast.Dict(keys=keys, values=values):
            parts = [part for part in (*keys, *values) if part is not None]
        case ast.ClassDef(body=body):
            parts = [statement.value for statement in body if isinstance(statement, ast.Assign)]
        case _:
            return set()
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def _checked_words(column: str) -> set[str]:
    """The words that the newest migration which speaks of it allows in ``column``."""
    text = "\n".join(path.read_text() for path in sorted(MIGRATIONS.glob("*.sql")))
    checks = re.findall(rf"CHECK\s*\(\s*{column}\s+IN\s*\(([^)]*)\)", text)
    assert checks, f"no migration has a CHECK ({column} IN (…))"
    return set(re.findall(r"'(\w+)'", checks[-1]))


def test_imports_keep_to_the_layers_and_borders() -> None:
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    answer = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


@_each_module()
def test_a_module_says_what_it_is_for(path: Path) -> None:
    if path.read_text():
        assert ast.get_docstring(PARSED[path]), "begin with a docstring: the one responsibility of this module"


@_each_module()
def test_a_module_fits_in_a_head(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_LINES_OF_A_MODULE, f"{lines} lines: split it by responsibility"


@_each_module()
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = {
        node.name: length
        for node in _definitions(PARSED[path])
        if not isinstance(node, ast.ClassDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    }
    assert not long, f"more than {MOST_LINES_OF_A_FUNCTION} lines: {long}"


@_each_module()
def test_names_say_what_things_are(path: Path) -> None:
    names = [path.parent.name, path.stem, *(node.name for node in _definitions(PARSED[path]))]
    vague = [name for name in names if _words(name) & EMPTY_WORDS]
    assert not vague, f"these names say nothing: {vague}"


@_each_module(outside="cli")
def test_only_the_command_line_prints(path: Path) -> None:
    prints = [
        node.lineno
        for node in ast.walk(PARSED[path])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints, f"print() in lines {prints}: log it, or return it to the caller"


@pytest.mark.parametrize("vocabulary", [RunStatus, Outcome])
def test_statuses_are_spelled_in_one_place(vocabulary: type[RunStatus | Outcome]) -> None:
    words = {member.value for member in vocabulary}
    places = {
        str(path.relative_to(PACKAGE))
        for path, tree in PARSED.items()
        for node in ast.walk(tree)
        if len(_spelled(node) & words) > len(words) // 2
    }
    assert places == {"domain/run.py"}, "take the set from trisched.domain.run"


@pytest.mark.parametrize(("column", "vocabulary"), [("status", RunStatus), ("outcome", Outcome)])
def test_the_database_allows_exactly_the_words_of_the_domain(
    column: str, vocabulary: type[RunStatus | Outcome]
) -> None:
    assert _checked_words(column) == {member.value for member in vocabulary}
