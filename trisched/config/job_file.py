"""Reads the ``[jobs.NAME]`` tables of a configuration file, every mistake with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from trisched.config.toml_file import TomlFile, read_toml, refuse
from trisched.domain.graph import find_cycle
from trisched.domain.job import JobSpec
from trisched.domain.job_fields import parse_job
from trisched.errors import Cycle, FieldError, Invalid, Misconfigured


@attrs.frozen(kw_only=True)
class JobTable:
    """One job of the file, checked; ``fields`` are those of the contract, with the name among them."""

    name: str
    fields: Mapping[str, Any]
    path: Path
    line: int

    @property
    def place(self) -> str:
        """``trisched.toml:14``."""
        return f"{self.path}:{self.line}"


def read_jobs(path: Path, *, now: int) -> list[JobTable]:
    """The jobs of ``path`` in its order; Misconfigured lists every line that is wrong."""
    file = read_toml(path)
    errors: list[FieldError] = []
    specs: list[JobSpec] = []
    for name, fields in file.tables.get("jobs", {}).items():
        try:
            specs.append(_check(name, fields, now))
        except Invalid as error:
            errors += [_located(file, name, each) for each in error.errors]
    errors += _cycles(file, specs)
    refuse(errors)
    return [
        JobTable(name=name, fields={"name": name, **fields}, path=path, line=file.line("jobs", name))
        for name, fields in file.tables.get("jobs", {}).items()
    ]


def _check(name: str, fields: object, now: int) -> JobSpec:
    if not isinstance(fields, dict):
        raise Invalid.at("", f"must be a table: write [jobs.NAME] above the fields of a job, not {name} = …")
    if "name" in fields:
        raise Invalid.at("name", "the name of the table is the name of the job; remove this line")
    fields = {"name": name, **fields}
    spec = parse_job(fields, now=now, stored=True)
    schedule = spec.schedule
    # One that ends may be over by now, which only the store can tell from a mistake.
    if schedule is not None and schedule.kind != "once" and schedule.end_us is None:
        parse_job(fields, now=now)
    return spec


def locate(path: Path, error: Invalid) -> Misconfigured:
    """What the store refused in the jobs of ``path`` (``jobs.backup.function``), with the lines of the file."""
    file = read_toml(path)
    lines = []
    for each in error.errors:
        names = [name for name in file.tables.get("jobs", {}) if f"{each.path}.".startswith(f"jobs.{name}.")]
        name = max(names, key=len, default=None)
        field = each.path.removeprefix(f"jobs.{name}").removeprefix(".")
        lines.append(each if name is None else _located(file, name, FieldError(field, each.message)))
    return Misconfigured("\n".join(map(str, lines)))


def _located(file: TomlFile, job: str, error: FieldError) -> FieldError:
    """The same error with its line. A missing field has none, so the line of its table is named."""
    return FieldError(file.place("jobs", job, field=error.path), error.message)


def _cycles(file: TomlFile, specs: list[JobSpec]) -> Iterator[FieldError]:
    """Each circle of dependencies once, at the first of its jobs."""
    edges = {spec.name: spec.depends_on for spec in specs}
    reported: set[str] = set()
    for name in edges:
        cycle = None if name in reported else find_cycle(edges, name)
        if cycle:
            reported.update(cycle)
            yield FieldError(file.place("jobs", name, "depends_on"), Cycle(cycle).errors[0].message)
