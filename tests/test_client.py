"""The client against a server that answers as it is told: what is sent, and what each answer becomes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from trisched.client import Client, JsonObject, discover, failure_of
from trisched.errors import (
    Conflict,
    FieldError,
    Invalid,
    NotFound,
    RunFailed,
    Stale,
    StoreFull,
    StoreUnavailable,
    TooLarge,
    TrischedError,
    Unreadable,
    WaitTimeout,
)


@attrs.define
class Server:
    """Gives its answers one after the other, the last one for ever, and remembers the requests."""

    url: str
    answers: list[tuple[int, object]] = attrs.Factory(list)
    requests: list[tuple[str, str, object]] = attrs.Factory(list)

    def answer(self, method: str, path: str, body: object) -> tuple[int, object]:
        self.requests.append((method, path, body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = told.answer(self.command, self.path, body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        told = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield told
        http.shutdown()
        thread.join()


def run_of(status: str, **fields: object) -> tuple[int, JsonObject]:
    return 200, {"id": "run-1", "status": status, **fields}


async def test_each_verb_asks_its_route(server: Server) -> None:
    server.answers = [(200, {"runs": [], "jobs": []})]
    async with Client(server.url) as client:
        await client.jobs(tag="a b", limit=None)
        await client.job("night/ly ?")
        await client.create_job(name="x", type="shell")
        await client.trigger("x", priority="high", key=None)
        await client.submit("x", {"a": 1}, delay="5s")
        await client.submit_batch([{"job": "x"}])
        await client.runs(status="dead")
        await client.output("run-1", after=7)
        await client.cancel("run-1")
        await client.retry("run-1")
        await client.preview("0 9 * * *", tz="UTC", count=3)
    assert server.requests == [
        ("GET", "/api/jobs?tag=a+b", None),
        ("GET", "/api/jobs/night%2Fly%20%3F", None),
        ("POST", "/api/jobs", {"name": "x", "type": "shell"}),
        ("POST", "/api/jobs/x/trigger", {"priority": "high"}),
        ("POST", "/api/runs", {"job": "x", "parameters": {"a": 1}, "delay": "5s"}),
        ("POST", "/api/runs/batch", {"runs": [{"job": "x"}]}),
        ("GET", "/api/runs?status=dead", None),
        ("GET", "/api/runs/run-1/output?after=7", None),
        ("POST", "/api/runs/run-1/cancel", {}),
        ("POST", "/api/runs/run-1/retry", {}),
        ("GET", "/api/schedules/preview?cron=0+9+%2A+%2A+%2A&tz=UTC&count=3", None),
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Unreadable), (409, Conflict), (412, Stale), (413, TooLarge), (503, StoreUnavailable), (507, StoreFull)],
)
async def test_an_error_comes_back_as_the_error_that_was_raised(
    server: Server, status: int, kind: type[TrischedError]
) -> None:
    server.answers = [(status, {"title": "t", "detail": "what is wrong"})]
    async with Client(server.url) as client:
        with pytest.raises(kind, match=r"^what is wrong$"):
            await client.job("x")


async def test_invalid_input_comes_back_with_its_paths(server: Server) -> None:
    server.answers = [(422, {"detail": "d", "errors": [{"path": "schedule.cron", "message": "is empty"}]})]
    async with Client(server.url) as client:
        with pytest.raises(Invalid) as caught:
            await client.create_job(name="x")
    assert caught.value.errors == (FieldError("schedule.cron", "is empty"),)


async def test_what_is_not_there_is_named(server: Server) -> None:
    server.answers = [(404, {"detail": "no job 'x'"}), (404, b"<html>")]
    async with Client(server.url) as client:
        with pytest.raises(NotFound) as caught:
            await client.job("x")
        assert (caught.value.kind, caught.value.name) == ("job", "x")
        with pytest.raises(NotFound, match="no page '/api/jobs/x'"):
            await client.job("x")


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, [1]), (500, b"oops")])
async def test_an_answer_that_makes_no_sense_is_told_as_such(server: Server, answer: tuple[int, object]) -> None:
    server.answers = [answer]
    async with Client(server.url) as client:
        with pytest.raises(TrischedError, match=r"is that a trisched node\?|answered 500"):
            await client.system()


async def test_no_node_means_an_error_that_says_how_to_start_one(free_port: int) -> None:
    async with Client(f"http://127.0.0.1:{free_port}") as client:
        with pytest.raises(StoreUnavailable, match=f"no answer from http://127.0.0.1:{free_port} .*`trisched run`"):
            await client.system()


async def test_a_proxy_of_the_environment_is_not_asked_for_this_host(
    server: Server, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.answers = [(200, {"state": "healthy"})]
    async with Client(server.url) as client:
        assert (await client.system())["state"] == "healthy"


async def test_wait_returns_when_the_run_completed(server: Server) -> None:
    server.answers = [run_of("queued"), run_of("running"), run_of("completed", result=5)]
    seen: list[str] = []
    async with Client(server.url) as client:
        run = await client.wait("run-1", watch=lambda run: seen.append(run["status"]))
    assert run["result"] == 5
    assert seen == ["queued", "running", "completed"]


@pytest.mark.parametrize("status", ["dead", "cancelled", "skipped", "held"])
async def test_wait_raises_when_the_run_ended_otherwise(server: Server, status: str) -> None:
    server.answers = [run_of(status, reason=None, attempts=[{"error": "boom"}])]
    async with Client(server.url) as client:
        with pytest.raises(RunFailed, match=f"run-1 is {status}: boom"):
            await client.wait("run-1")


async def test_wait_gives_up_at_its_time(server: Server) -> None:
    server.answers = [run_of("running")]
    async with Client(server.url) as client:
        with pytest.raises(WaitTimeout, match="run-1 is still running"):
            await client.wait("run-1", "100ms")


def test_the_reason_of_a_run_comes_before_the_error_of_an_attempt() -> None:
    assert failure_of({"reason": "overlap", "attempts": [{"error": "boom"}]}) == "overlap"
    assert failure_of({"attempts": [{"error": "first"}, {"error": "last"}, {"error": None}]}) == "last"
    assert failure_of({}) is None


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not an address; write it like http://"):
        Client(url)


def test_the_address_is_the_variable_else_the_node_of_the_directory_else_the_default(tmp_path: Path) -> None:
    assert discover(tmp_path, {}) == "http://127.0.0.1:8000"
    (tmp_path / "node.json").write_text('{"url": "http://127.0.0.1:9"}')
    assert discover(tmp_path, {}) == "http://127.0.0.1:9"
    assert discover(tmp_path, {"TRISCHED_URL": "http://127.0.0.1:7"}) == "http://127.0.0.1:7"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"url": null}', '{"pid": 1}', "\xff"])
def test_a_node_file_that_says_nothing_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "node.json").write_bytes(content.encode("latin-1"))
    assert discover(tmp_path, {}, "http://127.0.0.1:5") == "http://127.0.0.1:5"


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        return http.server_port
