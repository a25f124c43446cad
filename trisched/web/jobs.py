"""The routes of jobs."""

from __future__ import annotations

from typing import Any, Final

from trisched.domain.job import JOB_TYPES
from trisched.errors import FieldError, Invalid
from trisched.operations import job_views, run_views, runs
from trisched.operations import jobs as operations
from trisched.operations.job_views import JobDetail, JobFilter
from trisched.operations.run_views import STATUS_WORDS, RunFilter
from trisched.web import query, shape
from trisched.web.body import only
from trisched.web.key import given_key
from trisched.web.route import Answer, Call, Routes
from trisched.web.wire import job as wire
from trisched.web.wire import run as run_wire

ROUTES: Final = Routes("jobs")
_JOB: Final = "/api/jobs/{job}"
#: The server's own fields, which a job that was read carries when it is sent back.
_SERVER_FIELDS: Final = tuple(
    name for name in wire.Job.__struct_fields__ if name not in wire.JobFields.__struct_fields__
)
_TRIGGER: Final = run_wire.TriggerRequest.__struct_fields__


@ROUTES.add("POST", "/api/jobs", "Makes a job", body=wire.JobFields, body_required=True,
            answers={201: wire.Job}, errors=(409, 413))  # fmt: skip
async def create_job(call: Call) -> Answer:
    """201 with the job; 409 if the name is taken."""
    made = await operations.create(call.scope, call.body)
    answer = await _shown(call, made.id)
    return Answer(answer.body, 201, {**answer.headers, "Location": f"/api/jobs/{made.id}"})


@ROUTES.add(
    "GET", "/api/jobs", "Lists jobs", answers={200: wire.JobList},
    query=(
        query.text("tag", "Only jobs with this tag."),
        query.choice("status", "Only jobs whose newest run has this status; failed means retrying or dead.",
                     STATUS_WORDS),
        query.choice("schedule", "Only jobs with this kind of schedule.", job_views.SCHEDULE_KINDS),
        query.choice("type", "Only jobs of this type.", JOB_TYPES),
        query.text("queue", "Only jobs of this queue."),
        query.flag("enabled", "Only jobs that are switched on, or off."),
        query.text("search", "Only jobs whose name contains this, in upper or lower case."),
        query.choice("sort", "What to sort by; a leading - reverses.", job_views.SORTS, default="name"),
        query.number("limit", "Most jobs to answer.", least=1, most=job_views.MOST, default=job_views.DEFAULT_LIMIT),
        query.number("offset", "Jobs to pass over.", least=0, most=10**9, default=0),
    ),
)  # fmt: skip
async def list_jobs(call: Call) -> Answer:
    """One page; ``counts`` are over all jobs."""
    values = dict(call.query)
    page = {name: values.pop(name) for name in ("sort", "limit", "offset")}
    return Answer(shape.job_list(await job_views.list_jobs(call.scope, JobFilter(**values), **page)))


@ROUTES.add("GET", _JOB, "Shows a job", answers={200: wire.Job}, errors=(404,))
async def show_job(call: Call) -> Answer:
    """By id or name; the revision is the ETag."""
    return await _shown(call, call.path["job"])


@ROUTES.add("PUT", _JOB, "Replaces a job", body=wire.JobFields, body_required=True, answers={200: wire.Job},
            errors=(404, 409, 412, 413))  # fmt: skip
async def replace_job(call: Call) -> Answer:
    """Fields that are left out get their defaults; the server's own are ignored, but for the revision."""
    fields = {name: value for name, value in call.body.items() if name not in _SERVER_FIELDS}
    replaced = await operations.replace(call.scope, call.path["job"], fields, revision=_revision(call))
    return await _shown(call, replaced.id)


@ROUTES.add("PATCH", _JOB, "Changes a job", body=wire.JobChange, body_required=True, answers={200: wire.Job},
            errors=(404, 409, 412, 413))  # fmt: skip
async def change_job(call: Call) -> Answer:
    """Fields that are left out stay; null takes one back to its default."""
    fields = {name: value for name, value in call.body.items() if name != "revision"}
    changed = await operations.patch(call.scope, call.path["job"], fields, revision=_revision(call))
    return await _shown(call, changed.id)


@ROUTES.add("DELETE", _JOB, "Deletes a job", answers={204: None}, errors=(404, 409, 412))
async def delete_job(call: Call) -> Answer:
    """Runs that wait are cancelled, those that run are asked to stop; 409 if other jobs depend on it."""
    await operations.delete(call.scope, call.path["job"], revision=_revision(call))
    return Answer(status=204)


@ROUTES.add("POST", _JOB + "/trigger", "Runs a job now", body=run_wire.TriggerRequest,
            answers={200: run_wire.Submitted, 201: run_wire.Submitted}, errors=(404, 409, 413))  # fmt: skip
async def trigger_job(call: Call) -> Answer:
    """201 with a new run, 200 with one that stands for this request already."""
    fields = only(call.body, _TRIGGER)
    made = await runs.trigger(
        call.scope,
        call.path["job"],
        fields.get("parameters"),
        priority=fields.get("priority"),
        delay=fields.get("delay"),
        key=given_key(call, fields.get("key")),
    )
    return Answer(shape.submitted(made), 201 if made.created else 200)


@ROUTES.add("POST", _JOB + "/enable", "Switches a job on", answers={200: wire.Job}, errors=(404,))
async def enable_job(call: Call) -> Answer:
    """Its next slot is the first after now."""
    return await _shown(call, (await operations.enable(call.scope, call.path["job"])).id)


@ROUTES.add("POST", _JOB + "/disable", "Switches a job off", answers={200: wire.Job}, errors=(404,))
async def disable_job(call: Call) -> Answer:
    """No slot fires and no trigger is taken; runs that exist go on."""
    return await _shown(call, (await operations.disable(call.scope, call.path["job"])).id)


@ROUTES.add(
    "GET", _JOB + "/runs", "Lists the newest runs of a job", answers={200: run_wire.RunList}, errors=(404,),
    query=(
        query.number("limit", "Most runs to answer.", least=1, most=run_views.MOST, default=20),
        query.text("cursor", "Where to go on: `next` of the page before."),
    ),
)  # fmt: skip
async def list_job_runs(call: Call) -> Answer:
    """Newest first."""
    job = (await job_views.get(call.scope, call.path["job"])).job
    page = await run_views.list_runs(
        call.scope, RunFilter(job=job.id), limit=call.query["limit"], cursor=call.query["cursor"]
    )
    return Answer(shape.run_list(page))


@ROUTES.add("GET", _JOB + "/stats", "Shows rates and durations of a job", answers={200: wire.JobStats},
            errors=(404,))  # fmt: skip
async def show_job_stats(call: Call) -> Answer:
    """Over its newest 1,000 runs."""
    return Answer(shape.job_stats(await job_views.figures(call.scope, call.path["job"])))


async def _shown(call: Call, job: str) -> Answer:
    detail: JobDetail = await job_views.get(call.scope, job)
    return Answer(shape.job(detail), headers={"ETag": f'"{detail.job.revision}"'})


def _revision(call: Call) -> int | None:
    """The revision that the caller has seen: of ``If-Match``, else of the body."""
    tag = call.headers.get("If-Match")
    if tag is None or tag.strip() == "*":
        return _body_revision(call.body.get("revision"))
    number = tag.strip().removeprefix("W/").strip('"')
    if not number.isascii() or not number.isdecimal() or len(number) > 18:
        raise Invalid([FieldError("If-Match", "must be the ETag of the job as it was read")])
    return int(number)


def _body_revision(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise Invalid.at("revision", "must be a whole number")
    return value
