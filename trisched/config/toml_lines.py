"""Finds the line of each key in a TOML text, which the standard library's reader does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

KeyPath = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_GAP = re.compile(r"[ \t]*")
_KEY = re.compile(r""" "(?:\\.|[^"\\])*" | '[^']*' | [A-Za-z0-9_-]+ """, re.VERBOSE)
_CLOSING = re.compile(r"[ \t]*\]{1,2}")
#: Strings first, so that a bracket, a hash or a line break inside one is not taken for syntax.
_TOKEN = re.compile(
    r'''
      """(?:\\.|[^\\])*?"{3,5}
    | \'\'\'.*?\'{3,5}
    | "(?:\\.|[^"\\])*"
    | '[^']*'
    | \#[^\n]*
    | [\[\]{}\n]
    | [^"'\#\[\]{}\n]+
    ''',
    re.VERBOSE | re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, counted from 1, of each table and key in ``text``, which must be valid TOML.

    Keys inside an inline table have no entry: TOML keeps those on the line of their parent.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    at, line, counted = _end(_BLANK, text, 0), 1, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        brackets = 2 if text.startswith("[[", at) else int(text[at] == "[")
        names, at = _dotted(text, at + brackets)
        path = names if brackets else (*table, *names)
        for depth in range(1, len(path)):
            lines.setdefault(path[:depth], line)
        lines[path] = line
        if brackets:
            table, at = path, _end(_CLOSING, text, at)
        else:
            at = _end_of_value(text, at)
        at = _end(_BLANK, text, at)
    return lines


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """The line of ``path``, or of the nearest thing around it that has one."""
    for depth in range(len(path), 0, -1):
        if path[:depth] in lines:
            return lines[path[:depth]]
    return 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _dotted(text: str, at: int) -> tuple[KeyPath, int]:
    """The names of ``a."b c".d`` that begin at ``at``, and where they end."""
    names: list[str] = []
    while match := _KEY.match(text, _end(_GAP, text, at)):
        # A quoted name may hold escapes: let the real reader resolve them.
        names += tomllib.loads(f"{match[0]} = 0")
        at = _end(_GAP, text, match.end())
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(names), at


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            return token.end()
    return len(text)
