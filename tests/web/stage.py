"""A stage for the web: the application on a real database, spoken to without a socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from trisched.domain.node import LeaseTimes
from trisched.operations.scope import Scope
from trisched.web.server import ServerInfo, build


@attrs.frozen
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def paths(self) -> list[str]:
        """Where the rules are broken, by a 422."""
        return [error["path"] for error in self.json["errors"]]


class Browser:
    """Sends requests to the application. Paths go out as they are, percent signs and all."""

    def __init__(self, scope: Scope, *, host: str = "127.0.0.1", ready: Callable[[], bool] = lambda: True) -> None:
        info = ServerInfo(
            version="1.2.3", node_id="node-1", host=host, port=8000, lease_times=LeaseTimes(), ready=ready
        )
        self.scope = scope
        self.app = build(scope, info)
        self._client: Any = self.app.test_client(use_cookies=False)

    async def send(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        data: bytes | str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """The answer to one request."""
        sent = dict(headers or {})
        if json is not None:
            data = msgspec.json.encode(json)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        raw = path.partition("?")[0].encode()
        response = await self._client.open(path, method=method, data=data, headers=sent, scope_base={"raw_path": raw})
        reply = Reply(response.status_code, response.headers, await response.get_data(as_text=False))
        assert reply.status != 500, reply.body
        return reply

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.send("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, path: str, json: Any = None, **headers: str) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.send("POST", path, json=json, headers=sent)
