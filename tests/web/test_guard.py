"""The guard: what a foreign page could make a browser send does nothing; every answer has its headers."""

from __future__ import annotations

import pytest

from tests.operations.stage import shell
from tests.web.stage import Browser

FORM = "application/x-www-form-urlencoded"


async def totals(web: Browser) -> tuple[int, int]:
    return (await web.get("/api/jobs")).json["total"], len((await web.get("/api/runs")).json["runs"])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "[", "é", "10.0.0.1"]
)
@pytest.mark.parametrize("path", ["/api/jobs", "/", "/healthz", "/nothing"])
async def test_a_foreign_name_is_misdirected(web: Browser, host: str, path: str) -> None:
    reply = await web.get(path, Host=host.encode().decode("latin-1"))
    assert reply.status == 421
    assert reply.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"])
async def test_the_names_of_this_host_are_ours(web: Browser, host: str) -> None:
    assert (await web.get("/api/jobs", Host=host)).status == 200


async def test_where_all_addresses_are_served_any_address_is_ours(web: Browser) -> None:
    everywhere = Browser(web.scope, host="0.0.0.0")
    assert (await everywhere.get("/healthz", Host="192.0.2.7:8000")).status == 200
    assert (await everywhere.get("/healthz", Host="evil.example")).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "file://localhost"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_foreign_page_changes_nothing(web: Browser, headers: dict[str, str]) -> None:
    await web.post("/api/jobs", shell("backup"))
    sent = {"Host": "localhost:8000", "Cookie": "session=1", **headers}
    for method, path, body in (
        ("POST", "/api/jobs/backup/trigger", {}),
        ("POST", "/api/jobs", shell("more")),
        ("PUT", "/api/jobs/backup", shell("backup", retries=1)),
        ("DELETE", "/api/jobs/backup", None),
        ("POST", "/api/jobs/backup/disable", None),
    ):
        assert (await web.send(method, path, json=body, headers=sent)).status == 403
    assert await totals(web) == (1, 0)
    assert (await web.get("/api/jobs/backup")).json["revision"] == 1


async def test_our_own_page_may(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    own = {"Host": "localhost:8000", "Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"}
    assert (await web.send("POST", "/api/jobs/backup/trigger", json={}, headers=own)).status == 201


@pytest.mark.parametrize("kind", ["text/plain", FORM, "multipart/form-data; boundary=x", "application/xml", ""])
async def test_a_browser_must_say_that_it_sends_json(web: Browser, kind: str) -> None:
    await web.post("/api/jobs", shell("backup"))
    for path in ("/api/jobs/backup/trigger", "/api/jobs/backup/disable", "/api/jobs"):
        sent = {"Cookie": "session=1", "Content-Type": kind}
        reply = await web.send("POST", path, data=b'{"name": "x"}', headers=sent)
        assert (reply.status, reply.headers["Content-Type"]) == (415, "application/problem+json")
    assert await totals(web) == (1, 0)
    assert (await web.get("/api/jobs/backup")).json["enabled"] is True


async def test_what_curl_calls_a_form_is_read_if_it_is_a_json_object(web: Browser) -> None:
    body = b'{"name": "x", "type": "shell", "command": "true"}'
    assert (await web.send("POST", "/api/jobs", data=body, headers={"Content-Type": FORM})).status == 201
    for data in (b"name=x&type=shell", b"[]", b"{", b"x={}"):
        assert (await web.send("POST", "/api/jobs", data=data, headers={"Content-Type": FORM})).status == 415
    for name, value in (
        ("Origin", "http://localhost"),
        ("Cookie", "a=b"),
        ("Referer", "http://localhost/"),
        ("Sec-Fetch-Mode", "cors"),
    ):
        sent = {"Content-Type": FORM, name: value}
        assert (await web.send("POST", "/api/jobs", data=body, headers=sent)).status == 415
    assert (await totals(web))[0] == 1


async def test_no_other_origin_is_allowed_to_read(web: Browser) -> None:
    sent = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for method, path in (("OPTIONS", "/api/jobs"), ("GET", "/api/jobs")):
        reply = await web.send(method, path, headers=sent)
        assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/nothing", "/api/jobs?limit=0", "/healthz", "/api/openapi.json"])
async def test_every_answer_has_its_headers(web: Browser, path: str) -> None:
    for host in ("localhost", "evil.example"):
        headers = (await web.get(path, Host=host)).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
