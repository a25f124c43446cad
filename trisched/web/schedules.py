"""The routes that try out schedules."""

from __future__ import annotations

from typing import Final

from trisched.domain.zone import parse_zone
from trisched.operations import schedules as operations
from trisched.web import query, shape
from trisched.web.query import Query
from trisched.web.route import Answer, Call, Routes
from trisched.web.wire import job as wire

ROUTES: Final = Routes("schedules")
_ZONE: Final = Query(
    name="tz",
    description="The time zone, by its name; UTC, unless told.",
    schema={"type": "string", "examples": ["Europe/Berlin"]},
    parse=parse_zone,
    default="UTC",
)


@ROUTES.add(
    "GET", "/api/schedules/preview", "Shows a schedule in words, with its next fires",
    answers={200: wire.SchedulePreview},
    query=(
        query.text("cron", "A schedule: cron, an interval such as `every 5m`, or a moment.", required=True),
        _ZONE,
        query.moment("from", "Fires after this moment; now, unless told."),
        query.number("count", "How many fires.", least=1, most=operations.MOST_FIRES, default=5),
    ),
)  # fmt: skip
async def preview_schedule(call: Call) -> Answer:
    """Nothing is stored."""
    values = call.query
    shown = await operations.show(
        call.scope,
        values["cron"],
        path="cron",
        timezone=values["tz"],
        after=values["from"],
        count=values["count"],
    )
    return Answer(shape.preview(shown))
