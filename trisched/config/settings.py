"""The settings of a node, each from the first that gives it: flag, environment, file, default."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from trisched.config.fields import FIELDS, LEASE_FIELDS, SHORT_NAMES, WORKER_FIELDS, unknown_field
from trisched.config.toml_file import TomlFile, read_toml, refuse
from trisched.domain.node import LeaseTimes
from trisched.domain.target import Targets
from trisched.errors import FieldError, Invalid

VARIABLE_PREFIX: Final = "TRISCHED_"


@attrs.frozen(kw_only=True)
class Settings:
    """How one node runs; the defaults are those of the contract."""

    #: A Postgres URL, ``sqlite:///path`` or a path; None is the SQLite file in the data directory.
    database: str | None = None
    data_dir: Path = Path(".trisched")
    host: str = "127.0.0.1"
    #: 0 takes any free port.
    port: int = 8000
    #: None makes a new id at each start.
    node_id: str | None = None
    tags: tuple[str, ...] = ()
    #: Empty means all queues.
    queues: tuple[str, ...] = ()
    concurrency: int = 100
    scheduler: bool = True
    worker: bool = True
    web: bool = True
    #: Seconds that running attempts have to end after the first signal to stop.
    drain_timeout: float = 30.0
    #: What HTTP jobs may reach beside public addresses.
    http_allow: Targets = Targets()
    #: Where secrets are, a file each.
    secrets_dir: Path | None = None
    redis: tuple[str, ...] = ()
    lease_times: LeaseTimes = LeaseTimes()

    @property
    def database_url(self) -> str:
        """The address of the database, the default one included."""
        return self.database or str(self.data_dir / "trisched.db")


@attrs.frozen
class _Given:
    """A value and where it was given, in words that lead a person there."""

    value: object
    place: str


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    file: Path | None,
    *,
    code: Mapping[str, object] | None = None,
) -> Settings:
    """The settings by ``flags`` over ``code`` (what a program gave its App) over ``environ`` over ``file``.

    Misconfigured lists all that is wrong, each with the flag, the variable or the line that said it.
    """
    given: dict[str, _Given] = {}
    errors: list[FieldError] = []
    if file is not None:
        errors += _read_file(read_toml(file), given)
    given |= _read_environment(environ)
    given |= _read_values(code or {}, "App({}=…)".format)
    given |= _read_values(flags, lambda name: "--" + name.replace("_", "-"))
    errors += [FieldError(given[name].place, "is not a setting") for name in given.keys() - FIELDS.keys()]
    parsed: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if name not in given:
            continue
        try:
            parsed[name] = field.parse(given[name].value, given[name].place)
        except Invalid as error:
            errors += error.errors
    refuse(errors)
    return _build(parsed, given)


def _read_file(file: TomlFile, given: dict[str, _Given]) -> Iterator[FieldError]:
    tables = {
        "node": dict(zip(FIELDS, FIELDS, strict=True)),
        "worker": dict(zip(WORKER_FIELDS, WORKER_FIELDS, strict=True)),
    }
    for table, names in (tables | SHORT_NAMES).items():
        for key, value in file.tables.get(table, {}).items():
            place, name = file.place(table, key), names.get(key)
            if name is None:
                yield FieldError(place, unknown_field(key, table, tuple(names)))
            elif name in given:
                yield FieldError(place, f"is set a second time; {given[name].place} set it before")
            else:
                given[name] = _Given(value, place)


def _read_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    variables = {name: VARIABLE_PREFIX + name.upper() for name in FIELDS}
    # An empty variable is how compose files and unit files say "not set".
    return {
        name: _Given(FIELDS[name].read(environ[variable]), variable)
        for name, variable in variables.items()
        if environ.get(variable)
    }


def _read_values(values: Mapping[str, object], place: Callable[[str], str]) -> dict[str, _Given]:
    """Flags and arguments, which may be texts or values of their type."""
    given = {}
    for name, value in values.items():
        if value is None:
            continue
        plain = str(value) if isinstance(value, os.PathLike) else value
        field = FIELDS.get(name)
        given[name] = _Given(field.read(plain) if field and isinstance(plain, str) else plain, place(name))
    return given


def _build(parsed: dict[str, Any], given: Mapping[str, _Given]) -> Settings:
    lease = LeaseTimes(**{inner: parsed.pop(name) for name, inner in LEASE_FIELDS.items() if name in parsed})
    refuse([*_lease_errors(lease, given)])
    kept = {name: value for name, value in parsed.items() if name in attrs.fields_dict(Settings)}
    return Settings(**kept, lease_times=lease)


def _lease_errors(lease: LeaseTimes, given: Mapping[str, _Given]) -> Iterator[FieldError]:
    """Two beats may get lost before a lease is: a slow moment must not look like a death."""
    if 2 * lease.beat >= lease.node - lease.margin:
        yield FieldError(
            _place(given, "node_beat", "node_lease", "lease_margin"),
            f"two beats of {lease.beat:g} s do not fit into the lease of {lease.node:g} s less the margin of "
            f"{lease.margin:g} s; lengthen node_lease or shorten node_beat",
        )
    if 2 * lease.leader_beat >= lease.leader:
        yield FieldError(
            _place(given, "leader_beat", "leader_lease"),
            f"two beats of {lease.leader_beat:g} s do not fit into the leader's lease of {lease.leader:g} s; "
            "lengthen leader_lease or shorten leader_beat",
        )


def _place(given: Mapping[str, _Given], *names: str) -> str:
    """Where the first of ``names`` that was given at all was given."""
    return next((given[name].place for name in names if name in given), names[0])
