"""From submissions to rows: everything that one transaction needs to make runs, few or very many.

What many submissions share (job, queue, priority, due time) is worked out once and kept as a model; then a run
costs an id and the text of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from trisched.domain.job import ORIGIN_CODE, Job
from trisched.domain.job_fields import parse_job
from trisched.domain.run import PRIORITY_CLASS, RunStatus
from trisched.domain.text import parse_text
from trisched.errors import Conflict, FieldError, Invalid
from trisched.operations.scope import Scope, required_job
from trisched.operations.submission import (
    KEY_LIFETIME_US,
    Submission,
    Submitted,
    in_order,
    parameters_text,
    parse_key,
    parse_wishes,
)
from trisched.storage.database import Tx
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup
from trisched.storage.tables.run import NewRun

#: More than this many broken rules of one batch help nobody.
_MOST_ERRORS: Final = 100


@attrs.define(eq=False)
class Model:
    """What runs of one shape have in common, and the runs taken so far."""

    run: NewRun
    #: The parameters of the job, which those of the run are laid over.
    defaults: Mapping[str, object]
    defaults_text: str
    #: The function whose parameters are checked.
    function: str | None
    ids: list[str] = attrs.field(factory=list)
    parameters: list[str] = attrs.field(factory=list)


@attrs.frozen
class _WithKey:
    """A submission with a key on its way."""

    index: int
    run: NewRun


class Intake:
    """Takes submissions inside one transaction."""

    def __init__(self, scope: Scope, tx: Tx, *, origin: str, lock: str = job_table.STAY) -> None:
        self._scope, self._tx, self._origin, self._lock = scope, tx, origin, lock
        self._now = run_table.now(tx)
        self._jobs: dict[tuple[str, str], Job] = {}
        self._models: dict[tuple[object, ...], Model] = {}
        self._with_key: list[_WithKey] = []

    def take(self, submissions: Sequence[Submission], place: Callable[[int], str]) -> list[Submitted]:
        """Makes a run of each, in order; ``place`` says where in the input one stands. All, or an error."""
        answers: list[Submitted] = []
        errors: list[FieldError] = []
        for index, run_id in enumerate(self._scope.ids.some("run", len(submissions))):
            try:
                status = self._take(index, submissions[index], run_id)
            except Invalid as error:
                errors += [FieldError(place(index) + each.path, each.message) for each in error.errors]
                if len(errors) >= _MOST_ERRORS:
                    break
            else:
                answers.append(Submitted(run_id, status, True))
        if errors:
            raise Invalid(errors[:_MOST_ERRORS])
        self._store(answers)
        return answers

    def _take(self, index: int, submission: Submission, run_id: str) -> RunStatus:
        model = self.model(submission)
        text = self.parameters(model, submission.parameters)
        if submission.key is None:
            model.ids.append(run_id)
            model.parameters.append(text)
        else:
            key = parse_key(submission.key)
            self._with_key.append(_WithKey(index, attrs.evolve(model.run, id=run_id, parameters=text, key=key)))
        return model.run.status

    def model(self, submission: Submission) -> Model:
        """The model of runs like this one."""
        shape = submission.shape()
        try:
            known = self._models.get(shape)
        except TypeError:
            # A list or an object where a word or number belongs: no shape to keep, and the parsers say so.
            return self._new_model(submission)
        if known is None:
            known = self._models[shape] = self._new_model(submission)
        return known

    def parameters(self, model: Model, given: object) -> str:
        """The text of the parameters that the run gets."""
        if not given and given in (None, {}):
            text, values = model.defaults_text, model.defaults
        elif model.defaults and isinstance(given, Mapping):
            values = {**model.defaults, **given}
            text = parameters_text(values)
        else:
            text = parameters_text(given)
            values = given  # type: ignore[assignment]  # parameters_text accepts nothing else
        if model.function is not None:
            self._scope.tasks.check(model.function, values)
        return text

    def _new_model(self, submission: Submission) -> Model:
        wishes = parse_wishes(submission)
        job = self._job(submission)
        spec = job.spec
        if not spec.enabled:
            raise Conflict(f"the job {spec.name!r} is disabled; enable it first")
        due_at = wishes.at if wishes.delay_us is None else self._now + wishes.delay_us
        waits = due_at is not None and due_at > self._now
        if wishes.queue is not None and wishes.queue != spec.queue:
            job_table.add_queue(self._tx, wishes.queue)
        run = NewRun(
            id="",
            job_id=job.id,
            job_revision=job.revision,
            queue=wishes.queue or spec.queue,
            priority=PRIORITY_CLASS[spec.priority] if wishes.priority is None else wishes.priority,
            parameters="{}",
            retries=spec.retries if wishes.retries is None else wishes.retries,
            origin=self._origin,
            status=RunStatus.PENDING if waits else RunStatus.QUEUED,
            due_at=due_at if waits else None,
            overrides=wishes.overrides,
        )
        defaults: dict[str, Any] = msgspec.json.decode(spec.parameters)
        return Model(run, defaults, in_order(spec.parameters), spec.function)

    def _job(self, submission: Submission) -> Job:
        if (submission.job is None) == (submission.function is None):
            raise Invalid.at("job", "give exactly one of job and function")
        field = "function" if submission.job is None else "job"
        name = parse_text(getattr(submission, field), field)
        if (field, name) not in self._jobs:
            self._jobs[field, name] = self._calling(name) if field == "function" else self._named(name)
        return self._jobs[field, name]

    def _named(self, name: str) -> Job:
        return required_job(self._tx, name, lock=self._lock)

    def _calling(self, function: str) -> Job:
        """The one job that calls ``function``."""
        named = job_table.find(self._tx, function, lock=self._lock)
        if named is not None and named.spec.function == function:
            return named
        jobs = job_table.with_function(self._tx, function)
        if len(jobs) > 1:
            names = ", ".join(job.spec.name for job in jobs)
            raise Invalid.at("function", f"several jobs call it: {names}; name one of them as job")
        return self._named(jobs[0].id if jobs else self._implicit(function))

    def _implicit(self, function: str) -> str:
        """The job that stands for a task without one of its own, made when it is first asked for."""
        if not self._scope.tasks.knows(function):
            raise Invalid.at("function", "is not a registered task; register it with @app.job or name a job")
        spec = parse_job({"name": function, "type": "python", "function": function}, now=self._now)
        try:
            job_table.add(self._tx, {self._scope.ids.new("job"): spec}, ORIGIN_CODE, self._now)
        except Conflict:
            # Somebody was faster with the same one, or the name means something else.
            found = job_table.find(self._tx, function)
            if found is None or found.spec.function != function:
                raise
        return function

    def _store(self, answers: list[Submitted]) -> None:
        groups = [(model.run, model.ids, model.parameters) for model in self._models.values() if model.ids]
        if groups:
            run_table.add_alike(self._tx, groups, self._now)
        by_job: dict[str, list[_WithKey]] = {}
        for wanted in self._with_key:
            by_job.setdefault(wanted.run.job_id, []).append(wanted)
        # In one order everywhere: two batches with the same keys must not wait for each other.
        for job_id in sorted(by_job):
            self._store_keyed(job_id, by_job[job_id], answers)

    def _store_keyed(self, job_id: str, wanted: list[_WithKey], answers: list[Submitted]) -> None:
        first: dict[str, NewRun] = {}
        for each in wanted:
            first.setdefault(_key_of(each.run), each.run)
        taken = run_lookup.with_keys(self._tx, job_id, list(first))
        for keyed in [keyed for keyed in taken.values() if self._now - keyed.created_at > KEY_LIFETIME_US]:
            run_lookup.drop_key(self._tx, keyed)
            del taken[keyed.key]
        missing = [first[key] for key in sorted(first) if key not in taken]
        fresh = run_table.add_missing(self._tx, missing) if missing else set()
        if len(fresh) < len(missing):
            taken |= run_lookup.with_keys(self._tx, job_id, [_key_of(run) for run in missing if run.id not in fresh])
        for each in wanted:
            answers[each.index] = _answer(each.run, first, taken)


def _key_of(run: NewRun) -> str:
    assert run.key is not None
    return run.key


def _answer(run: NewRun, first: Mapping[str, NewRun], taken: Mapping[str, run_lookup.Keyed]) -> Submitted:
    """The run that the key of ``run`` stands for: an earlier one, the first of the batch, or itself."""
    key = _key_of(run)
    earlier = taken.get(key)
    parameters = first[key].parameters if earlier is None else earlier.parameters
    if parameters != run.parameters:
        raise Conflict(f"the key {key!r} was used with other parameters; use another key for another request")
    if earlier is not None:
        return Submitted(earlier.id, earlier.status, False)
    return Submitted(first[key].id, first[key].status, first[key] is run)
