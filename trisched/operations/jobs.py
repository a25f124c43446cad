"""Writing jobs: create, replace, patch, delete, enable, disable, and declaring those of a program or a file.

Each origin (api, code, file) changes only its own jobs; switching a job on or off and triggering it is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from trisched.domain.graph import find_cycle
from trisched.domain.job import ORIGIN_API, ORIGIN_CODE, ORIGIN_FILE, Job, JobSpec
from trisched.domain.job_fields import job_fields, parse_job
from trisched.domain.schedule import Schedule, same_rule
from trisched.errors import Conflict, Cycle, FieldError, Invalid, Stale
from trisched.operations.scope import Scope, required_job
from trisched.operations.submission import in_order
from trisched.storage.database import Tx
from trisched.storage.tables import dependency
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table

_WHERE = {
    ORIGIN_API: "was made through the API; change it there",
    ORIGIN_CODE: "is declared in code; change it there, or give this one another name",
    ORIGIN_FILE: "is declared in a configuration file; change it there, or give this one another name",
}


async def create(scope: Scope, fields: Mapping[str, object], origin: str = ORIGIN_API) -> Job:
    """A new job; its first slot is the first after now. Conflict if the name is taken."""

    def work(tx: Tx) -> Job:
        now = run_table.now(tx)
        spec = _parse(scope, fields, now, None)
        _check_needs(tx, {spec.name: spec})
        return _add(scope, tx, spec, origin, now)

    return await scope.database.write(work)


async def replace(
    scope: Scope, job: str, fields: Mapping[str, object], *, revision: int | None = None, origin: str = ORIGIN_API
) -> Job:
    """The job with exactly these fields; what is left out gets its default. Stale if ``revision`` is not the newest."""

    def work(tx: Tx) -> Job:
        stored = _own(tx, job, origin, revision)
        return _change(scope, tx, stored, fields)

    return await scope.database.write(work)


async def patch(
    scope: Scope, job: str, fields: Mapping[str, object], *, revision: int | None = None, origin: str = ORIGIN_API
) -> Job:
    """The job with these fields changed and all others kept; null takes a field back to its default."""

    def work(tx: Tx) -> Job:
        stored = _own(tx, job, origin, revision)
        merged = {**_kept_fields(stored.spec, fields), **fields}
        return _change(scope, tx, stored, {name: value for name, value in merged.items() if value is not None})

    return await scope.database.write(work)


async def delete(scope: Scope, job: str, *, revision: int | None = None, origin: str = ORIGIN_API) -> None:
    """Removes the job. Its runs that wait are cancelled, those that run are asked to stop, its history stays.

    Conflict if other jobs depend on it: change those first.
    """

    def work(tx: Tx) -> None:
        stored = _own(tx, job, origin, revision)
        dependency.lock(tx)
        _refuse_dependents(tx, stored.spec.name, "delete")
        job_table.remove(tx, stored.id)
        run_table.cancel_job(tx, stored.id, "job deleted")

    await scope.database.write(work)


async def enable(scope: Scope, job: str) -> Job:
    """Switches the job on: its next slot is the first after now, whatever was missed."""
    return await _switch(scope, job, on=True)


async def disable(scope: Scope, job: str) -> Job:
    """Switches the job off: no slot fires, no trigger is taken. Runs that exist go on."""
    return await _switch(scope, job, on=False)


async def declare(scope: Scope, specs: Sequence[Mapping[str, object]], origin: str = ORIGIN_CODE) -> list[Job]:
    """All these jobs as they are written, in one transaction; what is stored like that already is not touched.

    The next slot is kept unless the schedule or its time zone changed. ``enabled`` counts when the job is made;
    afterwards the switch is the people's. Conflict names the jobs that belong to another origin.
    """
    return await scope.database.write(lambda tx: _declare(scope, tx, specs, origin))


def _declare(scope: Scope, tx: Tx, declared: Sequence[Mapping[str, object]], origin: str) -> list[Job]:
    # Nodes that start together declare the same jobs: one after the other, so that each finds what is there.
    dependency.lock(tx)
    now = run_table.now(tx)
    names = [str(fields.get("name", "")) for fields in declared]
    stored = job_table.of_names(tx, names)
    foreign = [job for job in stored.values() if job.origin != origin]
    if foreign:
        raise Conflict("; ".join(f"{job.spec.name!r} {_WHERE[job.origin]}" for job in foreign))
    specs = _parse_all(scope, declared, now, stored)
    changed = {name: spec for name, spec in specs.items() if name not in stored or stored[name].spec != spec}
    _check_needs(tx, changed, "jobs.{}.".format)
    fresh = [spec for name, spec in specs.items() if name not in stored]
    job_table.add(tx, dict(zip(scope.ids.some("job", len(fresh)), fresh, strict=True)), origin, now)
    for name, job in stored.items():
        _store(tx, job, specs[name], now)
    current = job_table.of_names(tx, names)
    return [current[name] for name in specs]


def _parse_all(
    scope: Scope, declared: Sequence[Mapping[str, object]], now: int, stored: Mapping[str, Job]
) -> dict[str, JobSpec]:
    specs: dict[str, JobSpec] = {}
    errors: list[FieldError] = []
    for fields in declared:
        job = stored.get(str(fields.get("name", "")))
        path = f"jobs.{fields.get('name', '?')}"
        try:
            spec = _parse(scope, fields, now, job, path=path)
        except Invalid as error:
            errors += error.errors
            continue
        if spec.name in specs:
            errors.append(FieldError(f"{path}.name", "is declared twice"))
        specs[spec.name] = spec if job is None else attrs.evolve(spec, enabled=job.spec.enabled)
    if errors:
        raise Invalid(errors)
    return specs


async def _switch(scope: Scope, job: str, *, on: bool) -> Job:
    def work(tx: Tx) -> Job:
        stored = required_job(tx, job, lock=job_table.ALONE)
        return _store(tx, stored, attrs.evolve(stored.spec, enabled=on), run_table.now(tx))

    return await scope.database.write(work)


def _own(tx: Tx, job: str, origin: str, revision: int | None) -> Job:
    """The job, if ``origin`` may change it and has seen its newest revision."""
    stored = required_job(tx, job, lock=job_table.GO)
    if stored.origin != origin:
        raise Conflict(f"the job {stored.spec.name!r} {_WHERE[stored.origin]}")
    if revision is not None and revision != stored.revision:
        raise Stale(f"the job {stored.spec.name!r} has revision {stored.revision} by now; read it again")
    return stored


def _change(scope: Scope, tx: Tx, stored: Job, fields: Mapping[str, object]) -> Job:
    now = run_table.now(tx)
    spec = _parse(scope, fields, now, stored)
    if spec.name != stored.spec.name:
        dependency.lock(tx)
        _refuse_dependents(tx, stored.spec.name, "rename")
    if spec.depends_on != stored.spec.depends_on:
        _check_needs(tx, {spec.name: spec})
    return _store(tx, stored, spec, now)


def _kept_fields(spec: JobSpec, given: Mapping[str, object]) -> dict[str, object]:
    """The stored fields, for others to be laid over."""
    fields = job_fields(spec)
    schedule = fields["schedule"]
    if "timezone" in given and isinstance(schedule, dict) and schedule.get("timezone") == spec.timezone:
        # The schedule had its zone from the field beside it, so it follows that field.
        fields["schedule"] = {name: value for name, value in schedule.items() if name != "timezone"}
    return fields


def _parse(scope: Scope, fields: Mapping[str, object], now: int, stored: Job | None, *, path: str = "") -> JobSpec:
    """The specification in ``fields``; a schedule that did not change is the stored one, which may be over by now."""
    spec = parse_job(fields, now=now, stored=stored is not None, path=path)
    if stored is not None and _is_same(spec.schedule, stored.spec.schedule):
        spec = attrs.evolve(spec, schedule=stored.spec.schedule)
    elif stored is not None:
        spec = parse_job(fields, now=now, path=path)
    if spec.function is not None and not scope.tasks.knows(spec.function):
        raise Invalid.at(
            f"{path}.function" if path else "function",
            "is not a registered task; register the function with @app.job and start the node with that app",
        )
    return attrs.evolve(spec, parameters=in_order(spec.parameters))


def _is_same(one: Schedule | None, other: Schedule | None) -> bool:
    return one is other if one is None or other is None else same_rule(one, other)


def _check_needs(tx: Tx, changed: Mapping[str, JobSpec], place: Callable[[str], str] = lambda _: "") -> None:
    """Refuses dependencies on jobs that do not exist, and cycles; waits for other changes of the graph."""
    needs = {name: spec.depends_on for name, spec in changed.items() if spec.depends_on}
    if not needs:
        return
    dependency.lock(tx)
    wanted = sorted({need for each in needs.values() for need in each})
    known = job_table.known_names(tx, wanted) | changed.keys()
    errors = [
        FieldError(f"{place(name)}depends_on[{index}]", f"there is no job {need!r}")
        for name, each in needs.items()
        for index, need in enumerate(each)
        if need not in known
    ]
    if errors:
        raise Invalid(errors)
    edges = {**dependency.edges(tx), **{name: list(spec.depends_on) for name, spec in changed.items()}}
    for name in needs:
        cycle = find_cycle(edges, name)
        if cycle is not None:
            raise Cycle(cycle)


def _refuse_dependents(tx: Tx, name: str, verb: str) -> None:
    dependents = dependency.dependents(tx, name)
    if dependents:
        raise Conflict(f"cannot {verb} {name!r}: {', '.join(map(repr, dependents))} depend on it; change them first")


def _add(scope: Scope, tx: Tx, spec: JobSpec, origin: str, now: int) -> Job:
    job_id = scope.ids.new("job")
    job_table.add(tx, {job_id: spec}, origin, now)
    return required_job(tx, job_id)


def _store(tx: Tx, stored: Job, spec: JobSpec, now: int) -> Job:
    """A new revision; the same one where nothing changed. An edit never fires the past."""
    if spec == stored.spec:
        return stored
    kept = spec.schedule == stored.spec.schedule and spec.enabled == stored.spec.enabled
    slot_at = stored.next_slot_at if kept else job_table.first_slot(spec, now)
    job_table.change(tx, stored, spec, slot_at, now)
    return required_job(tx, stored.id)
