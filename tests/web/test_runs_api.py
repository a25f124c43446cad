"""Runs over HTTP: submitting, watching, steering."""

from __future__ import annotations

import msgspec

from tests.operations.stage import claim, finish, shell
from tests.web.stage import Browser
from trisched.domain.lifecycle import Move
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables.attempt import Chunk


async def test_a_trigger_is_201_once_and_200_while_its_run_is_not_over(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    first = await web.post("/api/jobs/backup/trigger")
    again = await web.post("/api/jobs/backup/trigger", {})
    assert (first.status, first.json["created"], first.json["status"]) == (201, True, "queued")
    assert (again.status, again.json) == (200, {**first.json, "created": False})


async def test_a_key_in_header_or_body_gives_the_same_run(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    for path, body in (("/api/jobs/backup/trigger", {}), ("/api/runs", {"job": "backup"})):
        key = path.replace("/", "-")
        first = await web.post(path, body, Idempotency_Key=key)
        again = await web.post(path, {**body, "key": key})
        assert (first.status, again.status, again.json["run_id"]) == (201, 200, first.json["run_id"])
        other = await web.post(path, {**body, "parameters": {"a": 1}}, Idempotency_Key=key)
        assert other.status == 409
        assert (await web.post(path, {**body, "key": "another"}, Idempotency_Key=key)).paths == ["key"]
        assert (await web.post(path, body, Idempotency_Key="x" * 10_000)).paths == ["Idempotency-Key"]
        assert (await web.post(path, body, Idempotency_Key="")).paths == ["Idempotency-Key"]
        assert (await web.post(path, {**body, "key": "a\nb"})).paths == ["key"]


async def test_a_batch_is_answered_in_its_order(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    runs = [{"job": "backup", "parameters": {"n": 0}}, {"job": "backup", "key": "k"}, {"job": "backup", "key": "k"}]
    made = await web.post("/api/runs/batch", {"runs": runs})
    assert made.status == 201
    assert [each["created"] for each in made.json["runs"]] == [True, True, False]
    shown = (await web.get(f"/api/runs/{made.json['runs'][0]['run_id']}")).json
    assert shown["parameters"] == {"n": 0}
    assert (await web.post("/api/runs/batch", {"runs": []})).json == {"runs": []}


async def test_a_broken_batch_names_each_place_and_stores_nothing(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    bad = [{"job": "backup"}, {"job": "backup", "retries": -1}, {"job": "backup", "delay": {}}]
    assert (await web.post("/api/runs/batch", {"runs": bad})).paths == ["runs[1].retries", "runs[2].delay"]
    assert (await web.post("/api/runs/batch", {"runs": [{"job": "backup", "colour": 1}]})).paths == ["runs[0].colour"]
    assert (await web.post("/api/runs/batch", {"runs": [7]})).paths == ["runs[0]"]
    assert (await web.post("/api/runs/batch", {"runs": {}})).paths == ["runs"]
    assert (await web.post("/api/runs/batch", {})).paths == ["runs"]
    assert (await web.get("/api/runs")).json == {"runs": [], "next": None}


async def test_a_run_is_shown_from_its_start_to_its_end(web_anywhere: Browser) -> None:
    web = web_anywhere
    await web.post("/api/jobs", shell("backup"))
    made = (await web.post("/api/runs", {"job": "backup", "priority": "low", "timeout": "2m"})).json
    path = f"/api/runs/{made['run_id']}"
    [claimed] = await claim(web.scope)
    running = (await web.get(path)).json
    assert (running["status"], running["worker"], running["job"]) == ("running", "node-1", "backup")
    assert running["duration"] >= 0
    assert running["started_at"].endswith("Z")
    assert (running["priority"], running["timeout"], running["attempt"]) == ("low", 120.0, 1)
    [live] = running["attempts"]
    assert (live["number"], live["worker"], live["outcome"], live["finished_at"]) == (1, "node-1", None, None)
    lines = msgspec.json.encode([[1, 5_000_000, "stdout", "Report"], [2, 6_000_000, "stderr", "generated ␀ ü"]])
    chunk = Chunk(claimed.id, claimed.token, 0, lines.decode())
    await web.scope.database.write(lambda tx: attempt_table.add_output(tx, [chunk]))
    await finish(web.scope, claimed, result='{"pages":3}')
    done = (await web.get(path)).json
    assert (done["status"], done["output"], done["result"]) == (
        "completed",
        "Report\ngenerated ␀ ü",
        {"pages": 3},
    )
    assert [attempt["outcome"] for attempt in done["attempts"]] == ["completed"]

    output = (await web.get(f"{path}/output?after=1")).json
    assert output == {
        "lines": [{"number": 2, "time": "1970-01-01T00:00:06Z", "stream": "stderr", "text": "generated ␀ ü"}],
        "next": 2,
    }
    plain = await web.get(f"{path}/output", Accept="text/plain")
    assert plain.body.decode() == "Report\ngenerated ␀ ü\n"
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert (await web.get(f"{path}/output?attempt=7")).status == 404


async def test_the_result_stands_for_the_output_of_what_printed_nothing(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    run = (await web.post("/api/jobs/backup/trigger")).json["run_id"]
    [claimed] = await claim(web.scope)
    await finish(web.scope, claimed, result='"Report generated"')
    assert (await web.get(f"/api/runs/{run}")).json["output"] == "Report generated"


async def test_cancel_retry_and_resolve_say_what_became_of_the_run(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    waiting = (await web.post("/api/runs", {"job": "backup", "delay": "1h"})).json["run_id"]
    cancelled = await web.post(f"/api/runs/{waiting}/cancel", {"reason": "no need"})
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    assert (await web.post(f"/api/runs/{waiting}/cancel")).status == 409
    assert (await web.post(f"/api/runs/{waiting}/retry")).json == {
        "run_id": waiting,
        "status": "queued",
        "created": False,
    }
    [claimed] = await claim(web.scope)
    asked = await web.post(f"/api/runs/{waiting}/cancel")
    assert (asked.status, asked.json["status"]) == (202, "running")
    assert (await web.get(f"/api/runs/{waiting}")).json["cancel_requested"] is True
    await finish(web.scope, claimed, Move.HOLD, error="node lost")
    assert (await web.post(f"/api/runs/{waiting}/resolve", {"reason": 7})).paths == ["reason"]
    assert (await web.post(f"/api/runs/{waiting}/resolve", {"why": "x"})).paths == ["why"]
    assert (await web.post(f"/api/runs/{waiting}/resolve")).json["status"] == "completed"
    again = await web.post(f"/api/runs/{waiting}/retry")
    assert (again.status, again.json["created"]) == (201, True)
    assert (await web.post(f"/api/runs/{again.json['run_id']}/resolve")).status == 409


async def test_a_full_walk_meets_each_run_once(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    made = await web.post("/api/runs/batch", {"runs": [{"job": "backup"}] * 7})
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await web.get(f"/api/runs?job=backup&limit=2{cursor}")).json
        seen += [run["id"] for run in page["runs"]]
        await web.post("/api/runs", {"job": "backup"})
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [each["run_id"] for each in reversed(made.json["runs"])]


async def test_runs_are_listed_by_time(web: Browser) -> None:
    await web.post("/api/jobs", shell("backup"))
    await web.post("/api/runs", {"job": "backup"})
    assert len((await web.get("/api/runs?from=2020-01-01T00:00:00Z&status=active")).json["runs"]) == 1
    assert (await web.get("/api/runs?to=2020-01-01T00:00:00Z")).json["runs"] == []
    assert (await web.get("/api/runs?from=yesterday&worker=x&queue=y")).paths == ["from"]
