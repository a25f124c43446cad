"""Jobs over HTTP: the whole life of one, and what goes with each answer."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.operations.stage import shell
from tests.web.stage import Browser
from trisched.domain.job_fields import FIELD_NAMES
from trisched.operations import jobs
from trisched.web.wire import job as wire


async def test_a_job_lives_from_post_to_delete(web_anywhere: Browser) -> None:
    web = web_anywhere
    made = await web.post("/api/jobs", shell("backup", schedule="0 9 * * *", tags=["night"], parameters={"a": [1]}))
    assert made.status == 201
    job = made.json
    assert job["id"].startswith("job-")
    assert made.headers["Location"] == f"/api/jobs/{job['id']}"
    assert job["next_run"].endswith("T09:00:00Z")
    assert (job["revision"], job["origin"], job["enabled"], job["last_run"]) == (1, "api", True, None)
    assert (await web.get("/api/jobs/backup")).json == (await web.get(f"/api/jobs/{job['id']}")).json == job

    replaced = await web.send("PUT", "/api/jobs/backup", json=shell("backup", schedule="every 5m"))
    assert (replaced.status, replaced.json["tags"], replaced.json["revision"]) == (200, [], 2)
    assert replaced.json["schedule"]["every"] == 300.0
    patched = await web.send("PATCH", "/api/jobs/backup", json={"retries": 0})
    assert (patched.status, patched.json["retries"], patched.json["next_run"]) == (200, 0, replaced.json["next_run"])

    off = await web.post("/api/jobs/backup/disable")
    assert (off.status, off.json["enabled"], off.json["next_run"]) == (200, False, None)
    assert (await web.post("/api/jobs/backup/trigger")).status == 409
    assert (await web.post("/api/jobs/backup/enable", {})).json["enabled"] is True

    run = (await web.post("/api/jobs/backup/trigger", {"priority": "high"})).json
    shown = (await web.get("/api/jobs/backup")).json["last_run"]
    assert shown == {"id": run["run_id"], "status": "queued", "started_at": None, "duration": None}
    listed = (await web.get("/api/jobs/backup/runs")).json
    assert [each["id"] for each in listed["runs"]] == [run["run_id"]]
    assert (await web.get("/api/jobs/backup/stats")).json["by_status"] == {"queued": 1}

    gone = await web.send("DELETE", "/api/jobs/backup")
    assert (gone.status, gone.body) == (204, b"")
    assert (await web.get("/api/jobs/backup")).status == 404
    assert (await web.get(f"/api/runs/{run['run_id']}")).json["status"] == "cancelled"


async def test_what_was_read_may_be_sent_back(web: Browser) -> None:
    made = (await web.post("/api/jobs", shell("backup", schedule="every 5m", env={"A": "b"}))).json
    back = await web.send("PUT", "/api/jobs/backup", json=made)
    assert (back.status, back.json) == (200, made)


async def test_a_stale_revision_is_412(web: Browser) -> None:
    first = await web.post("/api/jobs", shell("backup"))
    assert (await web.get("/api/jobs/backup")).headers["ETag"] == '"1"'
    fresh = {"If-Match": '"1"'}
    assert (await web.send("PATCH", "/api/jobs/backup", json={"retries": 1}, headers=fresh)).status == 200
    for method, body in (("PUT", shell("backup")), ("PATCH", {"retries": 2}), ("DELETE", None)):
        stale = await web.send(method, "/api/jobs/backup", json=body, headers=fresh)
        assert (stale.status, stale.json["title"]) == (412, "Changed meanwhile")
    assert (await web.send("PUT", "/api/jobs/backup", json=first.json)).status == 412, "the revision in the body"
    assert (await web.send("DELETE", "/api/jobs/backup", headers={"If-Match": "abc"})).paths == ["If-Match"]
    assert (await web.send("DELETE", "/api/jobs/backup", headers={"If-Match": "*"})).status == 204


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a%2Fb", "100%", "🦊 fox", "\u200fright to left", "a?b#c", "<img src=x>", "a+b", "é"]
)
async def test_a_name_of_any_characters_is_stored_and_found_exactly(web_anywhere: Browser, name: str) -> None:
    path = f"/api/jobs/{quote(name, safe='')}"
    made = await web_anywhere.post("/api/jobs", shell(name))
    assert (made.status, made.json["name"]) == (201, name)
    assert (await web_anywhere.get(path)).json["name"] == name
    assert (await web_anywhere.post(f"{path}/trigger")).status == 201
    listed = await web_anywhere.get(f"/api/jobs?search={quote(name, safe='')}")
    assert [job["name"] for job in listed.json["jobs"]] == [name]
    assert (await web_anywhere.send("DELETE", path)).status == 204


async def test_a_list_has_totals_and_counts(web: Browser) -> None:
    for number in range(3):
        await web.post("/api/jobs", shell(f"job {number}", enabled=number > 0, tags=["t"] if number else []))
    await web.post("/api/jobs/job%201/trigger")
    page = (await web.get("/api/jobs?tag=t&limit=1&sort=-name")).json
    assert ([job["name"] for job in page["jobs"]], page["total"], page["broken"]) == (["job 2"], 2, [])
    assert page["counts"] == {
        "total": 3,
        "enabled": 2,
        "disabled": 1,
        "running": 0,
        "failed": 0,
        "alarmed": 0,
        "by_last_status": {"queued": 1},
    }
    assert (await web.get("/api/jobs?enabled=false")).json["total"] == 1
    assert (await web.get("/api/jobs?status=queued&type=shell&queue=default&schedule=none")).json["total"] == 1
    assert (await web.get("/api/jobs?offset=99")).json["jobs"] == []


async def test_a_job_declared_in_code_is_changed_there_alone(web: Browser) -> None:
    await jobs.declare(web.scope, [shell("fixed", schedule="every 1h")])
    refused = await web.send("PATCH", "/api/jobs/fixed", json={"retries": 1})
    assert refused.status == 409
    assert "declared in code" in refused.json["detail"]
    assert (await web.send("DELETE", "/api/jobs/fixed")).status == 409
    assert (await web.post("/api/jobs/fixed/disable")).status == 200


def test_the_document_names_exactly_the_fields_of_a_job() -> None:
    assert set(wire.JobFields.__struct_fields__) == set(FIELD_NAMES)
    assert set(FIELD_NAMES) <= set(wire.Job.__struct_fields__)


async def test_an_http_job_is_shown_as_it_was_written(web_anywhere: Browser) -> None:
    web = web_anywhere
    request = {
        "method": "PUT",
        "url": "https://example.com/{{parameters.id}}",
        "headers": {"Authorization": "Bearer ${secret:TOKEN}"},
        "json": {"a": ["{{parameters.a}}", None, 1.5]},
        "expect": ["2xx", 404],
        "connect_timeout": 5,
        "read_timeout": "2m",
        "max_redirects": 0,
        "max_response": 100,
    }
    made = await web.post("/api/jobs", {"name": "hook", "type": "http", "request": request})
    assert made.status == 201
    shown = {**request, "connect_timeout": 5.0, "read_timeout": 120.0}
    assert made.json["request"] == shown
    again = await web.send("PUT", "/api/jobs/hook", json=made.json)
    assert (again.status, again.json["revision"]) == (200, 1)
    patched = await web.send("PATCH", "/api/jobs/hook", json={"request": {"url": "https://example.com/"}})
    assert (patched.json["request"]["method"], patched.json["request"]["headers"]) == ("GET", {})
    assert (await web.get("/api/jobs?type=http")).json["total"] == 1
    other = await web.post("/api/jobs", shell("plain"))
    assert other.json["request"] is None
