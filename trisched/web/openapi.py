"""The OpenAPI document, made of the routes and the shapes they name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from trisched.web.problem import MEDIA_TYPE
from trisched.web.route import Route, Routes
from trisched.web.wire.problem import Problem

VERSION: Final = "3.1.0"
PATH: Final = "/api/openapi.json"
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_PATH_WORDS: Final = {
    "job": "The id or the name of a job, percent-encoded.",
    "run": "The id of a run.",
}
#: Any request may meet these.
_ANYWHERE: Final = (403, 421, 422, 503)
_WITH_BODY: Final = (400, 415)


def document(parts: Iterable[Routes], version: str) -> dict[str, Any]:
    """The document of all routes."""
    routes = [(part.name, route) for part in parts for route in part.all]
    shapes = {shape for _, route in routes for shape in _shapes(route)} | {Problem}
    ordered = sorted(shapes, key=str)
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    by_shape = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for tag, route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(tag, route, by_shape)
    return {
        "openapi": VERSION,
        "info": {
            "title": "trisched",
            "version": version,
            "description": "Job scheduler and priority task queue. Times are RFC 3339 in UTC, durations seconds.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _shapes(route: Route) -> Iterable[Any]:
    yield from (shape for shape in route.answers.values() if shape is not None)
    if route.body is not None:
        yield route.body


def _operation(tag: str, route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [tag],
        "summary": route.summary,
        "description": route.handler.__doc__ or "",
        "parameters": _parameters(route),
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[route.body]}}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "description": _PATH_WORDS[name], "schema": {"type": "string"}}
        for name in _IN_PATH.findall(route.path)
    ]
    in_query = [
        {
            "name": query.name,
            "in": "query",
            "required": query.required,
            "description": query.description,
            "schema": {**query.schema, **({} if query.default is None else {"default": query.default})},
        }
        for query in route.query
    ]
    return in_path + in_query


def _responses(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, shape in sorted(route.answers.items()):
        content = {} if shape is None else {"content": {"application/json": {"schema": schemas[shape]}}}
        answers[str(status)] = {"description": HTTPStatus(status).phrase, **content}
    body = _WITH_BODY if route.body is not None else ()
    for status in sorted({*_ANYWHERE, *body, *route.errors}):
        content = {"content": {MEDIA_TYPE: {"schema": schemas[Problem]}}}
        answers[str(status)] = {"description": HTTPStatus(status).phrase, **content}
    return answers
