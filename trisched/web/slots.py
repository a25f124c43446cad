"""The routes of a job's slots: the ledger, backfill, the chart of durations, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trisched.domain.duration import MICROSECONDS, format_instant, parse_instant
from trisched.domain.ledger import Entry
from trisched.domain.text import parse_number
from trisched.errors import FieldError, Invalid
from trisched.operations import explain, job_views
from trisched.operations import slots as operations
from trisched.web import query, shape
from trisched.web.body import only
from trisched.web.route import Answer, Call, Routes
from trisched.web.wire import slot as wire

ROUTES: Final = Routes("slots")
_JOB: Final = "/api/jobs/{job}"


@ROUTES.add(
    "GET", _JOB + "/slots", "Lists slots of a job and what became of each", answers={200: wire.SlotList},
    errors=(404,),
    query=(
        query.moment("from", "Only slots at this moment or later; 24 hours before `to` unless told."),
        query.moment("to", "Only slots up to this moment; now unless told."),
        query.number("limit", "Most slots to answer.", least=1, most=operations.MOST, default=operations.DEFAULT_LIMIT),
    ),
)  # fmt: skip
async def list_slots(call: Call) -> Answer:
    """In the order of time; slots to come are listed when `to` lies ahead."""
    page = await operations.show(
        call.scope, call.path["job"], since=call.query["from"], until=call.query["to"], limit=call.query["limit"]
    )
    return Answer(wire.SlotList(slots=[_slot(entry) for entry in page.entries], next=shape.instant(page.next)))


def _slot(entry: Entry) -> wire.Slot:
    run = entry.run
    return wire.Slot(
        slot=format_instant(entry.slot),
        local=entry.local,
        state=entry.state,
        run_id=None if run is None else run.id,
        status=None if run is None else run.status,
        reason=entry.reason,
        late=entry.late,
        origin=None if run is None else run.origin,
        note=entry.note,
    )


@ROUTES.add("POST", _JOB + "/backfill", "Makes the missing slots of a range", body=wire.BackfillRequest,
            body_required=True, answers={200: wire.Backfill, 201: wire.Backfill}, errors=(404, 409))  # fmt: skip
async def backfill_job(call: Call) -> Answer:
    """201 with the runs that were made, one after another in slot order; 200 when none was."""
    fields = only(call.body, ("from", "to", "dry_run", "expect"))
    since, until, dry_run, expect = _range(fields)
    done = await operations.backfill(call.scope, call.path["job"], since, until, dry_run=dry_run, expect=expect)
    body = wire.Backfill(
        slots=done.slots,
        existing=done.existing,
        skipped=done.skipped,
        forgotten=done.forgotten,
        missing=done.missing,
        made=len(done.made),
        runs=done.made,
    )
    return Answer(body, 201 if done.made else 200)


def _range(fields: Mapping[str, Any]) -> tuple[int, int, bool, int | None]:
    missing = [FieldError(name, "is required") for name in ("from", "to") if fields.get(name) is None]
    if missing:
        raise Invalid(missing)
    dry_run = fields.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise Invalid.at("dry_run", "must be true or false")
    expect = fields.get("expect")
    count = None if expect is None else parse_number(expect, "expect", least=0, most=operations.MOST_BACKFILL)
    return parse_instant(fields["from"], "from"), parse_instant(fields["to"], "to"), dry_run, count


@ROUTES.add(
    "GET", _JOB + "/durations", "Shows how long the newest runs of a job took", answers={200: wire.Durations},
    errors=(404,), query=(query.number("limit", "Most runs to answer.", least=1, most=1000, default=100),),
)  # fmt: skip
async def show_durations(call: Call) -> Answer:
    """Columns, the earliest run first."""
    rows = await job_views.durations(call.scope, call.path["job"], call.query["limit"])
    body = wire.Durations(
        t=[start / MICROSECONDS for _, _, start, _ in rows],
        d=[max(end - start, 0) / MICROSECONDS for _, _, start, end in rows],
        s="".join(status.value[0] for _, status, _, _ in rows),
        ids=[run_id for run_id, _, _, _ in rows],
    )
    return Answer(body)


@ROUTES.add(
    "GET", _JOB + "/why", "Explains a job or one of its slots", answers={200: wire.Explanation}, errors=(404,),
    query=(query.moment("at", "The slot, or a moment shortly after it; the present state unless told."),),
)  # fmt: skip
async def explain_job(call: Call) -> Answer:
    """In words: what ran when and how late, or what kept it from running."""
    return Answer(_explained(await explain.job(call.scope, call.path["job"], call.query["at"])))


@ROUTES.add("GET", "/api/runs/{run}/why", "Explains a run", answers={200: wire.Explanation}, errors=(404,))
async def explain_run(call: Call) -> Answer:
    """In words: what it waits for, or how it came to its end."""
    return Answer(_explained(await explain.run(call.scope, call.path["run"])))


def _explained(told: explain.Explanation) -> wire.Explanation:
    return wire.Explanation(
        job=told.job, slot=shape.instant(told.slot), run_id=told.run_id, state=told.state, text=list(told.text)
    )
