"""Named SQL statements: read from ``.sql`` files, rendered once for each of the two databases.

A file holds blocks that begin with ``-- name --``. Parameters are ``:name``. These holes hide the differences:

- ``{skip_locked}``   rows that another transaction holds are passed over (SQLite has one writer: nothing)
- ``{in:ids}``        the column before it is one of a list parameter
- ``{place}``         where a row lies: found again without an index, within one statement
- ``{at:picked}``     the row lies at one of the places of a table of them
- ``{where}`` and the like are filled by the caller from fragments of the same file
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import Final

import attrs

_BLOCK: Final = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_LIST: Final = re.compile(r"\{in:(\w+)\}")
_PLACES: Final = re.compile(r"\{at:(\w+)\}")
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z]\w*)")


@attrs.frozen
class Statement:
    """One statement in the words of both databases."""

    name: str
    sqlite: str
    postgres: str

    def filled(self, **fragments: str | Statement) -> Statement:
        """The statement with its named holes filled by SQL of our own, never by a caller's text."""
        sqlite, postgres = self.sqlite, self.postgres
        for hole, fragment in fragments.items():
            part = rendered(hole, fragment) if isinstance(fragment, str) else fragment
            sqlite = sqlite.replace("{" + hole + "}", part.sqlite)
            postgres = postgres.replace("{" + hole + "}", part.postgres)
        return Statement(self.name, sqlite, postgres)


def rendered(name: str, text: str) -> Statement:
    """``text`` in the words of both databases."""
    return Statement(name, for_sqlite(text), for_postgres(text))


def for_sqlite(text: str) -> str:
    """``text`` as SQLite takes it: lists are JSON arrays."""
    text = text.replace("{skip_locked}", "").replace("{place}", "rowid")
    text = _PLACES.sub(r"rowid IN (SELECT place FROM \1)", text)
    return _LIST.sub(r"IN (SELECT value FROM json_each(:\1))", text)


def for_postgres(text: str) -> str:
    """``text`` as psycopg takes it: lists are arrays, compared by ANY so that the plan cannot flip."""
    text = text.replace("%", "%%").replace("{skip_locked}", "FOR UPDATE SKIP LOCKED").replace("{place}", "ctid")
    text = _PLACES.sub(r"ctid = ANY (ARRAY(SELECT place FROM \1))", text)
    text = _LIST.sub(r"= ANY (CAST(:\1 AS text[]))", text)
    return _PARAMETER.sub(r"%(\1)s", text)


@cache
def load(table: str) -> SimpleNamespace:
    """The statements of ``tables/<table>.sql``, each an attribute of the answer."""
    text = resources.files("trisched.storage.tables").joinpath(f"{table}.sql").read_text("utf-8")
    parts = _BLOCK.split(text)
    blocks = zip(parts[1::2], parts[2::2], strict=True)
    statements = {}
    for name, block in blocks:
        body = "\n".join(line for line in block.splitlines() if not line.startswith("--")).strip()
        statements[name] = rendered(f"{table}.{name}", body)
    return SimpleNamespace(**statements)
