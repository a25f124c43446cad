"""A secret is used by jobs and shows nowhere: not in the API, the logs, the output, nor in the list of processes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.node_process import NodeProcess, running_node, wait_until

SECRET = "s3cr3t-7f"
PROGRAM = """
import os
import trisched

app = trisched.App()

@app.job(retries=0)
def raises():
    raise ValueError("the token is " + os.environ["TRISCHED_SECRET_TOKEN"])

@app.job(retries=0)
async def returns(ctx: trisched.Context):
    token = os.environ["TRISCHED_SECRET_TOKEN"]
    ctx.progress(1, 2, "with " + token)
    ctx.log("logs " + token)
    return {"token": token}
"""


class Echo(BaseHTTPRequestHandler):
    """Answers with the request's own headers, address and body."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append({**{name.lower(): text for name, text in self.headers.items()}, "body": body})
        answer = json.dumps({"headers": dict(self.headers), "path": self.path, "body": body}).encode()
        self.send_response(500 if "fail" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-Request-Id", self.headers["Authorization"])
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[tuple[str, list[dict[str, str]]]]:
    seen: list[dict[str, str]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Echo,), {"seen": seen}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()


def run_job(node: NodeProcess, name: str, **fields: Any) -> Any:
    made = httpx.post(f"{node.url}/api/jobs", json={"name": name, "retries": 0, **fields}, timeout=30)
    assert made.status_code == 201, made.text
    return trigger(node, name)


def trigger(node: NodeProcess, name: str) -> Any:
    answer = httpx.post(f"{node.url}/api/jobs/{name}/trigger", timeout=30)
    assert answer.status_code == 201, answer.text
    return answer.json()["run_id"]


def processes_that_show(text: str) -> list[str]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in line.read_bytes():
                found.append(line.parent.name)
        except OSError:
            continue
    return found


def test_a_secret_shows_nowhere(tmp_path: Path, echo: tuple[str, list[dict[str, str]]]) -> None:
    url, seen = echo
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "FILED").write_text("filed-9c\n")
    with running_node(
        tmp_path,
        "app.py:app",
        "--log-level",
        "debug",
        "--http-allow",
        "127.0.0.1",
        "--secrets-dir",
        str(tmp_path / "secrets"),
        variables={"TRISCHED_SECRET_TOKEN": SECRET},
    ) as node:
        shell = run_job(
            node,
            "shell",
            type="shell",
            env={"TOKEN": "${secret:TOKEN}", "BOTH": "${secret:TOKEN}/${secret:FILED}"},
            # The middle of it is written in two pieces; the node's own variables are not there.
            command='echo "it is $BOTH"; printf %s "${TOKEN%????}"; sleep 0.7; echo "${TOKEN#?????}"; '
            'echo "::progress 1/2 $TOKEN"; env | grep -c TRISCHED_SECRET_; echo "$TOKEN" >&2; sleep 1; exit 3',
        )
        wait_until("the first line", lambda: "it is" in node.get(f"/api/runs/{shell}")["output"])
        while node.get(f"/api/runs/{shell}")["status"] == "running":
            assert processes_that_show(SECRET) == []
            time.sleep(0.05)
        request = {
            "method": "POST",
            "headers": {"Authorization": "Bearer ${secret:TOKEN}"},
            "json": {"password": "${secret:TOKEN}", "key": ["k ${secret:FILED}"]},
        }
        http = run_job(node, "http", type="http", request={"url": f"{url}/ok?t=${{secret:TOKEN}}", **request})
        failing = run_job(node, "failing", type="http", request={"url": f"{url}/fail?t=${{secret:TOKEN}}", **request})
        runs = [shell, http, failing, trigger(node, "raises"), trigger(node, "returns")]
        ended = [node.wait_for_run(run, "completed", "dead") for run in runs]
        bodies = [json.dumps(run) for run in ended]
        paths = ("/api/jobs", "/api/runs", *(f"/api/runs/{run}/output" for run in runs))
        bodies += [json.dumps(node.get(path)) for path in paths]
        log = node.log.read_text()
    assert [run["status"] for run in ended] == ["dead", "completed", "dead", "dead", "completed"]
    assert ended[0]["output"].splitlines() == ["it is ***/***", "***", "0", "***"]
    assert [request["authorization"] for request in seen] == [f"Bearer {SECRET}"] * 2
    assert json.loads(seen[0]["body"]) == {"password": SECRET, "key": ["k filed-9c"]}
    assert ended[1]["result"]["json"]["path"] == "/ok?t=***"
    assert ended[1]["result"]["headers"]["x-request-id"] == "Bearer ***"
    assert ended[3]["attempts"][0]["error"] == "the token is ***"
    assert ended[4]["result"] == {"token": "***"}
    for text in (*bodies, log):
        assert SECRET not in text
        assert "filed-9c" not in text


def test_a_secret_that_is_missing_fails_the_attempt_by_name(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        run = run_job(node, "shell", type="shell", command="true", env={"TOKEN": "${secret:TOKEN}"})
        ended = node.wait_for_run(run, "dead")
    assert ended["attempts"][0]["error_type"] == "UnknownSecret"
    assert ended["reason"] == "UnknownSecret: the secret TOKEN is not known on this node: set TRISCHED_SECRET_TOKEN"
    assert ended["attempts"][0]["traceback"] is None


def test_a_secret_in_a_command_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        for command in ("curl -H ${secret:TOKEN}", ["curl", "${secret:TOKEN}"]):
            answer = httpx.post(
                f"{node.url}/api/jobs", json={"name": "a", "type": "shell", "command": command}, timeout=30
            )
            assert answer.status_code == 422
            assert "put the secret into env" in answer.text


def test_an_http_job_reaches_neither_the_node_itself_nor_its_neighbours(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        port = node.url.rpartition(":")[2]
        before = node.get("/api/jobs")["total"]
        for number, host in enumerate(
            ("127.0.0.1", "127.1", "2130706433", "localhost.", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]")
        ):
            evil = {"name": f"evil-{number}", "type": "shell", "command": "true"}
            request = {"url": f"http://{host}:{port}/api/jobs", "json": evil}
            run = run_job(node, f"http-{number}", type="http", request=request)
            assert "target not allowed" in node.wait_for_run(run, "dead")["reason"]
        assert node.get("/api/jobs")["total"] == before + 7
