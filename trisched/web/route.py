"""Routes: each is declared once, with all that both the server and the OpenAPI document need to know of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
from werkzeug.datastructures import Headers

from trisched.domain.node import LeaseTimes
from trisched.operations.scope import Scope
from trisched.web.body import LIMIT
from trisched.web.query import Query


@attrs.frozen(kw_only=True)
class ServerInfo:
    """What the web must know of the node it belongs to."""

    version: str
    node_id: str
    #: Where it listens; its name is one that requests may use, beside those of loopback and ``names``.
    host: str
    port: int
    lease_times: LeaseTimes
    #: Whether the node's own lease is good.
    ready: Callable[[], bool]
    names: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Call:
    """One request, checked and taken apart."""

    scope: Scope
    info: ServerInfo
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    headers: Headers


@attrs.frozen
class Answer:
    """What a handler answers: a shape of the API, or text."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)


Handler = Callable[[Call], Awaitable[Answer]]


@attrs.frozen(kw_only=True)
class Route:
    """One method of one path."""

    method: str
    #: As OpenAPI writes it: ``/api/jobs/{job}``.
    path: str
    summary: str
    handler: Handler
    query: tuple[Query, ...] = ()
    #: The shape of the body; None where there is none.
    body: type | None = None
    body_required: bool = False
    body_limit: int = LIMIT
    #: Status → shape of the answer; None: no body.
    answers: Mapping[int, Any]
    #: Statuses of the errors that this route may answer with, beside those that any may.
    errors: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the handler, which is that of the operation."""
        return self.handler.__name__


class Routes:
    """The routes of one part of the API."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.all: list[Route] = []

    def add(
        self, method: str, path: str, summary: str, *, answers: Mapping[int, Any], **more: Any
    ) -> Callable[[Handler], Handler]:
        """Declares the function below as the handler of a route."""

        def declare(handler: Handler) -> Handler:
            self.all.append(Route(method=method, path=path, summary=summary, handler=handler, answers=answers, **more))
            return handler

        return declare
