"""The routes of runs."""

from __future__ import annotations

from typing import Any, Final

from trisched.domain.run import FINISHED
from trisched.errors import Invalid
from trisched.operations import run_views
from trisched.operations import runs as operations
from trisched.operations.run_views import STATUS_WORDS, OutputLine, RunFilter
from trisched.operations.submission import Submission
from trisched.web import query, shape
from trisched.web.body import BATCH_LIMIT, only
from trisched.web.key import given_key
from trisched.web.route import Answer, Call, Routes
from trisched.web.wire import run as wire

ROUTES: Final = Routes("runs")
_RUN: Final = "/api/runs/{run}"
_SUBMIT: Final = wire.SubmitRequest.__struct_fields__
_REASON: Final = wire.ReasonRequest.__struct_fields__
_TEXT: Final = "text/plain; charset=utf-8"


@ROUTES.add("POST", "/api/runs", "Submits a run", body=wire.SubmitRequest, body_required=True,
            answers={200: wire.Submitted, 201: wire.Submitted}, errors=(404, 409, 413))  # fmt: skip
async def submit_run(call: Call) -> Answer:
    """201 with a new run; 200 with the run that the key stands for."""
    fields = dict(only(call.body, _SUBMIT))
    fields["key"] = given_key(call, fields.get("key"))
    made = await operations.submit(call.scope, Submission(**fields))
    return Answer(shape.submitted(made), 201 if made.created else 200)


@ROUTES.add("POST", "/api/runs/batch", "Submits many runs in one transaction", body=wire.BatchRequest,
            body_required=True, body_limit=BATCH_LIMIT, answers={201: wire.SubmittedBatch},
            errors=(404, 409, 413))  # fmt: skip
async def submit_batch(call: Call) -> Answer:
    """All of them, in order, or none."""
    given = only(call.body, ("runs",)).get("runs")
    if not isinstance(given, list):
        raise Invalid.at("runs", "must be a list of runs")
    made = await operations.submit_many(call.scope, [_submission(index, each) for index, each in enumerate(given)])
    return Answer(wire.SubmittedBatch(runs=[shape.submitted(each) for each in made]), 201)


def _submission(index: int, fields: Any) -> Submission:
    if not isinstance(fields, dict):
        raise Invalid.at(f"runs[{index}]", "must be a JSON object")
    return Submission(**only(fields, _SUBMIT, f"runs[{index}]."))


@ROUTES.add(
    "GET", "/api/runs", "Lists runs", answers={200: wire.RunList},
    query=(
        query.choice("status", "Only runs of this status; failed means retrying or dead.", STATUS_WORDS),
        query.text("job", "Only runs of this job, by id or name."),
        query.moment("from", "Only runs made at this moment or later."),
        query.moment("to", "Only runs made before this moment."),
        query.text("queue", "Only runs of this queue."),
        query.text("worker", "Only runs that this node had last."),
        query.number("limit", "Most runs to answer.", least=1, most=run_views.MOST, default=run_views.DEFAULT_LIMIT),
        query.text("cursor", "Where to go on: `next` of the page before."),
    ),
)  # fmt: skip
async def list_runs(call: Call) -> Answer:
    """Newest first; following ``next`` meets every run once."""
    values = call.query
    wanted = RunFilter(
        status=values["status"],
        job=values["job"],
        since=values["from"],
        until=values["to"],
        queue=values["queue"],
        worker=values["worker"],
    )
    page = await run_views.list_runs(call.scope, wanted, limit=values["limit"], cursor=values["cursor"])
    return Answer(shape.run_list(page))


@ROUTES.add("GET", _RUN, "Shows a run", answers={200: wire.RunDetail}, errors=(404,))
async def show_run(call: Call) -> Answer:
    """With its attempts, and the output of the last one."""
    return Answer(shape.run(await run_views.get(call.scope, call.path["run"], with_output=True)))


@ROUTES.add(
    "GET", _RUN + "/output", "Shows the output of a run", answers={200: wire.Output}, errors=(404,),
    query=(
        query.number("attempt", "The number of the attempt; the latest, unless told.", least=1, most=10**6),
        query.number("token", "The token of the attempt, exact where a released one's number came again.", least=1,
                     most=2**62),
        query.number("after", "Only lines beyond this number.", least=0, most=10**15, default=0),
    ),
)  # fmt: skip
async def show_output(call: Call) -> Answer:
    """Lines with number, time and stream; as plain text where that is what the caller accepts."""
    after = call.query["after"]
    lines = await run_views.output(
        call.scope, call.path["run"], attempt=call.query["attempt"], token=call.query["token"], after=after
    )
    if "text/plain" in call.headers.get("Accept", ""):
        return Answer(_as_text(lines), headers={"Content-Type": _TEXT})
    return Answer(shape.output(lines, after))


def _as_text(lines: list[OutputLine]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


@ROUTES.add("POST", _RUN + "/cancel", "Cancels a run", body=wire.ReasonRequest,
            answers={200: wire.RunStatusAnswer, 202: wire.RunStatusAnswer}, errors=(404, 409))  # fmt: skip
async def cancel_run(call: Call) -> Answer:
    """200: it is cancelled. 202: it runs, and was asked to stop. 409: it was over."""
    reason = only(call.body, _REASON).get("reason")
    status = await operations.cancel(call.scope, call.path["run"], reason)
    return Answer(wire.RunStatusAnswer(run_id=call.path["run"], status=status), 200 if status in FINISHED else 202)


@ROUTES.add("POST", _RUN + "/retry", "Retries a run", answers={200: wire.Submitted, 201: wire.Submitted},
            errors=(404, 409))  # fmt: skip
async def retry_run(call: Call) -> Answer:
    """200: the run itself is back in line. 201: it had completed, so a new one was made."""
    made = await operations.retry(call.scope, call.path["run"])
    return Answer(shape.submitted(made), 201 if made.created else 200)


@ROUTES.add("POST", _RUN + "/resolve", "Declares a held run done", body=wire.ReasonRequest,
            answers={200: wire.RunStatusAnswer}, errors=(404, 409))  # fmt: skip
async def resolve_run(call: Call) -> Answer:
    """For a run whose node was lost: a person knows that it has had its effect."""
    reason = only(call.body, _REASON).get("reason")
    status = await operations.resolve(call.scope, call.path["run"], reason)
    return Answer(wire.RunStatusAnswer(run_id=call.path["run"], status=status))
