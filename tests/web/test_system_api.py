"""The state of node and cluster over HTTP, and what is told when the database is away."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from tests.operations.stage import claim, finish, opened, shell
from tests.web.stage import Browser
from trisched.domain.lifecycle import Move
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
from trisched.storage.statements import rendered
from trisched.storage.tables import leader as leader_table
from trisched.web.problem import of_error


class Broken:
    """Tasks that make a mistake when they are asked."""

    def knows(self, function: str) -> bool:
        raise ZeroDivisionError(f"secret detail of {function}")

    def check(self, function: str, parameters: Mapping[str, object]) -> None:
        raise ZeroDivisionError(f"{function} {parameters}")


async def test_nodes_queues_and_the_cluster_are_shown(web_anywhere: Browser) -> None:
    web = web_anywhere
    await web.post("/api/jobs", shell("backup"))
    await web.post("/api/runs/batch", {"runs": [{"job": "backup"}] * 4})
    dead, done, _ = await claim(web.scope, most=3)
    await finish(web.scope, dead, Move.BURY, error="broken")
    await finish(web.scope, done)
    idle = (await web.get("/api/system")).json
    assert (idle["state"], idle["leader"], idle["epoch"]) == ("degraded", None, 0)
    await web.scope.database.write(
        lambda tx: leader_table.take(
            tx, epoch=0, node_id="node-1", incarnation="node-1-life", lease_us=60_000_000, only_one=False
        )
    )
    [worker] = (await web.get("/api/workers")).json
    assert (worker["id"], worker["state"], worker["leader"], worker["active_jobs"]) == ("node-1", "alive", True, 1)
    assert (worker["tags"], worker["concurrency"]) == (["a"], 10)
    assert worker["last_seen"].endswith("Z")
    [queue] = (await web.get("/api/queues")).json
    assert (queue["name"], queue["queued"], queue["running"], queue["paused"]) == ("default", 1, 1, False)
    system = (await web.get("/api/system")).json
    assert (system["version"], system["state"], system["node"]) == ("1.2.3", "healthy", "node-1")
    assert (system["leader"], system["epoch"]) == ("node-1", 1)
    assert system["lease"] == {"node": 15.0, "grace": 2.0, "leader": 5.0}
    assert system["database"] == {"kind": web.scope.database.kind, "state": "ok"}
    assert system["redis"] == {"state": "not configured", "instances": []}
    status = (await web.get("/v1/scheduler/status")).json
    assert status["stats"] == {"completed_24h": 1, "failed_24h": 1, "running": 1}
    history = (await web.get("/v1/scheduler/tasks/backup/history")).json["executions"]
    assert sorted(each["status"] for each in history) == ["completed", "failed", "running"]
    assert {each["node"] for each in history} == {"node-1"}


async def test_a_schedule_is_previewed_with_the_change_of_the_clock(web: Browser) -> None:
    query = "cron=30+2+*+*+*&tz=Europe/Berlin&from=2027-03-27T12:00:00Z&count=2"
    shown = (await web.get(f"/api/schedules/preview?{query}")).json
    assert shown["words"] == "at 02:30 every day, Europe/Berlin"
    assert [fire["utc"] for fire in shown["fires"]] == ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    assert "does not exist" in shown["fires"][0]["note"]
    assert (await web.get("/api/schedules/preview?cron=every+5m")).json["words"] == "every 5 minutes"


async def test_health_is_not_readiness(web: Browser) -> None:
    assert (await web.get("/healthz")).json == {"status": "ok"}
    assert (await web.get("/readyz")).json == {"status": "ready"}
    fenced = Browser(web.scope, ready=lambda: False)
    assert (await fenced.get("/healthz")).status == 200
    refused = await fenced.get("/readyz")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert (await web.get("/")).json["openapi"] == "/api/openapi.json"


async def test_a_database_that_is_closed_is_told_as_away(sqlite_path: Path) -> None:
    async with opened(f"sqlite:///{sqlite_path}") as scope:
        web = Browser(scope)
    for method, path, body in (
        ("GET", "/api/jobs", None),
        ("POST", "/api/jobs", shell("x")),
        ("POST", "/api/runs", {"job": "x"}),
        ("GET", "/readyz", None),
    ):
        reply = await web.send(method, path, json=body)
        assert (reply.status, reply.headers["Retry-After"]) == (503, "5")
    assert (await web.get("/healthz")).status == 200


async def test_a_full_disk_is_507_and_nothing_is_half_stored(web: Browser) -> None:
    full = rendered("test", "PRAGMA max_page_count = 1")
    await web.scope.database.write(lambda tx: tx.rows(full))
    jobs = [shell(f"job {number}", description="x" * 10_000) for number in range(20)]
    replies = [await web.post("/api/jobs", job) for job in jobs]
    refused = [reply for reply in replies if reply.status != 201]
    assert {(reply.status, reply.json["title"]) for reply in refused} == {(507, "No room left")}
    assert (await web.get("/api/jobs")).json["total"] == len(replies) - len(refused)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unreadable("x"), 400),
        (NotFound("job", "x"), 404),
        (Conflict("x"), 409),
        (Cycle(["a", "a"]), 409),
        (Stale("x"), 412),
        (TooLarge("x"), 413),
        (Invalid.at("a", "x"), 422),
        (StoreUnavailable("x"), 503),
        (StoreError("x"), 503),
        (StoreFull("x"), 507),
    ],
)
async def test_each_error_has_its_status(error: Exception, status: int) -> None:
    answer = of_error(error)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert ("Retry-After" in answer.headers) == (status == 503)


async def test_a_mistake_of_ours_is_logged_and_not_shown(web: Browser, caplog: pytest.LogCaptureFixture) -> None:
    app = Browser(attrs.evolve(web.scope, tasks=Broken())).app
    with caplog.at_level(logging.ERROR, logger="trisched.web.problem"):
        response = await app.test_client().post("/api/jobs", json={"name": "x", "type": "python", "function": "a.b"})
    body = await response.get_data(as_text=True)
    assert response.status_code == 500
    assert response.headers["Content-Type"] == "application/problem+json"
    assert "secret detail" not in body
    assert "secret detail" in caplog.text
