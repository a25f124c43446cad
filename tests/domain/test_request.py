"""Requests: what people write becomes one value and comes back the same; nothing can smuggle a second message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import instant
from trisched.domain.request import (
    METHODS,
    Request,
    breaks_header,
    parse_request,
    request_fields,
    retry_after,
    why_no_url,
    will_not_improve,
)
from trisched.errors import Invalid, TooLarge

URL = "https://example.com/hook"
TEXT = st.text(st.characters(exclude_characters="\0{$", exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
STATUS = st.integers(100, 599) | st.sampled_from(["2xx", "5xx", "200-204", "404"])
ANY_REQUEST = st.fixed_dictionaries(
    {"url": st.sampled_from([URL, "http://a:80/{{parameters.id}}?x=${secret:KEY}", "{{parameters.url}}"])},
    optional={
        "method": st.sampled_from([*METHODS, "post"]),
        "headers": st.dictionaries(
            st.from_regex(r"X-[A-W][a-z]{1,8}", fullmatch=True), st.sampled_from(["a", "é", "{{slot}}"])
        ),
        "expect": STATUS | st.lists(STATUS, min_size=1, max_size=4),
        "connect_timeout": st.floats(0.001, 1000) | st.just("5s"),
        "read_timeout": st.floats(0.001, 1000) | st.just("5m"),
        "max_redirects": st.integers(0, 20),
        "max_response": st.integers(0, 65_536),
    },
)


def errors(value: object) -> dict[str, str]:
    with pytest.raises(Invalid) as found:
        parse_request(value)
    return {error.path: error.message for error in found.value.errors}


def test_defaults() -> None:
    request = parse_request({"url": URL})
    assert request == Request(url=URL, method="GET", expect=("2xx",), connect_timeout=10, read_timeout=60)
    assert (request.max_redirects, request.max_response) == (5, 65_536)
    assert parse_request({"url": URL, "json": {}}).method == "POST"
    assert parse_request({"url": URL, "body": "x", "method": "put"}).method == "PUT"


@given(ANY_REQUEST, st.just({}) | st.builds(lambda v: {"json": v}, JSON) | st.builds(lambda v: {"body": v}, TEXT))
def test_fields_come_back_as_the_same_request(fields: dict[str, Any], content: dict[str, Any]) -> None:
    request = parse_request({**fields, **content})
    assert parse_request(request_fields(request)) == request
    if "json" in content:
        assert request_fields(request)["json"] == content["json"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"headers": {"X-A": "a\r\nX-Evil: 1"}}, "request.headers.X-A"),
        ({"headers": {"X-A": "a\nb"}}, "request.headers.X-A"),
        ({"headers": {"X-A": "a\0b"}}, "request.headers.X-A"),
        ({"headers": {"X-A": "a\x7fb"}}, "request.headers.X-A"),
        ({"headers": {"X-A": 1}}, "request.headers.X-A"),
        ({"headers": {"a b": "1"}}, "request.headers.a b"),
        ({"headers": {"": "1"}}, "request.headers."),
        ({"headers": {"a:b": "1"}}, "request.headers.a:b"),
        ({"headers": {"é": "1"}}, "request.headers.é"),
        ({"headers": {"Host": "evil"}}, "request.headers.Host"),
        ({"headers": {"content-length": "0"}}, "request.headers.content-length"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "request.headers.Transfer-Encoding"),
        ({"headers": {"Proxy-Authorization": "x"}}, "request.headers.Proxy-Authorization"),
        ({"headers": {"Idempotency-Key": "x"}}, "request.headers.Idempotency-Key"),
        ({"headers": {"X-Trisched-Run": "x"}}, "request.headers.X-Trisched-Run"),
        ({"headers": {"A": "1", "a": "2"}}, "request.headers.a"),
        ({"headers": {"A": "{{nope}}"}}, "request.headers.A"),
        ({"headers": ["A"]}, "request.headers"),
        ({"headers": {f"X-{n}": "" for n in range(101)}}, "request.headers"),
        ({"url": "https://example.com/\nX"}, "request.url"),
        ({"url": "https://example.com/a b"}, "request.url"),
        ({"url": "https://user:password@example.com/"}, "request.url"),
        ({"url": "https://user@example.com/"}, "request.url"),
        ({"url": "https://good.example\\@evil.example/"}, "request.url"),
        ({"url": "ftp://example.com/"}, "request.url"),
        ({"url": "file:///etc/passwd"}, "request.url"),
        ({"url": "gopher://example.com/"}, "request.url"),
        ({"url": "//example.com/"}, "request.url"),
        ({"url": "https:///path"}, "request.url"),
        ({"url": "https://example.com:99999/"}, "request.url"),
        ({"url": "https://[::1/"}, "request.url"),
        ({"url": "{{parameters.scheme}}://example.com"}, "request.url"),
        ({"url": "https://example.com/{{customer}}"}, "request.url"),
        ({"url": ""}, "request.url"),
        ({"url": None}, "request.url"),
        ({"url": "https://a/" + "x" * 9000}, "request.url"),
        ({"method": "BREW"}, "request.method"),
        ({"method": "CONNECT"}, "request.method"),
        ({"method": "GET / HTTP/1.1\r\n"}, "request.method"),
        ({"method": 1}, "request.method"),
        ({"json": {"a": ["{{nope}}"]}}, "request.json.a[0]"),
        ({"json": 1, "body": "1"}, "request.body"),
        ({"body": 1}, "request.body"),
        ({"body": "{{nope}}"}, "request.body"),
        ({"expect": 99}, "request.expect"),
        ({"expect": True}, "request.expect"),
        ({"expect": "6xx"}, "request.expect"),
        ({"expect": "300-200"}, "request.expect"),
        ({"expect": []}, "request.expect"),
        ({"expect": [200, "ok"]}, "request.expect"),
        ({"connect_timeout": 0}, "request.connect_timeout"),
        ({"read_timeout": "soon"}, "request.read_timeout"),
        ({"max_redirects": 21}, "request.max_redirects"),
        ({"max_response": -1}, "request.max_response"),
        ({"timeout": 5}, "request.timeout"),
    ],
)
def test_a_broken_rule_is_named_with_its_path(fields: dict[str, Any], path: str) -> None:
    assert list(errors({"url": URL, **fields})) == [path]


def test_every_mistake_is_told_at_once_and_no_address_is_repeated() -> None:
    found = errors({"url": "https://me:hunter2@a/", "method": "X", "headers": {"a b": "", "B": "\n"}})
    assert set(found) == {"request.url", "request.method", "request.headers.a b", "request.headers.B"}
    assert "hunter2" not in str(found)


def test_a_request_is_an_object() -> None:
    assert list(errors("https://example.com")) == ["request"]
    with pytest.raises(TooLarge):
        parse_request({"url": URL, "json": "x" * (1 << 20)})


@pytest.mark.parametrize(
    "url",
    ["http://{{parameters.host}}:{{parameters.port}}/x", "https://a/{{ parameters.x }}?y={{slot}}", "${secret:HOOK}"],
)
def test_places_may_stand_wherever_an_address_has_parts(url: str) -> None:
    assert parse_request({"url": url}).url == url


@given(st.text())
def test_no_address_that_is_sound_can_break_a_request_line(url: str) -> None:
    if why_no_url(url) is None:
        assert url.startswith(("http", "HTTP", "Http")) or url.lower().startswith("http")
        assert not any(char <= " " or char == "\x7f" for char in url)


@given(st.text())
def test_no_header_that_is_sound_can_end_itself(text: str) -> None:
    if not breaks_header(text):
        assert not {"\r", "\n", "\0"} & set(text)


@pytest.mark.parametrize(
    ("expect", "yes", "no"),
    [
        ("2xx", [200, 204, 299], [199, 300]),
        (404, [404], [403, 200]),
        (["2xx", 404], [201, 404], [400]),
        ("200-204", [200, 204], [205]),
    ],
)
def test_expected_statuses(expect: object, yes: list[int], no: list[int]) -> None:
    request = parse_request({"url": URL, "expect": expect})
    assert [request.expects(status) for status in yes + no] == [True] * len(yes) + [False] * len(no)


def test_an_expected_redirect_is_the_answer() -> None:
    assert parse_request({"url": URL}).follows(302)
    assert not parse_request({"url": URL, "expect": 302}).follows(302)
    assert not parse_request({"url": URL, "max_redirects": 0}).follows(302)
    assert not parse_request({"url": URL}).follows(304)


def test_only_refusals_of_the_request_itself_are_final() -> None:
    final = {status for status in range(100, 600) if will_not_improve(status)}
    assert {400, 401, 403, 404, 409, 410, 422} <= final
    assert not final & {408, 425, 429, 500, 502, 503, 504, 200, 302}


NOW = instant("2026-11-18T08:00:00+00:00")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("99999999999999999999", 3600.0),
        ("Wed, 18 Nov 2026 08:00:30 GMT", 30.0),
        ("Wed, 18 Nov 2026 08:00:30 -0000", 30.0),
        ("Wed, 18 Nov 2026 07:00:00 GMT", 0.0),
        ("Thu, 19 Nov 2026 08:00:00 GMT", 3600.0),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_an_hour_at_most(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text())
def test_no_retry_after_breaks_anything(value: str) -> None:
    wait = retry_after(value, NOW)
    assert wait is None or 0 <= wait <= 3600
