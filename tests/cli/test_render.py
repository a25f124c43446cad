"""What is printed for people and for programs."""

from __future__ import annotations

import json
import logging

import pytest

from trisched.cli.log_lines import FieldsFormatter
from trisched.cli.render import Column, field, print_list, print_object, schedule_text, seconds

COLUMNS: tuple[Column, ...] = (("id", field("id")), ("text", field("text")), ("took", seconds("took")))


def test_a_table_through_a_pipe_has_whole_cells_and_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    print_list("table", [{"id": "run-1", "text": "x" * 500, "took": 0.25}, {"id": "dead", "text": None}], COLUMNS)
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["ID", "TEXT", "TOOK"]
    assert first.split() == ["run-1", "x" * 500, "250", "ms"]
    assert second.split() == ["dead", "-", "-"]


def test_text_from_outside_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_list("table", [{"id": "a\x1b[2Jb", "text": "[red]c[/red]\x07"}], COLUMNS)
    assert capsys.readouterr().out.splitlines()[1].split() == [r"a\x1b[2Jb", r"[red]c[/red]\x07", "-"]


def test_one_thing_is_shown_without_its_empty_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_object("table", {"id": "a", "text": "", "took": None}, COLUMNS)
    assert capsys.readouterr().out.split() == ["id", "a"]


def test_json_is_the_answer_itself(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"id": "ä", "more": [1, None]}]
    print_list("json", items, COLUMNS)
    assert json.loads(capsys.readouterr().out) == items


def test_ids_come_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_list("id", [{"id": "a"}, {"id": "b"}], COLUMNS)
    assert capsys.readouterr().out == "a\nb\n"


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (None, None),
        ("0 9 * * *", "0 9 * * *"),
        ({"cron": "0 9 * * *", "timezone": "UTC"}, "0 9 * * *"),
        ({"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}, "0 9 * * * Asia/Tokyo"),
        ({"every": 300.0, "timezone": "UTC"}, "every 5m"),
        ({"at": "2027-01-01T00:00:00Z", "timezone": "UTC"}, "2027-01-01T00:00:00Z"),
    ],
)
def test_a_schedule_fits_in_one_cell(schedule: object, text: str | None) -> None:
    assert schedule_text({"schedule": schedule}) == text


def test_a_log_line_carries_its_fields_and_stays_one_line() -> None:
    record = logging.makeLogRecord({"msg": "attempt %s", "args": ("failed",), "levelname": "INFO"})
    record.run_id, record.error = "run-1", "two\nlines"
    line = FieldsFormatter().format(record)
    assert line.endswith(r" INFO attempt failed run_id=run-1 error=two\nlines")
