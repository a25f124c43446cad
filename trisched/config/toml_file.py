"""Reads a configuration file, and names the place of each key in it."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from trisched.config.toml_lines import KeyPath, key_lines, line_of
from trisched.errors import FieldError, Misconfigured

TABLES: Final = ("node", "worker", "http", "secrets", "jobs")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = re.compile(r" \(at end of document\)$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STEP = re.compile(r"[.\[]")


@attrs.frozen
class TomlFile:
    """A file that was read and whose top level is sound."""

    path: Path
    tables: Mapping[str, Mapping[str, Any]]
    lines: Mapping[KeyPath, int]

    def line(self, *keys: str) -> int:
        """The line of a key, or of the table around it."""
        return line_of(self.lines, keys)

    def place(self, *keys: str, field: str = "") -> str:
        """``trisched.toml:14: jobs.backup.schedule``: where a person has to look.

        ``field`` is a path below ``keys`` as the domain writes it: ``command[2]``, ``backoff.max``.
        """
        names = ".".join(key if _BARE.fullmatch(key) else f'"{key}"' for key in keys)
        line = self.line(*keys, *_STEP.split(field))
        return f"{self.path}:{line}: {names}" + (f".{field}" if field else "")


def refuse(errors: list[FieldError]) -> None:
    """One error for all that is wrong, a line each, so that one look at the file mends everything."""
    if errors:
        raise Misconfigured("\n".join(map(str, errors)))


def read_toml(path: Path) -> TomlFile:
    """The tables of ``path``; Misconfigured names the line of what cannot be read."""
    text = _text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(_syntax_error(path, text, str(error))) from None
    except RecursionError:
        raise Misconfigured(f"{path}: is nested too deeply") from None
    file = TomlFile(path, tables, key_lines(text))
    refuse([*_unsound(file)])
    return file


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise Misconfigured(f"{path}: no such file; `trisched init` writes one to begin with") from None
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Misconfigured(f"{path}:{line}: is not UTF-8 text; save it as UTF-8") from None


def _syntax_error(path: Path, text: str, message: str) -> str:
    match = _AT_LINE.search(message)
    line = int(match[1]) if match else text.rstrip("\n").count("\n") + 1
    message = _AT_END.sub(" before the end of the file", _AT_LINE.sub("", message))
    return f"{path}:{line}: is not TOML: {message}"


def _unsound(file: TomlFile) -> list[FieldError]:
    errors = []
    for name, value in file.tables.items():
        if name not in TABLES:
            near = difflib.get_close_matches(name, TABLES, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(TABLES)}"
            errors.append(FieldError(file.place(name), f"is not known at the top level{hint}"))
        elif not isinstance(value, dict):
            header = "[jobs.NAME]" if name == "jobs" else f"[{name}]"
            errors.append(FieldError(file.place(name), f"must be a table: write {header}"))
    return errors
