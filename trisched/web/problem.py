"""Errors to answers: one table says which error is which status; no answer ever shows more than the error's text."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import msgspec
import trio
from msgspec import UNSET
from quart import Response
from werkzeug.exceptions import HTTPException

from trisched.errors import (
    Conflict,
    Cycle,
    Invalid,
    NotFound,
    Stale,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TooLarge,
    Unreadable,
)
from trisched.web.wire.problem import FieldProblem, Problem

log = logging.getLogger(__name__)
MEDIA_TYPE: Final = "application/problem+json"
#: Seconds after which asking again makes sense when the database is away.
RETRY_AFTER: Final = "5"
#: Subclasses stand above their parents: the first that fits counts.
_STATUSES: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (Unreadable, 400, "Malformed request"),
    (NotFound, 404, "Not found"),
    (Cycle, 409, "Circular dependency"),
    (Stale, 412, "Changed meanwhile"),
    (Conflict, 409, "Conflict"),
    (TooLarge, 413, "Too large"),
    (Invalid, 422, "Invalid input"),
    (StoreFull, 507, "No room left"),
    (StoreUnavailable, 503, "Database unavailable"),
    (StoreError, 503, "Database unavailable"),
    (trio.ClosedResourceError, 503, "Node is stopping"),
)


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    errors: list[FieldProblem] | None = None,
    cycle: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that tells of an error."""
    body = Problem(
        title=title,
        status=status,
        detail=detail,
        errors=UNSET if errors is None else errors,
        cycle=UNSET if cycle is None else cycle,
    )
    answer = Response(msgspec.json.encode(body), status=status, content_type=MEDIA_TYPE)
    answer.headers.extend(headers or {})
    return answer


def of_error(error: Exception) -> Response:
    """The answer to ``error``; one that nobody expected is logged and told without details."""
    for kind, status, title in _STATUSES:
        if isinstance(error, kind):
            return _known(error, status, title)
    log.error("a request failed", exc_info=error)
    return problem(500, "Internal error", "something went wrong in the node; its log has the details")


def _known(error: Exception, status: int, title: str) -> Response:
    return problem(
        status,
        title,
        _clean(str(error)),
        errors=[FieldProblem(path=_clean(each.path), message=_clean(each.message)) for each in error.errors]
        if isinstance(error, Invalid)
        else None,
        cycle=list(error.path) if isinstance(error, Cycle) else None,
        headers={"Retry-After": RETRY_AFTER} if status == 503 else None,
    )


def _clean(text: str) -> str:
    """``text`` as UTF-8 can carry it: names that were refused for a lone surrogate are told all the same."""
    return text.encode("utf-8", "replace").decode()


def of_http(error: HTTPException) -> Response:
    """The framework's own refusals (no such page, wrong method) in the same form."""
    headers = {name: value for name, value in error.get_headers() if name.lower() not in ("content-type", "location")}
    detail = error.description or "the request cannot be served"
    return problem(error.code or 500, error.name, detail, headers=headers)
