"""A job that nobody can run says so, until somebody can."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.e2e.node_process import running_node, wait_until
from trisched.domain.job_fields import parse_job
from trisched.domain.node import Ability, why_unrunnable

MANY = [Ability(frozenset({"gpu"}), frozenset()), Ability(frozenset(), frozenset({"reports.daily"}))]


@pytest.mark.parametrize(
    ("fields", "abilities", "expected"),
    [
        ({"type": "shell", "command": "true"}, MANY, None),
        ({"type": "shell", "command": "true"}, [], "no node that executes is alive"),
        ({"type": "shell", "command": "true", "requires": ["gpu"]}, MANY, None),
        ({"type": "shell", "command": "true", "requires": ["arm"]}, MANY, "tags it requires (arm)"),
        ({"type": "python", "function": "reports.daily"}, MANY, None),
        ({"type": "python", "function": "reports:daily"}, MANY, None),
        ({"type": "python", "function": "reports.weekly"}, MANY, "the task 'reports.weekly'"),
        ({"type": "python", "function": "reports.daily", "requires": ["gpu"]}, MANY, "tags it requires (gpu)"),
    ],
)
def test_why_a_job_cannot_run(fields: dict[str, object], abilities: list[Ability], expected: str | None) -> None:
    reason = why_unrunnable(parse_job({"name": "job", **fields}, now=0), abilities)
    assert reason is None if expected is None else expected in str(reason)


def test_alarm_is_shown_while_no_node_has_the_tags(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        body = {"name": "render", "type": "shell", "command": "true", "requires": ["gpu"]}
        httpx.post(f"{node.url}/api/jobs", json=body).raise_for_status()
        run_id = httpx.post(f"{node.url}/api/jobs/render/trigger").json()["run_id"]
        wait_until("the alarm", lambda: node.get("/api/system")["alarms"])
        [alarm] = node.get("/api/system")["alarms"]
        assert (alarm["job"], "requires (gpu)" in alarm["text"]) == ("render", True)
        assert node.get(f"/api/runs/{run_id}")["status"] == "queued"
    with running_node(tmp_path, "--tags", "gpu") as node:
        node.wait_for_run(run_id, "completed")
        wait_until("the alarm to end", lambda: not node.get("/api/system")["alarms"])
