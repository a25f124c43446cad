"""Text, numbers and JSON from outside: kept exactly as sent, or refused with the path and the reason."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.text import (
    NESTING_LIMIT,
    PARAMETERS_LIMIT,
    encode_json,
    parse_choice,
    parse_number,
    parse_text,
    parse_texts,
)
from trisched.errors import Invalid, TooLarge

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=50)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def _refusal(parse: Any, *args: object, **more: object) -> str:
    with pytest.raises(Invalid) as caught:
        parse(*args, **more)
    [error] = caught.value.errors
    return str(error)


@given(TEXT.filter(str.strip))
def test_text_is_kept_exactly_as_sent(text: str) -> None:
    assert parse_text(text, "name") is text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "name: must not be empty"),
        ("   \t\n", "name: must not be empty"),
        ("a\0b", "name: must not contain a NUL character"),
        ("a\ud800", "name: must not contain a lone surrogate"),
        ("x" * 201, "name: is 201 characters long; at most 200"),
        ("x" * 10_000, "name: is 10,000 characters long; at most 200"),
        (5, "name: must be a string"),
        (None, "name: must be a string"),
        (["a"], "name: must be a string"),
        (b"a", "name: must be a string"),
    ],
)
def test_text_that_cannot_be_kept_is_refused(value: object, reason: str) -> None:
    assert _refusal(parse_text, value, "name") == reason


@pytest.mark.parametrize("value", ["../x", "emoji 📈", "right\u200fto left", "x" * 200, " padded "])
def test_odd_but_harmless_text_is_kept(value: str) -> None:
    assert parse_text(value, "name") == value


def test_text_may_be_allowed_to_be_empty() -> None:
    assert parse_text("", "description", least=0) == ""
    assert parse_text("  ", "description", least=0) == "  "


def test_lists_keep_their_order_and_each_entry_once() -> None:
    assert parse_texts(["b", "a", "b"], "tags") == ("b", "a")
    assert parse_texts((), "tags") == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a", "tags: must be a list of strings"),
        ({"a": 1}, "tags: must be a list of strings"),
        (["a", ""], "tags[1]: must not be empty"),
        (["a", "b", 3], "tags[2]: must be a string"),
        (["x"] * 51, "tags: has 51 entries; at most 50"),
    ],
)
def test_lists_are_refused_at_the_entry(value: object, reason: str) -> None:
    assert _refusal(parse_texts, value, "tags") == reason


@given(JSON)
def test_json_comes_back_as_it_was(value: object) -> None:
    assert msgspec.json.decode(encode_json(value, "parameters")) == value


@given(JSON)
def test_what_is_stored_is_json_for_everybody(value: object) -> None:
    assert json.loads(encode_json(value, "parameters")) == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [lambda x: x, lambda x: {"a": x}, lambda x: [1, {"b": (2, [x])}]])
def test_numbers_that_json_cannot_carry_are_refused(number: float, shape: Any) -> None:
    assert "JSON cannot carry" in _refusal(encode_json, shape(number), "parameters")


@pytest.mark.parametrize("value", [{"a": object()}, {"a": "\ud800"}, {(1, 2): 3}, {"a": lambda: 1}])
def test_what_is_not_json_is_refused(value: object) -> None:
    assert _refusal(encode_json, value, "parameters").startswith("parameters: is not JSON: ")


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64, 2**70, -(2**70)])
def test_great_numbers_stay_exact(number: int) -> None:
    assert encode_json({"a": number}, "parameters") == f'{{"a":{number}}}'


def _nested(levels: int) -> object:
    value: object = 1
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def test_nesting_has_a_limit_of_its_own() -> None:
    encode_json(_nested(NESTING_LIMIT), "parameters")
    for levels in (NESTING_LIMIT + 1, 990, 10_000):
        assert "nested too deeply" in _refusal(encode_json, _nested(levels), "parameters")


def test_what_is_wide_is_not_taken_for_deep() -> None:
    encode_json([{"a": [1]}] * 1000, "parameters")
    encode_json({"text": "[{" * 1000}, "parameters")


def test_what_is_accepted_can_be_read_from_deep_inside_a_program() -> None:
    text = encode_json(_nested(NESTING_LIMIT), "parameters")

    def read(frames: int) -> object:
        return read(frames - 1) if frames else msgspec.json.decode(text)

    assert read(400) == _nested(NESTING_LIMIT)


def test_json_beyond_its_limit_is_too_large() -> None:
    room = PARAMETERS_LIMIT - len('{"a":""}')
    encode_json({"a": "x" * room}, "parameters")
    with pytest.raises(TooLarge, match="parameters: 1,048,577 bytes"):
        encode_json({"a": "x" * (room + 1)}, "parameters")
    with pytest.raises(TooLarge, match="at most 10"):
        encode_json("x" * 9, "result", limit=10)


@pytest.mark.parametrize("value", [0, 5, 10])
def test_whole_numbers_within_bounds(value: int) -> None:
    assert parse_number(value, "retries", least=0, most=10) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "must be within 0–10"),
        (11, "must be within 0–10"),
        (10**30, "must be within 0–10"),
        (True, "must be a whole number"),
        (1.0, "must be a whole number"),
        ("1", "must be a whole number"),
        (None, "must be a whole number"),
    ],
)
def test_other_numbers_are_refused(value: object, reason: str) -> None:
    assert _refusal(parse_number, value, "retries", least=0, most=10) == f"retries: {reason}"


@pytest.mark.parametrize("value", ["c", "A", "", None, 1, ["a"], {"a": 1}])
def test_a_word_that_is_no_choice_is_refused_with_all_choices(value: object) -> None:
    assert _refusal(parse_choice, value, "kind", ("a", "b")) == "kind: must be one of a, b"
