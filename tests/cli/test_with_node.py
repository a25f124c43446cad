"""The command line with a real node: what each command prints, changes and exits with."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.node import Node, trisched, wait_until

TASKS = """
import time
import trio
import trisched

app = trisched.App()


@app.job(retries=0)
async def double(number: int) -> int:
    return 2 * number


@app.job(retries=0)
async def explode() -> None:
    raise RuntimeError("boom")


@app.job(retries=0)
async def sleep(seconds: float = 600.0) -> str:
    await trio.sleep(seconds)
    return "slept"


@app.job(schedule="0 9 * * *", timezone="Europe/Berlin", tags=["daily"], description="Every morning.")
async def report() -> None: ...
"""
FILE = """
[jobs.talk]
type = "shell"
command = "for n in 1 2 3; do echo line $n; done; echo oops >&2"

[jobs.slow-talk]
type = "shell"
command = "echo begin; sleep 1; echo end"
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests that leave nothing behind which another could meet."""
    directory = tmp_path_factory.mktemp("node")
    (directory / "shop.py").write_text(TASKS)
    (directory / "trisched.toml").write_text(FILE)
    with Node(directory, "shop:app", "--tags", "gpu,large") as node:
        yield node
        assert node.stop() == 0


def submitted(node: Node, *arguments: str) -> str:
    answer = node.command("submit", *arguments, "-o", "id")
    assert answer.code == 0, answer.stderr
    return answer.stdout.strip()


def status_of(node: Node, run: str) -> str:
    return str(node.command("runs", "show", run, "-o", "json").json["status"])


def test_run_says_node_store_address_and_how_to_stop(node: Node) -> None:
    card = json.loads((node.directory / ".trisched/node.json").read_text())
    assert node.process.pid == card["pid"]
    lines = node.stdout.splitlines()
    assert lines[0].startswith("trisched ")
    assert lines[1] == f"Node   {card['node_id']}"
    assert "trisched.db" in lines[2]
    assert lines[3] == f"Web    {card['url']}"
    assert lines[4:6] == [f"Worker {card['node_id']} registered", "Listening for jobs..."]
    assert lines[6].startswith("Ctrl-C to stop")


def test_status_tells_the_state_of_the_cluster(node: Node) -> None:
    answer = node.command("status", "-o", "json")
    assert answer.code == 0, answer.stderr
    state = answer.json
    assert state["state"] == "healthy"
    assert state["nodes"] == [state["node"]]
    assert state["jobs"] == 6
    table = node.command("status")
    assert table.code == 0
    assert ["state", "healthy"] in [line.split() for line in table.stdout.splitlines()]
    assert "\x1b" not in table.stdout


def test_a_node_is_found_by_address_too(node: Node, tmp_path: Path) -> None:
    url = node.command("status", "-o", "json").json["url"]
    assert trisched("status", "--url", url, cwd=tmp_path).code == 0
    assert trisched("status", cwd=tmp_path, TRISCHED_URL=url).code == 0
    assert trisched("status", cwd=tmp_path, TRISCHED_DATA_DIR=str(node.directory / ".trisched")).code == 0


def test_jobs_are_listed_and_filtered(node: Node) -> None:
    everything = node.command("jobs", "list", "-o", "json").json
    assert {job["name"] for job in everything} == {"double", "explode", "sleep", "report", "talk", "slow-talk"}
    tagged = node.command("jobs", "list", "--tag", "daily")
    assert tagged.stdout.splitlines()[0].split()[:3] == ["NAME", "TYPE", "SCHEDULE"]
    assert len(tagged.stdout.splitlines()) == 2
    assert "0 9 * * * Europe/Berlin" in tagged.stdout
    ids = node.command("jobs", "list", "--schedule", "cron", "-o", "id").stdout.split()
    assert ids == [job["id"] for job in everything if job["name"] == "report"]
    limited = node.command("jobs", "list", "--limit", "2", TRISCHED_OUTPUT="id")
    assert len(limited.stdout.split()) == 2
    assert limited.stderr == "4 more: raise --limit, or narrow the list down\n"


def test_a_job_is_shown_by_name_and_by_id(node: Node) -> None:
    by_name = node.command("jobs", "show", "report", "-o", "json").json
    by_id = node.command("jobs", "show", by_name["id"])
    assert by_id.code == 0
    assert "Every morning." in by_id.stdout


def test_what_does_not_exist_exits_3(node: Node) -> None:
    for command in (["jobs", "show", "nope"], ["runs", "show", "nope"], ["runs", "cancel", "nope"], ["logs", "nope"]):
        answer = node.command(*command)
        assert (answer.code, answer.stdout) == (3, ""), command
        assert answer.stderr == f"Error: no {'job' if command[0] == 'jobs' else 'run'} 'nope'\n"


def test_submit_prints_the_id_on_stdout_alone(node: Node) -> None:
    answer = node.command("submit", "double", "number=1")
    assert answer.code == 0
    assert answer.stdout.startswith("run-")
    assert answer.stdout.count("\n") == 1
    assert answer.stderr == "queued\n"


def test_submit_and_wait_shows_the_result(node: Node) -> None:
    answer = node.command("submit", "double", "number=21", "--wait", "-o", "json")
    assert answer.code == 0, answer.stderr
    assert answer.json["status"] == "completed"
    assert answer.json["result"] == 42


def test_submit_and_wait_exits_1_when_the_run_fails(node: Node) -> None:
    answer = node.command("submit", "explode", "--wait")
    assert answer.code == 1
    assert "boom" in answer.stdout
    last = answer.stderr.splitlines()[-1]
    assert last.startswith("Error: run-")
    assert " is dead" in last


def test_submit_and_wait_gives_up_in_time(node: Node) -> None:
    answer = node.command("submit", "sleep", "--wait", "--timeout", "200ms")
    assert answer.code == 1
    run = answer.stderr.split()[0]
    assert answer.stderr.splitlines()[-1].startswith(f"Error: {run} is still ")
    assert node.command("runs", "cancel", run).code == 0


def test_the_same_key_gives_the_same_run(node: Node) -> None:
    first = submitted(node, "double", "number=5", "--key", "five")
    again = node.command("submit", "double", "number=5", "--key", "five")
    assert again.stdout.strip() == first
    assert "was there already" in again.stderr


def test_submit_refuses_what_is_wrong_with_exit_2(node: Node) -> None:
    answer = node.command("submit", "double", "number=5", "--delay", "soon")
    assert answer.code == 2
    assert answer.stderr.startswith("Error: delay: 'soon' is not a duration")
    assert node.command("submit", "double", "number").code == 2
    assert node.command("submit", "double", "--timeout", "1s").code == 2
    assert node.command("submit", "nope").code == 3


def test_many_runs_are_submitted_from_lines(node: Node) -> None:
    lines = "".join(f'{{"number": {number}}}\n' for number in range(2500))
    answer = node.command("submit", "double", "--file", "-", "--key", "import", "--delay", "1h", stdin=lines)
    assert answer.code == 0, answer.stderr
    runs = answer.stdout.split()
    assert len(set(runs)) == 2500
    assert answer.stderr == "2,500 runs submitted\n"
    again = node.command("submit", "double", "--file", "-", "--key", "import", "--delay", "1h", stdin=lines)
    assert again.stdout.split() == runs
    assert again.stderr == "2,500 runs submitted, 2,500 of them before\n"
    listed = node.command("runs", "list", "--status", "pending", "--limit", "2400", "-o", "id")
    assert listed.stdout.split() == [*reversed(runs)][:2400]
    assert listed.stderr == "there are more: raise --limit, or narrow the list down\n"


def test_a_broken_line_submits_nothing(node: Node) -> None:
    answer = node.command("submit", "double", "--file", "-", "--queue", "fresh", stdin='{"number": 1}\n{"number": \n')
    assert answer.code == 2
    assert "<stdin>:2: is not JSON" in answer.stderr
    assert node.command("runs", "list", "--queue", "fresh", "-o", "json").json == []


def test_a_job_is_triggered_and_collapses(node: Node) -> None:
    first = node.command("jobs", "trigger", "sleep", "-o", "json").json
    assert first["created"]
    again = node.command("jobs", "trigger", "sleep", "-o", "json").json
    assert (again["run_id"], again["created"]) == (first["run_id"], False)
    assert node.command("runs", "cancel", first["run_id"]).code == 0
    gone = node.command("submit", "double", "number=1", "--wait", "-o", "id")
    assert gone.code == 0


def test_a_disabled_job_refuses_runs_with_exit_4(node: Node) -> None:
    off = node.command("jobs", "disable", "report")
    assert (off.code, off.stdout, off.stderr) == (0, "", "report is disabled\n")
    assert node.command("jobs", "trigger", "report").code == 4
    on = node.command("jobs", "enable", "report")
    assert on.stderr.startswith("report is enabled, next run 20")


def test_runs_are_shown_with_their_attempts(node: Node) -> None:
    run = node.command("submit", "explode", "--wait", "-o", "id").stdout.strip()
    table = node.command("runs", "show", run).stdout
    assert "RuntimeError" in table or "boom" in table
    assert any(line.split()[:2] == ["1", "failed"] for line in table.splitlines())
    assert node.command("runs", "list", "--status", "failed", "--job", "explode", "-o", "id").stdout.split()[0] == run


def test_a_dead_run_is_retried_and_a_waiting_one_cancelled(node: Node) -> None:
    dead = node.command("submit", "explode", "--wait", "-o", "id").stdout.strip()
    retried = node.command("runs", "retry", dead, "-o", "json")
    assert retried.code == 0
    assert retried.json["run_id"] == dead
    waiting = submitted(node, "double", "number=1", "--delay", "1h")
    assert node.command("runs", "cancel", waiting, "-o", "json").json["status"] == "cancelled"
    again = node.command("runs", "cancel", waiting)
    assert again.code == 4
    assert again.stderr.startswith(f"Error: {waiting} is cancelled already")


def test_logs_print_the_output_of_a_run(node: Node) -> None:
    run = node.command("submit", "talk", "--wait", "-o", "id").stdout.strip()
    answer = node.command("logs", run)
    assert answer.code == 0
    lines = answer.stdout.splitlines()
    assert [line for line in lines if line != "oops"] == ["line 1", "line 2", "line 3"]
    assert "oops" in lines
    first = json.loads(node.command("logs", run, "-o", "json").stdout.splitlines()[0])
    assert {"number", "time", "stream", "text"} <= first.keys()
    assert node.command("logs", run, "--attempt", "7").code == 3


def test_logs_follow_a_run_to_its_end(node: Node) -> None:
    run = submitted(node, "slow-talk")
    answer = node.command("logs", "-f", run)
    assert (answer.code, answer.stdout.splitlines()) == (0, ["begin", "end"])


def test_nodes_and_queues_are_listed(node: Node) -> None:
    [worker] = node.command("nodes", "list", "-o", "json").json
    assert worker["tags"] == ["gpu", "large"]
    assert worker["leader"]
    assert worker["id"] in node.command("nodes", "list").stdout
    assert "default" in node.command("queues", "list", "-o", "id").stdout.split()


def test_the_first_signal_lets_a_run_end_and_the_node_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    with Node(tmp_path, "shop.py:app", "--drain-timeout", "60s") as node:
        run = submitted(node, "sleep", "seconds=1")
        wait_until(lambda: status_of(node, run) == "running")
        assert node.stop() == 0
        assert not (tmp_path / ".trisched/node.json").exists()
        assert "Traceback" not in node.stderr
    with Node(tmp_path, "shop.py:app") as node:
        assert status_of(node, run) == "completed"


def test_a_second_signal_stops_at_once_and_costs_no_attempt(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    with Node(tmp_path, "shop.py:app", "--drain-timeout", "1h") as node:
        run = submitted(node, "sleep")
        wait_until(lambda: status_of(node, run) == "running")
        node.process.send_signal(signal.SIGINT)
        # The first signal must have been heard before the second is sent, for two at once are one.
        wait_until(lambda: not node.command("nodes", "list", "-o", "json").json[0]["leader"])
        assert node.stop() == 0
        assert "Traceback" not in node.stderr
    with Node(tmp_path, "shop.py:app", "--no-worker") as node:
        again = node.command("runs", "show", run, "-o", "json").json
        assert again["status"] == "queued"
        assert [attempt["outcome"] for attempt in again["attempts"]] in ([], ["released"])


def test_a_second_node_on_the_same_file_is_refused_with_the_pid_of_the_first(node: Node) -> None:
    answer = node.command("run", "shop:app", "--port", "0")
    assert answer.code == 78
    assert f"in use by the node with pid {node.process.pid}" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_task_that_the_program_does_not_have_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "trisched.toml").write_text("[jobs.lost]\ntype = 'python'\nfunction = 'shop.gone'\n")
    answer = trisched("run", "--port", "0", cwd=tmp_path)
    assert answer.code == 78
    assert answer.stderr.splitlines()[-1].startswith("Error: trisched.toml:3: jobs.lost.function: is not a registered")


def test_a_database_that_does_not_answer_exits_5(tmp_path: Path) -> None:
    answer = trisched("run", "--port", "0", "--database", "postgresql://nobody@127.0.0.1:1/x", cwd=tmp_path)
    assert answer.code == 5
    assert answer.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in answer.stderr


def test_a_port_that_is_taken_exits_78(node: Node, tmp_path: Path) -> None:
    port = node.command("status", "-o", "json").json["url"].rpartition(":")[2]
    answer = trisched("run", "--port", port, cwd=tmp_path)
    assert answer.code == 78
    assert port in answer.stderr
    assert "Traceback" not in answer.stderr


def test_what_init_writes_runs(tmp_path: Path) -> None:
    assert trisched("init", cwd=tmp_path).code == 0
    with Node(tmp_path, "tasks:app") as node:
        answer = node.command("submit", "greet", "name=World", "--wait", "-o", "json")
        assert answer.json["result"] == "Hello, World! (attempt 1)"
        assert node.command("submit", "monday-report", "--wait", "-o", "json").json["result"] == (
            "report for team@example.org"
        )
        assert node.stop() == 0
