"""The demo script that the project began with, line by line, against a real node."""

from __future__ import annotations

import http.client
import json
import shlex
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.node_process import NodeProcess, running_node

TASKS = "tests.e2e.seed_tasks:app"
CREATE = """curl -X POST http://localhost:8000/api/jobs \\
  -H "Content-Type: application/json" \\
  -d '{
    "name": "daily-report",
    "type": "python",
    "function": "reports.generate_daily",
    "schedule": "0 9 * * *",
    "parameters": {"recipients": ["team@example.com"]},
    "timeout": 3600,
    "retries": 2
  }'"""
CREATE_DEPENDENT = """curl -X POST http://localhost:8000/api/jobs \\
  -d '{
    "name": "send-report",
    "type": "python",
    "function": "email.send_report",
    "depends_on": ["daily-report"]
  }'"""
LIST = "curl http://localhost:8000/api/jobs?tag=reports"
TRIGGER = "curl -X POST http://localhost:8000/api/jobs/job-123/trigger"
WORKERS = "curl http://localhost:8000/api/workers"
RUN = "curl http://localhost:8000/api/runs/run-456"


def curl(node: NodeProcess, line: str, **names: str) -> tuple[int, Any]:
    """Sends what curl sends for ``line``: its headers, its method, its default media type."""
    for placeholder, name in names.items():
        line = line.replace(placeholder.replace("_", "-"), name)
    words = shlex.split(line.replace("\\\n", " "))
    method, headers, body, url = None, {"User-Agent": "curl/8.0", "Accept": "*/*"}, None, ""
    position = 1
    while position < len(words):
        word = words[position]
        if word in ("-X", "-H", "-d"):
            value = words[position + 1]
            position += 1
            if word == "-X":
                method = value
            elif word == "-H":
                name, _, content = value.partition(":")
                headers[name.strip()] = content.strip()
            else:
                body = value
                headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        else:
            url = word
        position += 1
    target = urlsplit(url)
    port = urlsplit(node.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers["Host"] = f"localhost:{port}"
    path = target.path + (f"?{target.query}" if target.query else "")
    connection.request(method or ("POST" if body else "GET"), path, body=body, headers=headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


@pytest.fixture
def node(tmp_path: Path) -> Any:
    with running_node(tmp_path, TASKS, "--tags", "cpu-heavy,default", "--concurrency", "4") as process:
        yield process


def test_ticket_1_jobs_are_created_listed_and_triggered(node: NodeProcess) -> None:
    status, job = curl(node, CREATE)
    assert status == 201
    assert job["id"].startswith("job-")
    assert job["name"] == "daily-report"
    assert job["next_run"].endswith("T09:00:00Z")

    status, dependent = curl(node, CREATE_DEPENDENT)
    assert (status, dependent["depends_on"]) == (201, ["daily-report"])

    status, listed = curl(node, LIST)
    assert (status, listed["jobs"], listed["total"]) == (200, [], 0)
    status, listed = curl(node, LIST.replace("?tag=reports", ""))
    assert (listed["total"], {job["name"] for job in listed["jobs"]}) == (2, {"daily-report", "send-report"})

    status, run = curl(node, TRIGGER, job_123=job["id"])
    assert status == 201
    assert run["run_id"].startswith("run-")
    assert run["status"] == "queued"


def test_ticket_2_the_worker_runs_it_and_tells(node: NodeProcess) -> None:
    _, job = curl(node, CREATE)
    _, [worker] = curl(node, WORKERS)
    assert worker["id"].startswith("node-")
    assert worker["tags"] == ["cpu-heavy", "default"]
    assert worker["active_jobs"] == 0
    text = node.log.read_text()
    assert f"Worker {worker['id']} registered" in text
    assert "Listening for jobs" in text

    _, triggered = curl(node, TRIGGER, job_123=job["id"])
    run_id = triggered["run_id"]
    node.wait_for_run(run_id, "running")
    _, run = curl(node, RUN, run_456=run_id)
    assert (run["status"], run["worker"]) == ("running", worker["id"])
    assert run["started_at"].endswith("Z")

    node.wait_for_run(run_id, "completed")
    _, run = curl(node, RUN, run_456=run_id)
    assert run["status"] == "completed"
    assert 0.9 < run["duration"] < 30
    assert "Report generated" in run["output"]


def test_ticket_2_two_rapid_triggers_execute_once(node: NodeProcess) -> None:
    _, job = curl(node, CREATE)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(curl(node, TRIGGER, job_123=job["id"]))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer["run_id"] for _, answer in answers} == {answers[0][1]["run_id"]}
    assert sorted(status for status, _ in answers) == [200, 201]
    node.wait_for_run(answers[0][1]["run_id"], "completed")
    assert len(node.get(f"/api/jobs/{job['id']}/runs")["runs"]) == 1
