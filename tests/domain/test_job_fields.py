"""Job fields: what people write becomes one value and comes back the same; every mistake is named at once."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import instant
from trisched.domain.backoff import Backoff
from trisched.domain.job import DELIVERIES, MISFIRES, OVERLAPS, JobSpec
from trisched.domain.job_fields import (
    COMMAND_LIMIT,
    FIELD_NAMES,
    NOT_YET,
    job_fields,
    parse_job,
    parse_parameters,
    parse_priority,
)
from trisched.domain.run import Priority
from trisched.errors import Invalid, TooLarge

NOW = instant("2026-11-18T08:00:00+00:00")
SHELL: dict[str, Any] = {"name": "report", "type": "shell", "command": "true"}
HTTP: dict[str, Any] = {"name": "ping", "type": "http", "request": {"url": "https://example.com/"}}
PYTHON: dict[str, Any] = {"name": "report", "type": "python", "function": "reports.daily"}

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    str.strip
)
LISTS = st.lists(WORDS, max_size=3)
ANY_JOB = st.fixed_dictionaries(
    {"name": WORDS},
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
        "parameters": st.dictionaries(WORDS, st.none() | st.integers(-(2**60), 2**60) | WORDS, max_size=3),
        "tags": LISTS,
        "requires": LISTS,
        "queue": WORDS,
        "priority": st.sampled_from([*Priority, "medium"]),
        "timeout": st.floats(0.001, 2_592_000) | st.sampled_from(["1h", "90s", "1h30m"]),
        "kill_after": st.floats(0, 86_400),
        "retries": st.integers(0, 1000),
        "backoff": st.sampled_from(["fixed", "exponential"])
        | st.fixed_dictionaries({}, optional={"base": st.floats(0, 100), "max": st.floats(100, 1000)}),
        "misfire": st.sampled_from(MISFIRES),
        "max_catch_up": st.integers(1, 10_000),
        "overlap": st.sampled_from(OVERLAPS),
        "delivery": st.sampled_from(DELIVERIES[:2]),
        "enabled": st.booleans(),
        "description": st.just("") | WORDS,
        "schedule": st.none()
        | st.sampled_from(
            [
                "*/5 * * * *",
                "H H * * *",
                "every 90s",
                "2027-01-31T09:00:00Z",
                {"cron": "30 2 * * *", "timezone": "America/New_York", "jitter": "1m", "dst_fold": "both"},
                {"every": 0.1, "start": "2027-01-01T00:00:00Z", "end": "2028-01-01T00:00:00Z"},
            ]
        ),
    },
)
SHELL_PART = st.fixed_dictionaries(
    {"type": st.just("shell"), "command": WORDS | st.lists(WORDS, min_size=1, max_size=3)},
    optional={
        "cwd": st.none() | WORDS,
        "env": st.dictionaries(WORDS.filter(lambda name: "=" not in name and not name.startswith("TRISCHED_")), WORDS),
    },
)
PYTHON_PART = st.fixed_dictionaries(
    {"type": st.just("python"), "function": st.sampled_from(["a", "a.b", "pkg.mod:func", "ünï.cödé"])},
    optional={"mode": st.sampled_from(["async", "thread", None])},
)
JOBS = st.builds(lambda job, part: job | part, ANY_JOB, SHELL_PART | PYTHON_PART)


def errors(fields: dict[str, Any], **more: Any) -> dict[str, str]:
    """What is wrong with these fields, by path."""
    with pytest.raises(Invalid) as refused:
        parse_job(fields, now=NOW, **more)
    return {error.path: error.message for error in refused.value.errors}


@given(JOBS)
def test_a_job_comes_back_the_same_from_its_own_fields(fields: dict[str, Any]) -> None:
    spec = parse_job(fields, now=NOW)
    assert parse_job(job_fields(spec), now=NOW) == spec


@given(JOBS)
def test_a_job_comes_back_the_same_from_storage_years_later(fields: dict[str, Any]) -> None:
    spec = parse_job(fields, now=NOW)
    stored = msgspec.json.decode(msgspec.json.encode(job_fields(spec)))
    assert parse_job(stored, now=NOW + 10**15, stored=True) == spec


@given(JOBS)
def test_what_was_given_is_what_is_kept(fields: dict[str, Any]) -> None:
    spec = parse_job(fields, now=NOW)
    for name in ("name", "type", "queue", "retries", "misfire", "overlap", "delivery", "enabled", "description"):
        if name in fields:
            assert getattr(spec, name) == fields[name]
    assert list(spec.tags) == list(dict.fromkeys(fields.get("tags", [])))


def test_defaults_are_those_of_the_contract() -> None:
    spec = parse_job(SHELL, now=NOW)
    assert spec == JobSpec(name="report", type="shell", command="true")
    assert (spec.priority, spec.queue, spec.timezone) == (Priority.NORMAL, "default", "UTC")
    assert (spec.timeout, spec.kill_after, spec.retries, spec.backoff) == (3600, 10, 3, Backoff())
    assert (spec.misfire, spec.overlap, spec.delivery, spec.max_catch_up) == ("skip", "skip", "retry", 100)
    assert (spec.enabled, spec.schedule, spec.mode, spec.parameters) == (True, None, None, "{}")


def test_every_field_of_a_job_can_be_given() -> None:
    assert {*FIELD_NAMES} == {field.name for field in attrs.fields(JobSpec)}


@pytest.mark.parametrize(
    ("base", "name"),
    [(PYTHON, "command"), (PYTHON, "mode"), (SHELL, "function"), (SHELL, "cwd"), (SHELL, "schedule")],
)
def test_null_takes_an_optional_field_back_to_its_default(base: dict[str, Any], name: str) -> None:
    assert parse_job({**base, name: None}, now=NOW) == parse_job(base, now=NOW)


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"name": ""}, "name", "must not be empty"),
        ({"name": None}, "name", "must be a string"),
        ({"name": "a\0"}, "name", "must not contain a NUL character"),
        ({"name": "x" * 201}, "name", "is 201 characters long; at most 200"),
        ({"type": "java"}, "type", "must be one of python, shell, http"),
        ({"command": ""}, "command", "must not be empty"),
        ({"command": []}, "command", "must be a string for /bin/sh, or a list of arguments to execute"),
        ({"command": 5}, "command", "must be a string for /bin/sh, or a list of arguments to execute"),
        ({"command": ["", "a"]}, "command[0]", "must not be empty"),
        ({"command": ["a", 1]}, "command[1]", "must be a string"),
        ({"command": "a\0b"}, "command", "must not contain a NUL character"),
        (
            {"command": "x" * (COMMAND_LIMIT + 1)},
            "command",
            f"is {COMMAND_LIMIT + 1:,} characters long; at most {COMMAND_LIMIT:,}",
        ),
        ({"cwd": ""}, "cwd", "must not be empty"),
        ({"env": []}, "env", "must be an object of strings"),
        ({"env": {"A": 1}}, "env.A", "must be a string"),
        ({"env": {"A=B": "1"}}, "env.A=B", "is not a name of an environment variable"),
        ({"env": {"": "1"}}, "env.", "is not a name of an environment variable"),
        ({"env": {"TRISCHED_RUN": "1"}}, "env.TRISCHED_RUN", "names that begin with TRISCHED_ are set by trisched"),
        ({"parameters": []}, "parameters", "must be a JSON object"),
        ({"parameters": None}, "parameters", "must be a JSON object"),
        ({"tags": "a"}, "tags", "must be a list of strings"),
        ({"tags": ["a", ""]}, "tags[1]", "must not be empty"),
        ({"requires": [1]}, "requires[0]", "must be a string"),
        ({"queue": ""}, "queue", "must not be empty"),
        ({"queue": "x" * 101}, "queue", "is 101 characters long; at most 100"),
        ({"priority": "urgent"}, "priority", "must be one of critical, high, normal, low"),
        ({"priority": 1}, "priority", "must be one of critical, high, normal, low"),
        ({"depends_on": "a"}, "depends_on", "must be a list of strings"),
        ({"timeout": -1}, "timeout", None),
        ({"timeout": 0}, "timeout", None),
        ({"timeout": "abc"}, "timeout", None),
        ({"timeout": 1e12}, "timeout", None),
        ({"timeout": None}, "timeout", None),
        ({"kill_after": -1}, "kill_after", None),
        ({"retries": -1}, "retries", "must be within 0–1000"),
        ({"retries": 10**9}, "retries", "must be within 0–1000"),
        ({"retries": True}, "retries", "must be a whole number"),
        ({"backoff": "none"}, "backoff", "must be one of exponential, fixed"),
        ({"backoff": {"factor": 0}}, "backoff.factor", "must be a number within 1–100"),
        ({"misfire": "run"}, "misfire", "must be one of skip, catch_up_one, catch_up_all"),
        ({"max_catch_up": 0}, "max_catch_up", "must be within 1–10000"),
        ({"overlap": "drop"}, "overlap", "must be one of skip, queue, allow, cancel_running"),
        ({"delivery": "once"}, "delivery", "must be one of retry, hold, transactional"),
        ({"enabled": "yes"}, "enabled", "must be true or false"),
        ({"enabled": 1}, "enabled", "must be true or false"),
        ({"description": 1}, "description", "must be a string"),
        ({"timezone": "Mars/Olympus"}, "timezone", None),
        ({"schedule": "61 * * * *"}, "schedule", None),
        ({"schedule": {"cron": "0 0 31 2 *"}}, "schedule.cron", None),
        ({"schedule": {"every": "5m", "jitterr": 1}}, "schedule.jitterr", None),
        ({"schedule": 5}, "schedule", None),
    ],
)
def test_a_broken_rule_is_named_with_its_path(changes: dict[str, Any], path: str, reason: str | None) -> None:
    found = errors({**SHELL, **changes})
    assert list(found) == [path]
    assert reason is None or found[path] == reason


@pytest.mark.parametrize(
    ("function", "ok"),
    [
        ("reports.daily", True),
        ("pkg.mod:func", True),
        ("f", True),
        ("", False),
        ("a b", False),
        ("a..b", False),
        (".a", False),
        ("a.", False),
        ("os.system('x')", False),
        ("1a", False),
        (5, False),
    ],
)
def test_a_function_is_a_dotted_name(function: object, ok: bool) -> None:
    fields = {**PYTHON, "function": function}
    if ok:
        assert parse_job(fields, now=NOW).function == function
    else:
        assert list(errors(fields)) == ["function"]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, {"name": "is required", "type": "is required"}),
        ({"name": "a", "type": "shell"}, {"command": "is required for a job of type shell"}),
        ({"name": "a", "type": "python", "function": None}, {"function": "is required for a job of type python"}),
        ({**SHELL, "function": "a"}, {"function": "belongs to jobs of type python, this one is shell"}),
        ({**SHELL, "mode": "async"}, {"mode": "belongs to jobs of type python, this one is shell"}),
        ({**PYTHON, "command": "a"}, {"command": "belongs to jobs of type shell, this one is python"}),
        ({**PYTHON, "cwd": "/"}, {"cwd": "belongs to jobs of type shell, this one is python"}),
        ({**PYTHON, "env": {"A": "1"}}, {"env": "belongs to jobs of type shell, this one is python"}),
        ({**HTTP, "env": {"A": "1"}}, {"env": "belongs to jobs of type shell, this one is http"}),
        ({**SHELL, "request": {"url": "http://a"}}, {"request": "belongs to jobs of type http, this one is shell"}),
        ({"name": "a", "type": "http"}, {"request": "is required for a job of type http"}),
    ],
)
def test_fields_that_are_needed_and_fields_of_another_type(fields: dict[str, Any], found: dict[str, str]) -> None:
    assert errors(fields) == found


def test_an_empty_environment_is_no_environment() -> None:
    assert parse_job({**PYTHON, "env": {}}, now=NOW).env == {}


@pytest.mark.parametrize(
    ("name", "near"),
    [("comand", "command"), ("retry", "retries"), ("time_out", "timeout"), ("overlaps", "overlap"), ("xyzzy", None)],
)
def test_an_unknown_field_is_refused_by_name_with_the_likely_one(name: str, near: str | None) -> None:
    message = errors({**SHELL, name: 1})[name]
    assert message == "is not a field of a job" + (f"; did you mean {near}?" if near else "")


@pytest.mark.parametrize("name", NOT_YET)
def test_a_field_that_is_not_acted_on_yet_is_refused(name: str) -> None:
    assert errors({**SHELL, name: 1}) == {name: "is not available in this version; remove it"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({**PYTHON, "mode": "process"}, "mode"),
        ({**SHELL, "delivery": "transactional"}, "delivery"),
    ],
)
def test_a_value_that_is_not_acted_on_yet_is_refused(fields: dict[str, Any], path: str) -> None:
    found = errors(fields)
    assert list(found) == [path]
    assert "not available in this version" in found[path]


def test_every_mistake_is_told_at_once() -> None:
    fields = {**SHELL, "name": "", "retries": -1, "nme": 1, "schedule": "never", "timezone": "Mars"}
    assert set(errors(fields)) == {"name", "retries", "nme", "schedule", "timezone"}


def test_paths_begin_where_the_job_stands() -> None:
    found = errors({"name": "a", "type": "shell", "x": 1, "schedule": "bad"}, path="jobs[2]")
    assert set(found) == {"jobs[2].command", "jobs[2].x", "jobs[2].schedule"}


def test_a_job_that_waits_for_others_has_no_schedule_of_its_own() -> None:
    fields = {**SHELL, "depends_on": ["a"], "schedule": "@daily"}
    assert list(errors(fields)) == ["schedule"]
    assert parse_job({**SHELL, "depends_on": [], "schedule": "@daily"}, now=NOW).schedule is not None


def test_a_moment_in_the_past_is_refused_when_new_and_kept_when_stored() -> None:
    fields = {**SHELL, "schedule": "2020-01-01T00:00:00Z"}
    assert list(errors(fields)) == ["schedule"]
    assert parse_job(fields, now=NOW, stored=True).schedule is not None


def test_the_zone_of_the_job_is_that_of_its_schedule() -> None:
    spec = parse_job({**SHELL, "timezone": "Europe/Berlin", "schedule": "0 9 * * *"}, now=NOW)
    assert spec.schedule is not None
    assert spec.schedule.timezone == "Europe/Berlin"


def test_a_renamed_job_keeps_the_times_drawn_from_its_first_name() -> None:
    first = parse_job({**SHELL, "schedule": "H H * * *"}, now=NOW)
    renamed = parse_job({**job_fields(first), "name": "other"}, now=NOW)
    assert renamed.schedule == first.schedule


def test_medium_is_another_word_for_normal() -> None:
    assert parse_priority("medium", "priority") is Priority.NORMAL
    assert [parse_priority(word.value, "priority") for word in Priority] == list(Priority)


def test_parameters_have_a_limit() -> None:
    with pytest.raises(TooLarge):
        parse_parameters({"a": "x" * 1024 * 1024})
    with pytest.raises(Invalid, match="nested"):
        parse_parameters({"a": _deep(10_000)})


def _deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value
