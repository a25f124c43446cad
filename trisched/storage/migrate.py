"""The schema: migrations in the order of their numbers, each once, each with a checksum that must still match."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import Final

import attrs

from trisched.errors import Misconfigured, SchemaTooNew
from trisched.storage.database import Tx
from trisched.storage.statements import Statement, rendered

_NAME: Final = re.compile(r"^(\d{4})_(\w+)\.sql$")


_CREATE: Final = rendered(
    "schema",
    "CREATE TABLE IF NOT EXISTS migration "
    "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)",
)
_APPLIED: Final = rendered("schema", "SELECT version, checksum FROM migration ORDER BY version")
_RECORD: Final = rendered("schema", "INSERT INTO migration VALUES (:version, :name, :checksum, now_us())")


@attrs.frozen
class Migration:
    """One step of the schema."""

    version: int
    name: str
    checksum: str
    statements: tuple[Statement, ...]


@cache
def known() -> tuple[Migration, ...]:
    """The migrations this trisched has, in order."""
    found = []
    for file in resources.files("trisched.storage.migrations").iterdir():
        match = _NAME.match(file.name)
        if match is None:
            continue
        text = file.read_text("utf-8")
        bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        statements = tuple(rendered(match[2], part.strip()) for part in bare.split(";") if part.strip())
        checksum = hashlib.sha256(text.encode()).hexdigest()
        found.append(Migration(int(match[1]), match[2], checksum, statements))
    return tuple(sorted(found, key=lambda migration: migration.version))


def migrate(tx: Tx) -> int:
    """Applies what is missing and answers the version reached. The caller's transaction makes it all or nothing."""
    tx.count(_CREATE)
    applied: dict[int, str] = dict(tx.rows(_APPLIED))
    newest = known()[-1].version
    if applied and max(applied) > newest:
        raise SchemaTooNew(max(applied), newest)
    for migration in known():
        if migration.version not in applied:
            _apply(tx, migration)
        elif applied[migration.version] != migration.checksum:
            raise Misconfigured(
                f"migration {migration.version:04} ({migration.name}) was changed after it had been applied; "
                "install the release that made this database, or a later one"
            )
    return newest


def _apply(tx: Tx, migration: Migration) -> None:
    for statement in migration.statements:
        tx.count(statement)
    tx.count(_RECORD, version=migration.version, name=migration.name, checksum=migration.checksum)
