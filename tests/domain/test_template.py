"""Templates: places are found when a job is saved, and filled with this run's values, once."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.template import (
    CannotFill,
    Filling,
    check_secrets,
    check_template,
    fill,
    fill_json,
    fill_secrets,
    parts_of,
    secrets_in,
)
from trisched.errors import Invalid

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def filling(secrets: dict[str, str] | None = None, **values: Any) -> Filling:
    known: dict[str, object] = {"run_id": "run-1", "attempt": 2, "slot": None, "parameters": {}, "results": {}}
    return Filling(values=known | values, secrets=secrets or {})


def test_places_are_filled_with_what_the_run_has() -> None:
    given = filling(parameters={"customer": 7, "note": "a b"}, slot="2026-01-01T00:00:00Z", secrets={"KEY": "s3cr3t"})
    text = "{{parameters.customer}}/{{ parameters.note }}/{{run_id}}/{{attempt}}/{{slot}}/${secret:KEY}"
    assert fill(text, given) == "7/a b/run-1/2/2026-01-01T00:00:00Z/s3cr3t"


def test_a_text_that_is_one_place_alone_keeps_the_type() -> None:
    given = filling(parameters={"ids": [1, 2], "n": 5, "none": None}, secrets={"KEY": "12345"})
    value = {"ids": "{{parameters.ids}}", "n": ["{{parameters.n}}", "n={{parameters.n}}"], "x": "{{parameters.none}}"}
    assert fill_json(value, given) == {"ids": [1, 2], "n": [5, "n=5"], "x": None}
    assert fill_json("{{parameters}}", given) == {"ids": [1, 2], "n": 5, "none": None}
    assert fill_json("${secret:KEY}", given) == "12345"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("results.extract", {"total": 3, "rows": [{"id": 9}]}),
        ("results.extract.total", 3),
        ("results.extract.rows.0.id", 9),
        ("results.a.b", "of the job a.b"),
        ("results.a.b.c", "deep"),
    ],
)
def test_parts_of_results_are_reached_by_dots_also_where_names_have_dots(path: str, found: object) -> None:
    results = {"extract": {"total": 3, "rows": [{"id": 9}]}, "a": {"b.c": "deep"}, "a.b": "of the job a.b"}
    assert fill_json(f"{{{{{path}}}}}", filling(results=results)) == found


@pytest.mark.parametrize(
    "text", ["{{parameters.missing}}", "{{results.extract}}", "{{parameters.a.b}}", "{{parameters.list.5}}"]
)
def test_a_place_without_a_value_is_named(text: str) -> None:
    with pytest.raises(CannotFill, match=text[2:-2]):
        fill(text, filling(parameters={"a": 1, "list": [1]}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{customer}}", "{{customer}} is not known; there are parameters.NAME, results.NAME, run_id, job, slot"),
        ("{{}}", "{{}} is not known"),
        ("{{run_id.x}}", "{{run_id.x}} is not known"),
        ("{{results}}", "{{results}} names nothing; write {{results.NAME}}"),
        ("{{parameters.}}", "{{parameters.}} names nothing"),
        ("a {{run_id", "has {{ without }}"),
        ("${secret:A B}", "${secret:A B} is not a name of a secret"),
        ("${secret:}", "${secret:} is not a name of a secret"),
        ("${secret:../x}", "is not a name of a secret"),
        ("${secret:A", "has ${secret: without }"),
    ],
)
def test_a_place_that_can_never_be_filled_is_refused_when_saved(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as error:
        check_template(text, "request.url")
    assert error.value.errors[0].path == "request.url"
    assert reason in error.value.errors[0].message


def test_braces_of_ordinary_json_are_no_places() -> None:
    text = '{"a":{"b":{"c":{{parameters.c}}}}} ${HOME} $x'
    assert fill(text, filling(parameters={"c": 1})) == '{"a":{"b":{"c":1}}} ${HOME} $x'


@given(JSON)
def test_what_is_filled_in_is_never_looked_at_again(value: object) -> None:
    sly = {"value": value, "text": "${secret:KEY} {{parameters.value}}"}
    given = filling(parameters=sly, secrets={"KEY": "{{parameters.text}}"})
    assert fill_json({"a": "{{parameters.value}}"}, given) == {"a": value}
    assert fill("{{parameters.text}}", given) == "${secret:KEY} {{parameters.value}}"
    assert fill("${secret:KEY}", given) == "{{parameters.text}}"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_escaped_stays_within_its_place(value: str) -> None:
    text = fill("https://a/{{parameters.x}}/z", filling(parameters={"x": value}), lambda part: quote(part, safe=""))
    before, inside, after = text.removeprefix("https://").split("/")
    assert (before, unquote(inside), after) == ("a", value, "z")


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parts = parts_of(text)
    except ValueError:
        return
    assert all(parts) or not text


def test_other_texts_have_secrets_alone() -> None:
    text = "{{x}} ${secret:A}:${secret:B_2}"
    check_secrets(text, "env.X")
    assert list(secrets_in(text)) == ["A", "B_2"]
    assert fill_secrets(text, {"A": "1", "B_2": "${secret:A}"}) == "{{x}} 1:${secret:A}"
    for broken in ("${secret:}", "${secret:a b}", "x ${secret:A"):
        with pytest.raises(Invalid):
            check_secrets(broken, "env.X")
