"""Secrets: found at the attempt, hidden in everything that is kept."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.job import JobSpec
from trisched.domain.request import parse_request
from trisched.worker.executors import Ended, Failure
from trisched.worker.secrets import Secrets, UnknownSecret, needed

TOKEN = {"TRISCHED_SECRET_TOKEN": "s3cr3t-7f", "TRISCHED_DATABASE": "postgresql://…", "PATH": "/bin"}


def test_a_secret_is_a_variable_or_a_file_read_at_each_attempt(tmp_path: Path) -> None:
    secrets = Secrets(TOKEN, tmp_path)
    (tmp_path / "KEY").write_text("one\n")
    (tmp_path / "TOKEN").write_text("the variable counts")
    assert secrets.resolve(["TOKEN", "KEY"]) == {"TOKEN": "s3cr3t-7f", "KEY": "one"}
    (tmp_path / "KEY").write_text("two\r\n")
    assert secrets.resolve(["KEY"]) == {"KEY": "two"}


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownSecret, match=r"the secret KEY is not known on this node: set TRISCHED_SECRET_KEY$"):
        Secrets(TOKEN).resolve(["KEY"])
    with pytest.raises(UnknownSecret, match=f"or put it into a file KEY in {tmp_path}"):
        Secrets(TOKEN, tmp_path).resolve(["KEY"])
    with pytest.raises(UnknownSecret, match="the secret KEY is not known"):
        Secrets({"TRISCHED_SECRET_KEY": ""}).resolve(["KEY"])


def test_a_secret_that_cannot_be_read_says_why_and_never_waits(tmp_path: Path) -> None:
    secrets = Secrets({}, tmp_path)
    os.mkfifo(tmp_path / "PIPE")
    (tmp_path / "DIRECTORY").mkdir()
    (tmp_path / "LARGE").write_bytes(b"x" * 65_537)
    (tmp_path / "BINARY").write_bytes(b"\xff\xfe")
    for name, reason in (("PIPE", "not a file"), ("DIRECTORY", "directory"), ("LARGE", "64 KiB"), ("BINARY", "UTF-8")):
        with pytest.raises(UnknownSecret, match=f"the secret {name} cannot be read: .*{reason}"):
            secrets.resolve([name])
    # What cannot be read hides nothing, and breaks nothing.
    assert secrets.to_hide() is secrets


def test_a_node_without_secrets_pays_nothing(tmp_path: Path) -> None:
    assert Secrets({"PATH": "/bin"}).to_hide() is None
    assert Secrets({}, tmp_path / "missing").to_hide() is not None


def test_all_secrets_of_the_node_are_hidden_whoever_needs_them(tmp_path: Path) -> None:
    (tmp_path / "KEY").write_text("hunter22")
    secrets = Secrets(TOKEN, tmp_path).to_hide()
    assert secrets is not None
    assert secrets.mask("a s3cr3t-7f b hunter22 c hunter2") == "a *** b *** c hunter2"


def test_a_secret_that_was_replaced_stays_hidden(tmp_path: Path) -> None:
    secrets = Secrets({}, tmp_path)
    (tmp_path / "KEY").write_text("old-value")
    secrets.resolve(["KEY"])
    (tmp_path / "KEY").write_text("new-value")
    secrets.resolve(["KEY"])
    assert secrets.mask("old-value new-value") == "*** ***"


def test_short_values_hide_nothing() -> None:
    secrets = Secrets({"TRISCHED_SECRET_A": "abc", "TRISCHED_SECRET_B": "    ", "TRISCHED_SECRET_C": "abcd"})
    assert secrets.mask("abc     abcd") == "abc     ***"


def test_each_line_of_a_secret_is_hidden() -> None:
    secrets = Secrets({"TRISCHED_SECRET_PEM": "-----BEGIN-----\nAAAABBBB\n\nxy\n-----END-----\n"})
    assert [secrets.mask(line) for line in ("-----BEGIN-----", "> AAAABBBB", "xy")] == ["***", "> ***", "xy"]
    assert "AAAA" not in secrets.mask("-----BEGIN-----\\nAAAABBBB\\n\\nxy")


def test_a_secret_is_hidden_as_addresses_and_json_write_it() -> None:
    secrets = Secrets({"TRISCHED_SECRET_A": 'a/b c"é'})
    for shown in ("a%2Fb%20c%22%C3%A9", "a/b%20c%22%C3%A9", 'a/b c\\"é', 'a/b c"é'):
        assert secrets.mask(f"<{shown}>") == "<***>"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("xxs3cr3t … (5.0 KiB of this line left out)", "xx*** … (5.0 KiB of this line left out)"),
        ("xxs3c … (5.0 KiB of this line left out)", "xxs3c … (5.0 KiB of this line left out)"),
        ("… r3t-7f and more", "… *** and more"),
        ("… nothing of it", "… nothing of it"),
    ],
)
def test_a_line_that_was_cut_inside_a_secret_shows_no_part_of_it(line: str, shown: str) -> None:
    assert Secrets(TOKEN).mask(line) == shown
    assert Secrets(TOKEN).mask_start("text s3cr3t") == "text ***"


def test_errors_and_results_are_hidden() -> None:
    secrets = Secrets(TOKEN)
    error = Failure("ValueError", "bad s3cr3t-7f", "Traceback\n  s3cr3t-7f\n")
    result = msgspec.json.encode({"s3cr3t-7f": ["x s3cr3t-7f", 5, None]}).decode()
    ended = secrets.mask_ended(Ended(completed=False, error=error, result=result, retry_after=5.0, fatal=True))
    assert ended.error == Failure("ValueError", "bad ***", "Traceback\n  ***\n")
    assert ended.result == '{"***":["x ***",5,null]}'
    assert (ended.retry_after, ended.fatal) == (5.0, True)


def test_a_secret_of_digits_does_not_break_the_numbers_of_a_result() -> None:
    secrets = Secrets({"TRISCHED_SECRET_PIN": "1234"})
    ended = secrets.mask_ended(Ended(completed=True, result='{"a":512345,"b":1234,"c":"x1234","d":true}'))
    assert ended.result == '{"a":512345,"b":"***","c":"x***","d":true}'


@given(st.text(min_size=4).filter(lambda text: len(text.strip()) >= 4 and "*" not in text), st.text(), st.text())
def test_no_whole_text_keeps_a_secret(secret: str, before: str, after: str) -> None:
    assert secret.strip() not in Secrets({"TRISCHED_SECRET_X": secret}).mask(before + secret + after)


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_a_result_without_secrets_stays_as_it_is(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    if "s3cr3t-7f" not in text:
        assert Secrets(TOKEN).mask_ended(Ended(completed=True, result=text)).result == text


def test_a_job_needs_what_its_texts_refer_to() -> None:
    shell = JobSpec(
        name="a", type="shell", command="true", env={"A": "${secret:ONE} ${secret:TWO}", "B": "${secret:ONE}"}
    )
    assert needed(shell) == ("ONE", "TWO")
    request = parse_request(
        {
            "url": "http://a/${secret:U}",
            "headers": {"X": "${secret:H}"},
            "json": {"a": ["x ${secret:J}"]},
        }
    )
    assert needed(JobSpec(name="a", type="http", request=request)) == ("U", "H", "J")
    assert needed(JobSpec(name="a", type="shell", command="true")) == ()
