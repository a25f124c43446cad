"""Bad input: each case has its status and names its field; nothing is stored, nothing is a 500."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations.stage import shell
from tests.web.stage import Browser
from trisched.errors import Invalid, Unreadable
from trisched.web.body import BATCH_LIMIT, LIMIT, decode

DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"   ", 400),
        (b"NaN", 400),
        (b'{"name": NaN}', 400),
        (b'{"name": "x"} trailing', 400),
        (b'{"name": "\xff"}', 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"x"', 422),
        (b"7", 422),
        (DEEP.encode(), 422),
        (b'{"parameters": ' + DEEP.encode() + b"}", 422),
        (b"9" * 5000, 422),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(web: Browser, body: bytes, status: int) -> None:
    for method, path in (("POST", "/api/jobs"), ("POST", "/api/runs"), ("POST", "/api/runs/batch")):
        reply = await web.send(method, path, data=body)
        assert reply.status == status, (path, reply.body)
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert b"Traceback" not in reply.body
    assert (await web.get("/api/jobs")).json["total"] == 0


REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"headers": {"X": "a\r\nX-Evil: 1"}}, "request.headers.X"),
    ({"headers": {"a b": "1"}}, "request.headers.a b"),
    ({"url": "https://example.com/\nX"}, "request.url"),
    ({"url": "https://user:pw@example.com/"}, "request.url"),
    ({"url": "file:///etc/passwd"}, "request.url"),
    ({"url": "gopher://example.com/"}, "request.url"),
    ({"url": "ftp://example.com/"}, "request.url"),
    ({"url": "https://example.com/{{customer}}"}, "request.url"),
    ({"headers": {"X": "${secret:a b}"}}, "request.headers.X"),
    ({"method": "CONNECT"}, "request.method"),
    ({"json": 1, "body": "1"}, "request.body"),
    ({"json": {"a": "{{nope}}"}}, "request.json.a"),
    ({"expect": "7xx"}, "request.expect"),
    ({"retries": 3}, "request.retries"),
]


@pytest.mark.parametrize(("fields", "path"), REQUESTS, ids=repr)
async def test_a_request_that_breaks_a_rule_is_refused_by_its_path(
    web: Browser, fields: dict[str, Any], path: str
) -> None:
    request = {"url": "https://example.com/", **fields}
    reply = await web.post("/api/jobs", {"name": "hook", "type": "http", "request": request})
    assert (reply.status, reply.paths) == (422, [path])
    assert (await web.get("/api/jobs")).json["total"] == 0


SCHEDULES = [
    "61 * * * *", "* * *", "a b c d e", "", "@never", "0 0 31 2 *", "*/0 * * * *", "5-1 * * * *",
    "*/99999999999999999999 * * * *", "every 0s", "every -5m", "every 1x", "every 1e400s", "every 10y",
    "2020-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2090-01-01T00:00:00", 7, [], {"cron": "* * * * *", "every": 5},
    {"crom": "* * * * *"}, {"cron": "* * * * *", "timezone": "Mars/Olympus"},
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
async def test_a_schedule_that_cannot_be_is_refused_at_once(web: Browser, schedule: object) -> None:
    started = time.perf_counter()
    reply = await web.post("/api/jobs", shell("x", schedule=schedule))
    assert reply.status == 422
    assert all(path.startswith("schedule") for path in reply.paths)
    assert time.perf_counter() - started < 5, "far above what a busy machine needs, far below a search without end"


FIELDS: list[tuple[str, Any, str]] = [
    ("name", "", "name"),
    ("name", "   ", "name"),
    ("name", "x" * 10_000, "name"),
    ("name", "a\0b", "name"),
    ("name", None, "name"),
    ("name", 5, "name"),
    ("type", "cobol", "type"),
    ("timezone", "Mars/Olympus", "timezone"),
    ("timezone", "../../etc/passwd", "timezone"),
    ("timezone", "", "timezone"),
    ("timezone", "UTC+25", "timezone"),
    ("timeout", 0, "timeout"),
    ("timeout", -1, "timeout"),
    ("timeout", "abc", "timeout"),
    ("timeout", 1e12, "timeout"),
    ("retries", -1, "retries"),
    ("retries", 10**9, "retries"),
    ("retries", True, "retries"),
    ("retries", 1.5, "retries"),
    ("priority", "highest", "priority"),
    ("priority", 1, "priority"),
    ("concurrency", 0, "concurrency"),
    ("command", "", "command"),
    ("command", "a\0b", "command"),
    ("command", "x" * 1_000_000, "command"),
    ("command", [], "command"),
    ("tags", "x", "tags"),
    ("tags", ["ok", 7], "tags[1]"),
    ("env", {"A=B": "x"}, "env.A=B"),
    ("parameters", [], "parameters"),
    ("depends_on", ["nobody"], "depends_on[0]"),
    ("enabled", "yes", "enabled"),
    ("colour", "red", "colour"),
    ("id", "job-1", "id"),
    ("backoff", {"base": -1}, "backoff.base"),
]


@pytest.mark.parametrize(("field", "value", "path"), FIELDS, ids=[f"{f}={str(v)[:12]!r}" for f, v, _ in FIELDS])
async def test_a_field_that_breaks_its_rule_is_named(web: Browser, field: str, value: object, path: str) -> None:
    reply = await web.post("/api/jobs", {**shell("x"), field: value})
    assert reply.status == 422, reply.body
    assert path in reply.paths
    assert (await web.get("/api/jobs")).json["total"] == 0


async def test_functions_come_from_the_register_alone(web: Browser) -> None:
    for function in ("os.system", "subprocess:Popen", "builtins.eval", "__import__", "os.path.os.system"):
        reply = await web.post("/api/jobs", {"name": "x", "type": "python", "function": function})
        assert (reply.status, reply.paths) == (422, ["function"])


async def test_a_lone_surrogate_is_told_and_not_stored(web_anywhere: Browser) -> None:
    body = rb'{"name": "a\ud800b", "type": "shell", "command": "true"}'
    reply = await web_anywhere.send("POST", "/api/jobs", data=body)
    assert (reply.status, reply.paths) == (422, ["name"])
    body = rb'{"name": "x", "type": "shell", "command": "true", "parameters": {"a": "\udfff"}}'
    reply = await web_anywhere.send("POST", "/api/jobs", data=body)
    assert (reply.status, reply.paths) == (422, ["parameters"])
    body = rb'{"name": "x", "type": "shell", "command": "true", "a\ud800": 1}'
    assert (await web_anywhere.send("POST", "/api/jobs", data=body)).status == 422


async def test_a_name_is_taken_once_and_a_cycle_is_told_with_its_path(web: Browser) -> None:
    assert (await web.post("/api/jobs", shell("a"))).status == 201
    taken = await web.post("/api/jobs", shell("a"))
    assert taken.status == 409
    assert "'a'" in taken.json["detail"]
    alone = await web.post("/api/jobs", shell("self", depends_on=["self"]))
    assert (alone.status, alone.json["cycle"]) == (409, ["self", "self"])
    await web.post("/api/jobs", shell("b", depends_on=["a"]))
    await web.post("/api/jobs", shell("c", depends_on=["b"]))
    around = await web.send("PUT", "/api/jobs/a", json=shell("a", depends_on=["c"]))
    assert (around.status, around.json["cycle"]) == (409, ["a", "c", "b", "a"])
    assert around.json["errors"][0]["path"] == "depends_on"
    needed = await web.send("DELETE", "/api/jobs/a")
    assert needed.status == 409
    assert "'b'" in needed.json["detail"]


async def test_parameters_arrive_exactly_or_are_refused(web_anywhere: Browser) -> None:
    web = web_anywhere
    exact = {"big": 2**63, "bigger": 2**64 + 1, "nul": "a\0b", "float": 0.1, "": None, "ü": [True]}
    await web.post("/api/jobs", shell("x", parameters=exact))
    assert (await web.get("/api/jobs/x")).json["parameters"] == exact
    run = (await web.post("/api/runs", {"job": "x", "parameters": {"big": 2**70}})).json["run_id"]
    assert (await web.get(f"/api/runs/{run}")).json["parameters"] == {**exact, "big": 2**70}
    twice = await web.send("POST", "/api/runs", data=b'{"job": "x", "parameters": {"a": 1, "a": 2}}')
    assert twice.status == 201
    infinite = await web.send("POST", "/api/runs", data=b'{"job": "x", "parameters": {"a": 1e999}}')
    assert (infinite.status, infinite.paths) == (422, ["parameters"])
    large = await web.post("/api/runs", {"job": "x", "parameters": {"a": "y" * (1024 * 1024)}})
    assert large.status == 413
    keys = await web.post("/api/jobs/x/trigger", {"parameters": {str(number): 0 for number in range(120_000)}})
    assert keys.status == 413


async def test_a_body_beyond_its_limit_is_413(web: Browser) -> None:
    large = b'{"name": "' + b"x" * LIMIT + b'"}'
    for path in ("/api/jobs", "/api/runs", "/api/jobs/x/trigger", "/api/jobs/x/enable"):
        reply = await web.send("POST", path, data=large)
        assert (reply.status, reply.json["title"]) == (413, "Too large")
    assert (await web.send("POST", "/api/runs/batch", data=large)).status == 422, "a batch may be larger"
    huge = b'{"runs": "' + b"x" * BATCH_LIMIT + b'"}'
    assert (await web.send("POST", "/api/runs/batch", data=huge)).status == 413


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/jobs?limit=-1", ["limit"]),
        ("/api/jobs?limit=0", ["limit"]),
        ("/api/jobs?limit=1000000000", ["limit"]),
        ("/api/jobs?limit=ten", ["limit"]),
        ("/api/jobs?limit=%D9%A1", ["limit"]),
        ("/api/jobs?limit=5&limit=6", ["limit"]),
        ("/api/jobs?offset=-1", ["offset"]),
        ("/api/jobs?sort=name;drop%20table%20runs", ["sort"]),
        ("/api/jobs?status=great", ["status"]),
        ("/api/jobs?schedule=weekly", ["schedule"]),
        ("/api/jobs?enabled=perhaps", ["enabled"]),
        ("/api/jobs?tag=", ["tag"]),
        ("/api/jobs?tag=a%00", ["tag"]),
        ("/api/jobs?color=red", ["color"]),
        ("/api/runs?cursor=AAAA", ["cursor"]),
        ("/api/runs?limit=0&status=x", ["status", "limit"]),
        ("/api/schedules/preview", ["cron"]),
        ("/api/schedules/preview?cron=*+*&tz=UTC", ["cron"]),
        ("/api/schedules/preview?cron=*+*+*+*+*&tz=Mars", ["tz"]),
        ("/api/schedules/preview?cron=*+*+*+*+*&count=101", ["count"]),
        ("/api/workers?x=1", ["x"]),
    ],
)
async def test_a_query_that_means_nothing_is_refused_by_name(web: Browser, path: str, names: list[str]) -> None:
    reply = await web.get(path)
    assert reply.status == 422, reply.body
    assert sorted(reply.paths) == sorted(names)


async def test_hostile_filters_find_nothing_and_harm_nothing(web_anywhere: Browser) -> None:
    await web_anywhere.post("/api/jobs", shell("safe", tags=["t"]))
    for path in (
        "/api/jobs?tag='%20OR%201=1--",
        "/api/jobs?search=%25",
        "/api/jobs?queue=%22%5C%7B%7D",
        "/api/runs?job=';--",
        "/api/runs?worker=%7Bin:ids%7D",
    ):
        reply = await web_anywhere.get(path)
        assert reply.status == 200
        assert reply.json.get("jobs", reply.json.get("runs")) == []
    assert (await web_anywhere.get("/api/jobs")).json["total"] == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/jobs/nobody"),
        ("PUT", "/api/jobs/nobody"),
        ("PATCH", "/api/jobs/nobody"),
        ("DELETE", "/api/jobs/nobody"),
        ("POST", "/api/jobs/nobody/trigger"),
        ("POST", "/api/jobs/nobody/enable"),
        ("GET", "/api/jobs/nobody/runs"),
        ("GET", "/api/jobs/nobody/stats"),
        ("GET", "/api/jobs/a%00b"),
        ("GET", "/api/jobs/%ff%fe"),
        ("GET", "/api/runs/run-1"),
        ("GET", "/api/runs/a%00b"),
        ("GET", "/api/runs/run-1/output"),
        ("POST", "/api/runs/run-1/cancel"),
        ("POST", "/api/runs/run-1/retry"),
        ("POST", "/api/runs/run-1/resolve"),
        ("GET", "/v1/scheduler/tasks/nobody/history"),
        ("GET", "/api/nothing"),
        ("GET", "/api//jobs"),
        ("GET", "/static/..%2f..%2f..%2fetc%2fpasswd"),
        ("GET", "/static/%2e%2e/%2e%2e/etc/passwd"),
    ],
)
async def test_what_is_not_there_is_404(web_anywhere: Browser, method: str, path: str) -> None:
    body = shell("nobody") if method in ("PUT", "PATCH") else None
    reply = await web_anywhere.send(method, path, json=body)
    assert reply.status == 404, reply.body
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert b"root:" not in reply.body


async def test_a_method_that_a_path_does_not_know_is_405(web: Browser) -> None:
    reply = await web.send("DELETE", "/api/jobs")
    assert (reply.status, reply.headers["Content-Type"]) == (405, "application/problem+json")
    assert "POST" in reply.headers["Allow"]


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(Invalid, Unreadable):
        decode(data)
