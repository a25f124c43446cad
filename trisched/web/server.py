"""Builds the web application: the routes, the guard in front of them, and errors as problem documents."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from quart import Blueprint, Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from trisched.operations.scope import Scope
from trisched.web import jobs, openapi, problem, query, runs, schedules, slots, system
from trisched.web.asgi import Segment, wrapped
from trisched.web.body import BATCH_LIMIT, read_object
from trisched.web.guard import SAFE_METHODS, Guard, add_security
from trisched.web.route import Answer, Call, Route, Routes, ServerInfo

__all__ = ["ServerInfo", "build"]

PARTS: Final = (jobs.ROUTES, slots.ROUTES, runs.ROUTES, schedules.ROUTES, system.ROUTES)
_JSON: Final = "application/json"
_IN_PATH: Final = re.compile(r"\{(\w+)\}")


def build(scope: Scope, info: ServerInfo) -> QuartTrio:
    """The application, ready to be served."""
    app = QuartTrio("trisched", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = BATCH_LIMIT
    app.url_map.converters["segment"] = Segment
    app.url_map.merge_slashes = False
    guard = Guard(info.host, info.names)

    async def refuse_strangers() -> Response | None:
        return guard.refuse(request.method, request.headers)

    async def secure(response: Response) -> Response:
        return add_security(response)

    app.before_request(refuse_strangers)
    app.after_request(secure)
    app.register_error_handler(HTTPException, problem.of_http)
    app.register_error_handler(Exception, problem.of_error)
    for part in (*PARTS, _document_routes(info)):
        app.register_blueprint(_blueprint(part, scope, info))
    app.asgi_app = wrapped(app.asgi_app)  # type: ignore[assignment,method-assign]
    return app


def _blueprint(part: Routes, scope: Scope, info: ServerInfo) -> Blueprint:
    blueprint = Blueprint(part.name, __name__)
    for route in part.all:
        rule = _IN_PATH.sub(r"<segment:\1>", route.path)
        view = _view(route, scope, info)
        blueprint.add_url_rule(rule, route.name, view, methods=[route.method])
    return blueprint


def _view(route: Route, scope: Scope, info: ServerInfo) -> Callable[..., Awaitable[Response]]:
    async def view(**path: str) -> Response:
        values = query.read(route.query, request.args)
        body: dict[str, Any] = {}
        if request.method not in SAFE_METHODS:
            body = await read_object(request, limit=route.body_limit, required=route.body_required)
        call = Call(scope=scope, info=info, path=path, query=values, body=body, headers=request.headers)
        return _respond(await route.handler(call))

    return view


def _respond(answer: Answer) -> Response:
    if answer.body is None or isinstance(answer.body, str):
        response = Response(answer.body or "", status=answer.status)
    else:
        response = Response(msgspec.json.encode(answer.body), status=answer.status, content_type=_JSON)
    for name, value in answer.headers.items():
        response.headers[name] = value
    return response


def _document_routes(info: ServerInfo) -> Routes:
    """The route of the OpenAPI document, which is in the document too."""
    routes = Routes("document")

    @routes.add("GET", openapi.PATH, "Shows this document", answers={200: dict[str, Any]})
    async def show_document(_: Call) -> Answer:
        """OpenAPI 3.1."""
        return Answer(document)

    document = openapi.document((*PARTS, routes), info.version)
    return routes
