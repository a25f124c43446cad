"""Nodes as real processes that are killed, stopped and started again, judged by what their jobs wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.node_process import NodeProcess, running_node, wait_until
from tests.servers import PostgresServer


def ledger_command(ledger: Path, seconds: float) -> str:
    """Writes a line when it starts and one when it ends, each in a single write."""
    line = f'printf "%s {{}} %s\\n" "$TRISCHED_RUN_ID" "$$" >> {ledger}'
    return f"{line.format('start')}; sleep {seconds}; {line.format('end')}"


def entries(ledger: Path) -> list[list[str]]:
    return [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []


def ends(ledger: Path) -> Counter[str]:
    return Counter(run_id for run_id, what, _ in entries(ledger) if what == "end")


def has_ended(ledger: Path, least: int) -> bool:
    return len(ends(ledger)) >= least


def starts(ledger: Path) -> Counter[str]:
    return Counter(run_id for run_id, what, _ in entries(ledger) if what == "start")


def create_job(node: NodeProcess, **fields: Any) -> str:
    answer = httpx.post(f"{node.url}/api/jobs", json={"type": "shell", **fields}, timeout=30)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def submit(node: NodeProcess, job: str, count: int = 1) -> list[str]:
    answer = httpx.post(f"{node.url}/api/runs/batch", json={"runs": [{"job": job}] * count}, timeout=30)
    assert answer.status_code == 201, answer.text
    return [run["run_id"] for run in answer.json()["runs"]]


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_killed_node_leaves_no_command_and_its_runs_go_on_at_the_next_start(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with running_node(tmp_path) as node:
        create_job(node, name="long", command=ledger_command(ledger, 60), retries=0)
        [run_id] = submit(node, "long")
        wait_until("the start", lambda: starts(ledger)[run_id])
        pid = int(entries(ledger)[0][2])
        assert alive(pid)
        node.stop(signal.SIGKILL)
        wait_until("the command to die with its node", lambda: not alive(pid), timeout=5)
    with running_node(tmp_path) as node:
        wait_until("the second attempt", lambda: starts(ledger)[run_id] == 2, timeout=15)
        run = node.get(f"/api/runs/{run_id}")
        assert run["attempts"][0]["outcome"] == "lost"
        assert run["status"] == "running"
        httpx.post(f"{node.url}/api/runs/{run_id}/cancel", timeout=30).raise_for_status()
        node.wait_for_run(run_id, "cancelled")


def test_kills_and_restarts_lose_nothing_and_complete_nothing_twice(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    run_ids: list[str] = []
    # Twice: the third node that dies under a run makes it poison.
    for kill in range(2):
        with running_node(tmp_path, "--concurrency", "20") as node:
            if not run_ids:
                create_job(node, name="work", command=ledger_command(ledger, 0.3))
                run_ids = submit(node, "work", 120)
            wait_until("some work", partial(has_ended, ledger, 20 * (kill + 1)))
            node.stop(signal.SIGKILL)
    with running_node(tmp_path, "--concurrency", "20") as node:
        for run_id in run_ids:
            node.wait_for_run(run_id, "completed", timeout=60)
        # A command may write its last line and be killed before the node has stored the end: that run is done again.
        completed = [run for run in run_ids if node.get(f"/api/runs/{run}")["status"] == "completed"]
        assert set(completed) == set(run_ids)
        for run_id in run_ids:
            attempts = node.get(f"/api/runs/{run_id}")["attempts"]
            assert [attempt["outcome"] for attempt in attempts].count("completed") == 1
        assert node.stop() == 0
    assert set(ends(ledger)) == set(run_ids)


def test_first_signal_lets_attempts_end(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with running_node(tmp_path) as node:
        create_job(node, name="short", command=ledger_command(ledger, 1.0))
        run_ids = submit(node, "short", 5)
        wait_until("the starts", lambda: len(starts(ledger)) == 5)
        assert node.stop() == 0
    assert ends(ledger) == Counter(run_ids)
    with running_node(tmp_path) as node:
        assert {node.get(f"/api/runs/{run_id}")["status"] for run_id in run_ids} == {"completed"}


def test_second_signal_gives_back_what_runs_without_counting_the_attempt(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with running_node(tmp_path) as node:
        create_job(node, name="long", command=ledger_command(ledger, 120), kill_after=1)
        [run_id] = submit(node, "long")
        wait_until("the start", lambda: starts(ledger)[run_id])
        node.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert node.process.poll() is None
        assert node.stop(timeout=15) == 0
    with running_node(tmp_path, "--no-worker") as node:
        run = node.get(f"/api/runs/{run_id}")
        assert (run["status"], run["reason"]) == ("queued", "node shutdown")
        [attempt] = run["attempts"]
        assert attempt["outcome"] == "released"


def test_time_out_ends_the_whole_group_by_force(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with running_node(tmp_path) as node:
        command = f'trap "" TERM; sleep 300 & echo $$ $! > {pids}; wait; sleep 300'
        create_job(node, name="stubborn", command=command, timeout=1, kill_after=0.5, retries=0)
        [run_id] = submit(node, "stubborn")
        run = node.wait_for_run(run_id, "dead")
        assert "timed out after 1s" in run["reason"]
        [attempt] = run["attempts"]
        assert attempt["outcome"] == "timed_out"
        wait_until("the group to be gone", lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_failing_command_is_retried_with_growing_pauses_and_then_dead(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        create_job(node, name="bad", command="echo no paper >&2; exit 3", retries=2)
        [run_id] = submit(node, "bad")
        run = node.wait_for_run(run_id, "dead")
        assert [attempt["exit_code"] for attempt in run["attempts"]] == [3, 3, 3]
        assert "no paper" in run["output"]
        answer = httpx.post(f"{node.url}/api/runs/{run_id}/retry", timeout=30)
        assert answer.json()["run_id"] == run_id
        node.wait_for_run(run_id, "retrying", "dead")


def second_node(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRISCHED_")}
    return subprocess.run(
        [sys.executable, "-m", "trisched", "run", "--port", "0", *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_second_node_on_a_sqlite_file_exits_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        second = second_node(tmp_path, "--data-dir", str(tmp_path / "data"))
        assert second.returncode == 78
        assert f"pid {node.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert node.get("/healthz") == {"status": "ok"}


def test_second_node_with_a_living_id_exits_naming_host_and_pid(tmp_path: Path, postgres_dsn: str) -> None:
    with running_node(tmp_path, "--database", postgres_dsn, "--node-id", "n1") as node:
        second = second_node(tmp_path, "--database", postgres_dsn, "--node-id", "n1", "--data-dir", "other")
        assert second.returncode == 78
        assert f"pid {node.process.pid}" in second.stderr
        assert node.get("/readyz")


def test_another_node_takes_over_from_a_killed_one(tmp_path: Path, postgres_dsn: str) -> None:
    ledger = tmp_path / "ledger"
    with (
        running_node(tmp_path / "one", "--database", postgres_dsn, "--node-id", "one") as one,
        running_node(tmp_path / "two", "--database", postgres_dsn, "--node-id", "two", "--concurrency", "1") as two,
    ):
        create_job(one, name="work", command=ledger_command(ledger, 3))
        run_ids = submit(one, "work", 6)
        wait_until("one to be at work", lambda: len(starts(ledger)) == 6 or busy(two, "one"))
        one.stop(signal.SIGKILL)
        for run_id in run_ids:
            two.wait_for_run(run_id, "completed", timeout=60)
        assert ends(ledger) == Counter(run_ids)


def busy(node: NodeProcess, worker: str) -> bool:
    return any(each["id"] == worker and each["active_jobs"] for each in node.get("/api/workers"))


@pytest.fixture
def own_postgres() -> Any:
    server = PostgresServer.start()
    yield server
    server.stop()


def test_restart_of_the_database_loses_and_repeats_nothing(tmp_path: Path, own_postgres: PostgresServer) -> None:
    ledger = tmp_path / "ledger"
    with running_node(tmp_path, "--database", own_postgres.create_database(), "--concurrency", "5") as node:
        create_job(node, name="work", command=ledger_command(ledger, 0.5))
        run_ids = submit(node, "work", 40)
        wait_until("some work", lambda: len(ends(ledger)) >= 8)
        own_postgres.restart()
        for run_id in run_ids:
            wait_for_answer(node)
            node.wait_for_run(run_id, "completed", timeout=60)
        assert starts(ledger) == Counter(run_ids)
        assert node.stop() == 0


def wait_for_answer(node: NodeProcess) -> None:
    wait_until("the node to be ready", lambda: httpx.get(f"{node.url}/readyz", timeout=30).status_code == 200)


def test_outage_of_the_database_is_told_and_survived(tmp_path: Path, own_postgres: PostgresServer) -> None:
    with running_node(tmp_path, "--database", own_postgres.create_database()) as node:
        create_job(node, name="echo", command="echo hello")
        own_postgres.stop(keep_data=True)
        answer = httpx.post(f"{node.url}/api/runs", json={"job": "echo"}, timeout=30)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.headers["Content-Type"] == "application/problem+json"
        own_postgres.restart()
        wait_for_answer(node)
        [run_id] = submit(node, "echo")
        assert node.wait_for_run(run_id, "completed")["output"] == "hello"
        assert "Traceback" not in node.log.read_text()


SHORT_LEASES = """
[node]
node_lease = "4s"
node_beat = "500ms"
lease_margin = "1.5s"
lease_grace = "500ms"
"""
TICKS = 'for i in $(seq 1 40); do printf "%s {} %s\\n" "$TRISCHED_NODE" "$(date +%s%N)" >> {}; sleep 0.1; done'


def test_commands_of_a_stopped_node_die_before_another_starts_them(tmp_path: Path, postgres_dsn: str) -> None:
    ledger = tmp_path / "ledger"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trisched.toml").write_text(SHORT_LEASES)
    arguments = ("--database", postgres_dsn, "--node-id")
    with running_node(tmp_path / "one", *arguments, "one") as one:
        create_job(one, name="ticks", command=TICKS.format("tick", ledger))
        [run_id] = submit(one, "ticks")
        wait_until("the first tick", lambda: entries(ledger))
        with running_node(tmp_path / "two", *arguments, "two") as two:
            one.process.send_signal(signal.SIGSTOP)
            run = two.wait_for_run(run_id, "completed", timeout=60)
            one.process.send_signal(signal.SIGCONT)
            assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "completed"]
            ticks = {name: [int(at) for node, _, at in entries(ledger) if node == name] for name in ("one", "two")}
            assert max(ticks["one"]) < min(ticks["two"])
            assert len(ticks["two"]) == 40
            wait_until("the first to be ready again", lambda: httpx.get(f"{one.url}/readyz").status_code == 200)
            # What the first says of the run now comes too late: it is noted, and changes nothing.
            assert two.get(f"/api/runs/{run_id}")["status"] == "completed"
