"""HTTP jobs against servers that behave, and against every kind that does not."""

from __future__ import annotations

import gc
import gzip
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from tests.worker.calls import NOW, make_call, texts
from tests.worker.http_server import Received, Server, answer, make_certificate, serving
from trisched.domain.target import parse_targets
from trisched.worker.executors import Call, Ended
from trisched.worker.executors.http import Http

LOOPBACK = ("127.0.0.0/8", "::1")


class StandingClock:
    def now_us(self) -> int:
        return NOW


@asynccontextmanager
async def http(*allow: str, connections: int = 10) -> AsyncIterator[Http]:
    executor = Http(parse_targets(list(allow), "allow"), clock=StandingClock(), connections=connections)
    try:
        yield executor
    finally:
        await executor.close()
        # What was left half-way would be noticed now.
        gc.collect()


async def ask(call: Call, *allow: str) -> Ended:
    async with http(*(allow or LOOPBACK)) as executor:
        with trio.fail_after(30):
            return await executor.execute(call)


async def fetch(url: str, **fields: Any) -> Ended:
    return await ask(make_call(request={"url": url, **fields}))


def result(ended: Ended) -> Any:
    assert ended.result is not None
    return msgspec.json.decode(ended.result)


def reason(ended: Ended) -> str:
    assert not ended.completed
    assert ended.error is not None
    return f"{ended.error.type}: {ended.error.message}"


async def test_a_request_carries_what_the_job_says_and_who_sends_it() -> None:
    async with serving(answer(201, b'{"id": 5}', Content_Type="application/json; charset=utf-8", ETag='"a"')) as server:
        call = make_call(
            request={
                "method": "PUT",
                "url": server.url("/orders/{{parameters.id}}?at={{slot}}"),
                "headers": {"Authorization": "Bearer ${secret:TOKEN}", "X-Note": "n {{attempt}}", "X-Wide": " é "},
                "json": {"id": "{{parameters.id}}", "text": "run {{run_id}}", "total": "{{results.sum}}", "one": 1},
            },
            parameters={"id": "a/b c?"},
            secrets={"TOKEN": "s3cr3t-7f"},
            results={"sum": {"n": 3}},
            slot_at=NOW,
        )
        ended = await ask(call)
    sent = server.received[0]
    assert (sent.method, sent.target) == ("PUT", "/orders/a%2Fb%20c%3F?at=2025-06-15T15%3A06%3A40Z")
    assert sent.json == {"id": "a/b c?", "text": "run run-1", "total": {"n": 3}, "one": 1}
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["host"] == f"127.0.0.1:{server.port}"
    assert sent.headers["authorization"] == "Bearer s3cr3t-7f"
    assert (sent.headers["x-note"], sent.headers["x-wide"]) == ("n 2", "é")
    assert sent.headers["idempotency-key"] == "key-1"
    ours = [sent.headers[f"x-trisched-{name}"] for name in ("run", "attempt", "token")]
    assert ours == ["run-1", "2", "7"]
    assert sent.headers["user-agent"].startswith("trisched/")
    assert ended.completed
    assert result(ended) == {
        "status": 201,
        "headers": {"content-type": "application/json; charset=utf-8", "content-length": "9", "etag": '"a"'},
        "json": {"id": 5},
        "truncated": False,
    }
    (line,) = texts(call.output.close(), "log")
    assert line.startswith(f"PUT http://127.0.0.1:{server.port}/orders/a%2Fb%20c%3F")
    assert "→ 201 Created (9 B) in " in line


async def test_a_text_body_and_no_body() -> None:
    async with serving() as server:
        await ask(make_call(request={"url": server.url(), "body": "a={{parameters.a}}"}, parameters={"a": None}))
        await fetch(server.url(), headers={"Accept": "text/csv"})
        await fetch(server.url(), method="POST")
    first, second, third = server.received
    assert (first.method, first.body, first.headers["content-type"]) == ("POST", b"a=", "text/plain; charset=utf-8")
    assert (second.method, second.headers["accept"], "content-length" in second.headers) == ("GET", "text/csv", False)
    assert third.headers["content-length"] == "0"


async def test_the_whole_address_may_come_from_a_parameter() -> None:
    async with serving() as server:
        call = make_call(request={"url": "{{parameters.url}}"}, parameters={"url": server.url("/a?b=c&d=e")})
        assert (await ask(call)).completed
        assert server.received[0].target == "/a?b=c&d=e"
    for bad in ("ftp://a/", "http://u:p@a/", "http://a/\r\nX: 1", "nonsense", 5):
        call = make_call(request={"url": "{{parameters.url}}"}, parameters={"url": bad})
        ended = await ask(call)
        assert ended.fatal
        assert reason(ended).startswith("Template: request.url ")


async def test_an_address_that_is_a_secret_is_not_shown() -> None:
    async with serving() as server:
        secret = server.url("/hook/abc").replace("http", "HTTP")
        call = make_call(request={"url": "${secret:HOOK}"}, secrets={"HOOK": secret})
        assert (await ask(call)).completed
        part = make_call(request={"url": server.url("/{{parameters.a}}/${secret:KEY}")}, parameters={"a": "x y"},
                         secrets={"KEY": "a/b"})  # fmt: skip
        assert (await ask(part)).completed
    assert [sent.target for sent in server.received] == ["/hook/abc", "/x%20y/a%2Fb"]
    assert texts(call.output.close())[0].startswith("GET *** → 200 OK ")
    assert texts(part.output.close())[0].startswith(f"GET {server.url('/x%20y/***')} → ")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
async def test_a_value_that_would_break_a_header_fails_the_attempt(value: str) -> None:
    async with serving() as server:
        request = {"url": server.url(), "headers": {"X-A": "{{parameters.a}}"}}
        ended = await ask(make_call(request=request, parameters={"a": value}))
    assert server.received == []
    assert ended.fatal
    assert reason(ended).startswith("Template: request.headers.X-A: ")


async def test_a_place_without_a_value_fails_the_attempt_for_good() -> None:
    ended = await ask(make_call(request={"url": "http://127.0.0.1:1/{{parameters.id}}"}))
    assert ended.fatal
    assert reason(ended) == "Template: {{parameters.id}} cannot be filled in: this run has no parameter 'id'"


async def test_no_content_is_a_success() -> None:
    async with serving(answer(204, Content_Length="")) as server:
        ended = await fetch(server.url())
    assert ended.completed
    assert result(ended) == {"status": 204, "headers": {}, "body": "", "truncated": False}


@pytest.mark.parametrize(("status", "fatal"), [(500, False), (503, False), (429, False), (408, False), (404, True)])
async def test_an_unexpected_status_fails_and_says_whether_to_try_again(status: int, fatal: bool) -> None:
    async with serving(answer(status, b"<b>boom</b>\nline", Content_Type="text/html")) as server:
        call = make_call(request={"url": server.url()})
        ended = await ask(call)
    assert reason(ended).startswith(f"HttpStatus: answered {status} ")
    assert reason(ended).endswith(", expected 2xx")
    assert (ended.fatal, ended.retry_after) == (fatal, None)
    assert result(ended)["body"] == "<b>boom</b>\nline"
    assert texts(call.output.close(), "log")[1:] == ["<b>boom</b>", "line"]


async def test_the_server_says_when_to_try_again() -> None:
    async with serving(
        answer(429, Retry_After="7"),
        answer(503, Retry_After="Sun, 15 Jun 2025 15:07:10 GMT"),
        answer(503, Retry_After="whenever"),
        answer(429, Retry_After="86400"),
    ) as server:
        waits = [(await fetch(server.url())).retry_after for _ in range(4)]
    assert waits == [7.0, 30.0, None, 3600.0]


async def test_an_expected_error_completes() -> None:
    async with serving(answer(404)) as server:
        assert (await fetch(server.url(), expect=[200, 404])).completed
        assert not (await fetch(server.url(), expect="2xx")).completed


async def endless(stream: trio.abc.Stream, _: Received) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await stream.send_all(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


async def a_gigabyte(stream: trio.abc.Stream, _: Received) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for __ in range(1024):
        await stream.send_all(b"y" * (1 << 20))


async def endless_headers(stream: trio.abc.Stream, _: Received) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\n")
    while True:
        await stream.send_all(b"X-More: " + b"z" * 1000 + b"\r\n")


async def one_endless_header(stream: trio.abc.Stream, _: Received) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nX-More: ")
    while True:
        await stream.send_all(b"z" * 1000)


async def silence(_: trio.abc.Stream, __: Received) -> None:
    await trio.sleep_forever()


async def half(stream: trio.abc.Stream, _: Received) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


async def nothing(stream: trio.abc.Stream, _: Received) -> None:
    await stream.aclose()


async def no_http(stream: trio.abc.Stream, _: Received) -> None:
    await stream.send_all(b"220 smtp.example ESMTP\r\n")


@pytest.mark.parametrize("handler", [endless, a_gigabyte])
async def test_a_body_without_end_is_cut_at_the_cap_and_the_connection_closed(handler: Any) -> None:
    async with serving(handler) as server:
        await fetch(server.url())
        tracemalloc.start()
        ended = await fetch(server.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        cut = await fetch(server.url(), max_response=10)
        none = await fetch(server.url(), max_response=0)
    assert ended.completed
    assert (len(result(ended)["body"]), result(ended)["truncated"]) == (65_536, True)
    assert (len(result(cut)["body"]), result(cut)["truncated"]) == (10, True)
    assert (result(none)["body"], result(none)["truncated"]) == ("", True)
    # The server's own buffers are in it: a megabyte, and a part of one on the way.
    assert peak < 8 << 20


@pytest.mark.parametrize("handler", [endless_headers, one_endless_header])
async def test_headers_without_end_fail(handler: Any) -> None:
    async with serving(handler) as server:
        ended = await fetch(server.url())
    assert reason(ended).startswith("RemoteProtocolError: ")
    assert not ended.fatal


async def test_a_silent_server_is_left_after_the_read_timeout() -> None:
    async with serving(silence) as server:
        ended = await fetch(server.url(), read_timeout=0.1)
    assert reason(ended) == "ReadTimeout: the server was silent for too long"
    assert not ended.fatal


async def test_a_cancelled_attempt_closes_its_connection() -> None:
    gone = trio.Event()

    async def wait_for_end(stream: trio.abc.Stream, _: Received) -> None:
        assert await stream.receive_some(1) == b""
        gone.set()

    async with serving(wait_for_end) as server, http(*LOOPBACK) as executor:
        with trio.move_on_after(0.2) as scope:
            await executor.execute(make_call(request={"url": server.url()}))
        assert scope.cancelled_caught
        with trio.fail_after(10):
            await gone.wait()


@pytest.mark.parametrize("handler", [half, nothing, no_http])
async def test_a_broken_answer_fails_and_is_tried_again(handler: Any) -> None:
    async with serving(handler) as server:
        ended = await fetch(server.url())
    assert "ProtocolError: " in reason(ended)
    assert len(reason(ended)) > len("RemoteProtocolError: ")
    assert not ended.fatal


async def test_nobody_there_fails_with_the_reason() -> None:
    async with serving() as server:
        port = server.port
    ended = await fetch(f"http://127.0.0.1:{port}/")
    assert reason(ended).startswith("ConnectError: ")
    assert "refused" in reason(ended)
    assert not ended.fatal


async def test_a_name_without_address_fails_with_the_reason() -> None:
    ended = await fetch("http://nobody.invalid/")
    assert reason(ended).startswith("NameUnknown: the name nobody.invalid cannot be resolved: ")
    assert not ended.fatal


async def test_a_certificate_that_nobody_vouches_for_fails(tmp_path: Path) -> None:
    async with serving(tls=make_certificate(tmp_path)) as server:
        ended = await ask(make_call(request={"url": server.url()}), "localhost")
    assert reason(ended).startswith("TlsError: no secure connection: ")
    assert "self" in reason(ended)
    assert server.received == []
    assert not ended.fatal


async def test_a_server_without_tls_fails_where_tls_is_wanted() -> None:
    async with serving() as server:
        ended = await fetch(server.url().replace("http:", "https:"), connect_timeout=2)
    assert reason(ended).split(":")[0] in ("TlsError", "ConnectTimeout", "ConnectError")


async def test_tls_goes_by_the_name_though_an_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert ssl.get_default_verify_paths().cafile == str(certificate)
    async with serving(tls=certificate) as server:
        ended = await ask(make_call(request={"url": server.url()}), *LOOPBACK)
        other = await ask(make_call(request={"url": f"https://127.0.0.1:{server.port}/"}), *LOOPBACK)
    assert ended.completed
    assert server.received[0].headers["host"] == f"localhost:{server.port}"
    assert reason(other).startswith("TlsError: ")


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1 is loopback"),
        ("127.1", "127.1 is 127.0.0.1, which is loopback"),
        ("2130706433", "2130706433 is 127.0.0.1, which is loopback"),
        ("0x7f.1", "0x7f.1 is 127.0.0.1, which is loopback"),
        ("localhost", "localhost is 127.0.0.1, which is loopback"),
        ("localhost.", "localhost. is 127.0.0.1, which is loopback"),
        ("a.localhost", "a.localhost is 127.0.0.1, which is loopback"),
        ("[::1]", "::1 is loopback"),
        ("[::ffff:127.0.0.1]", "is loopback"),
        ("[::ffff:7f00:1]", "is loopback"),
        ("0.0.0.0", "0.0.0.0 is unspecified"),
        ("0", "0 is 0.0.0.0, which is unspecified"),
        ("[::]", ":: is unspecified"),
        ("169.254.169.254", "169.254.169.254 is link-local"),
        ("192.168.0.1", "192.168.0.1 is private"),
    ],
)
async def test_what_is_not_public_is_not_connected_to(host: str, shown: str) -> None:
    async with serving(host="127.0.0.1") as server:
        ended = await ask(make_call(request={"url": f"http://{host}:{server.port}/"}), "203.0.113.1")
    assert server.connections == 0
    assert ended.fatal
    assert reason(ended).startswith("TargetNotAllowed: target not allowed: ")
    assert shown in reason(ended)
    assert reason(ended).endswith("; allow it with [http] allow")


async def test_a_name_is_judged_by_the_address_it_leads_to_and_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "rebind.example" or options.get("flags"):
            return plain(host, port, *args, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with serving() as server:
        url = f"http://rebind.example:{server.port}/"
        refused = await ask(make_call(request={"url": url}), "203.0.113.1")
        assert server.connections == 0
        by_address = await ask(make_call(request={"url": url}), "127.0.0.1")
        by_name = await ask(make_call(request={"url": url}), f"*.example:{server.port}")
    assert "rebind.example is 127.0.0.1, which is loopback" in reason(refused)
    assert by_address.completed
    assert by_name.completed
    assert asked == ["rebind.example"] * 3
    assert server.received[0].headers["host"] == f"rebind.example:{server.port}"


async def test_an_address_in_a_dubious_form_is_no_address() -> None:
    async with serving() as server:
        ended = await ask(make_call(request={"url": f"http://0177.0.0.1:{server.port}/"}), "203.0.113.1")
    assert server.connections == 0
    assert ended.fatal


async def test_an_allowed_target_is_allowed_at_its_port_alone() -> None:
    async with serving() as one, serving() as other:
        allow = f"127.0.0.1:{one.port}"
        assert (await ask(make_call(request={"url": one.url()}), allow)).completed
        assert (await ask(make_call(request={"url": other.url()}), allow)).fatal
    assert other.connections == 0


async def test_a_redirect_to_what_is_not_allowed_is_not_followed() -> None:
    async with serving() as inner, serving(answer(302, Location=inner.url("/secret"))) as outer:
        ended = await ask(make_call(request={"url": outer.url()}), f"127.0.0.1:{outer.port}")
    assert len(outer.received) == 1
    assert inner.connections == 0
    assert ended.fatal
    assert reason(ended).startswith("TargetNotAllowed: ")


async def test_redirects_without_end_are_followed_five_times() -> None:
    async with serving(answer(301, Location="/again")) as server:
        ended = await fetch(server.url())
        assert len(server.received) == 6
        await fetch(server.url(), max_redirects=1)
        assert len(server.received) == 8
        none = await fetch(server.url(), max_redirects=0)
        assert len(server.received) == 9
    assert reason(ended) == "TooManyRedirects: more than 5 redirects"
    assert reason(none).startswith("HttpStatus: answered 301 ")


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", b""),
        (302, "POST", "GET", b""),
        (303, "POST", "GET", b""),
        (303, "PUT", "GET", b""),
        (303, "HEAD", "HEAD", b""),
        (301, "PUT", "PUT", b'{"a":1}'),
        (307, "POST", "POST", b'{"a":1}'),
        (308, "PATCH", "PATCH", b'{"a":1}'),
    ],
)
async def test_a_redirect_keeps_the_method_and_the_body_as_its_status_says(
    status: int, method: str, then: str, body: bytes
) -> None:
    fields: dict[str, Any] = {} if method == "HEAD" else {"json": {"a": 1}}
    async with serving(answer(status, Location="../b"), answer()) as server:
        ended = await fetch(server.url("/x/a"), method=method, headers={"Authorization": "x"}, **fields)
    assert ended.completed
    last = server.received[-1]
    assert (last.method, last.target, last.body) == (then, "/b", body)
    assert ("content-type" in last.headers) == bool(body)
    assert last.headers["authorization"] == "x"
    assert last.headers["idempotency-key"] == "key-1"


async def _redirect_with_secrets(first: Server, **fields: Any) -> Ended:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "${secret:KEY}", "Accept": "text/csv"}
    request = {"url": first.url(), "headers": headers, **fields}
    return await ask(make_call(request=request, secrets={"KEY": "s3cr3t-7f"}))


async def test_a_redirect_to_another_host_takes_no_credentials_along() -> None:
    async with serving() as other, serving(answer(307, Location=f"http://localhost:{other.port}/")) as first:
        ended = await _redirect_with_secrets(first, json={"a": 1})
    assert ended.completed
    assert first.received[0].headers["x-api-key"] == "s3cr3t-7f"
    sent = other.received[0]
    assert not {"authorization", "cookie", "x-api-key"} & sent.headers.keys()
    assert "s3cr3t-7f" not in str(sent)
    assert (sent.headers["accept"], sent.headers["idempotency-key"]) == ("text/csv", "key-1")
    assert sent.headers["host"] == f"localhost:{other.port}"
    assert sent.json == {"a": 1}


async def test_a_body_with_secrets_does_not_go_on_to_another_host() -> None:
    async with serving() as other, serving() as first:
        first.replies = [answer(308, Location=other.url()), answer(303, Location=other.url())]
        refused = await _redirect_with_secrets(first, json={"password": "${secret:KEY}"})
        assert other.received == []
        followed = await _redirect_with_secrets(first, body="${secret:KEY}")
    assert refused.fatal
    assert reason(refused).startswith("RedirectRefused: ")
    assert followed.completed
    assert (other.received[0].method, other.received[0].body) == ("GET", b"")


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://a/", "http://[::1", "javascript:1"])
async def test_a_redirect_to_something_else_is_refused(location: str) -> None:
    async with serving(answer(302, Location=location)) as server:
        ended = await fetch(server.url())
    assert ended.fatal
    assert reason(ended).startswith("RedirectRefused: ")


async def test_what_is_packed_unasked_is_unpacked_up_to_the_cap() -> None:
    bomb = gzip.compress(b"z" * (200 << 20))
    async with serving(
        answer(200, gzip.compress(b"hello"), Content_Encoding="gzip"),
        answer(200, bomb, Content_Encoding="gzip"),
        answer(200, b"no gzip at all", Content_Encoding="gzip"),
    ) as server:
        small = await fetch(server.url())
        tracemalloc.start()
        large = await fetch(server.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        broken = await fetch(server.url())
    assert result(small)["body"] == "hello"
    assert (len(result(large)["body"]), result(large)["truncated"]) == (65_536, True)
    assert peak < 4 << 20
    assert result(broken)["body"] == "no gzip at all"
    assert server.received[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        ("application/json", b'{"a": [1, null]}', {"json": {"a": [1, None]}}),
        ("application/problem+json", b'"x"', {"json": "x"}),
        ("application/json", b"{broken", {"body": "{broken"}),
        ("application/json", b'{"a":1e999}', {"body": '{"a":1e999}'}),
        ("application/json", b'{"a":123456789012345678901234567890}', None),
        ("application/json", b"", {"body": ""}),
        ("application/json", b"[" * 5000 + b"]" * 5000, {"body": "[" * 5000 + "]" * 5000}),
        ("text/plain; charset=iso-8859-1", b"\xe9", {"body": "é"}),
        ("text/plain; charset=nonsense", "é".encode(), {"body": "é"}),
        ("text/plain; charset=utf-7", b"+2AA-", None),
        ("text/plain; charset=hex", b"zz", {"body": "zz"}),
        ("application/octet-stream", b"\xff\0", {"body": "\ufffd\0"}),
    ],
)
async def test_any_body_becomes_a_result(kind: str, body: bytes, kept: dict[str, Any] | None) -> None:
    async with serving(answer(200, body, Content_Type=kind)) as server:
        found = result(await fetch(server.url()))
    assert kept is None or {name: found[name] for name in ("json", "body") if name in found} == kept


async def test_connections_are_used_again_and_bounded() -> None:
    async with serving() as server, http(*LOOPBACK, connections=2) as executor:
        for _ in range(5):
            assert (await executor.execute(make_call(request={"url": server.url()}))).completed
        assert server.connections == 1
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(executor.execute, make_call(request={"url": server.url()}))
        assert len(server.received) == 25
        assert server.connections <= 2


async def test_answers_of_one_attempt_set_no_cookies_for_another() -> None:
    async with serving(answer(200, Set_Cookie="a=b; Path=/")) as server, http(*LOOPBACK) as executor:
        for _ in range(2):
            await executor.execute(make_call(request={"url": server.url()}))
    assert "cookie" not in server.received[1].headers


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as proxy, serving() as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url())
        monkeypatch.setenv("http_proxy", proxy.url())
        assert (await fetch(server.url())).completed
    assert proxy.connections == 0
