"""Output is kept as whole lines, within its limit, whatever a job prints."""

from __future__ import annotations

import threading
import tracemalloc

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.calls import NOW, make_output, texts
from trisched.domain.progress import Progress
from trisched.worker.lines import Stream, size_text
from trisched.worker.output import Line, OutputBuffer


def printed(*pieces: bytes, stream: Stream = "stdout", limit: int = 1 << 20) -> list[str]:
    output = make_output(limit)
    for piece in pieces:
        output.write(stream, piece)
    return texts(output.close())


def test_lines_carry_number_time_and_stream() -> None:
    output = make_output()
    output.write("stdout", b"one\n")
    output.write("stderr", b"two\n")
    assert output.take() == [Line(1, NOW, "stdout", "one"), Line(2, NOW, "stderr", "two")]
    output.write("log", b"three\n")
    assert output.take() == [Line(3, NOW, "log", "three")]
    assert output.take() == []
    assert output.close() == []


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"no newline at the end"], ["no newline at the end"]),
        ([b"a\n\nb\n"], ["a", "", "b"]),
        ([b"windows\r\nends\r\n"], ["windows", "ends"]),
        ([b"windows\r", b"\nends\r", b"\n"], ["windows", "ends"]),
        ([b"10%\r50%\r100%\n"], ["100%"]),
        ([b"10%\r", b"50%", b"\r100%"], ["100%"]),
        ([b"\rspinner\r"], ["spinner"]),
        ([b"zero \x00 byte\n"], ["zero ␀ byte"]),
        ([b"bad \xff\xfe bytes\n"], ["bad \ufffd\ufffd bytes"]),
        (["ü".encode()[:1], "ü".encode()[1:] + b"\n"], ["ü"]),
        ([b"half a character \xc3"], ["half a character \ufffd"]),
        ([b"unicode \xe2\x80\xa8 separators\x0b stay\n"], ["unicode \u2028 separators\x0b stay"]),
    ],
)
def test_bytes_become_lines(pieces: list[bytes], lines: list[str]) -> None:
    assert printed(*pieces) == lines


@given(
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\xc3", b"\xbc", b"\x00", b"x" * 70_000]), max_size=30),
    st.data(),
)
def test_lines_do_not_depend_on_how_the_bytes_arrive(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert printed(*pieces) == printed(whole)


def test_streams_do_not_tear_each_others_lines() -> None:
    output = make_output()
    output.write("stdout", b"out ")
    output.write("stderr", b"err ")
    output.write("stdout", b"put\n")
    output.write("stderr", b"or\n")
    assert [(line.stream, line.text) for line in output.close()] == [
        ("stdout", "out put"),
        ("stderr", "err or"),
    ]


def test_an_endless_line_is_cut_with_a_mark() -> None:
    output = make_output()
    for _ in range(100):
        output.write("stdout", b"x" * (1 << 20))
    output.write("stdout", b"\nnext\n")
    long, after = output.close()
    assert long.text == "x" * 65536 + " … (99.9 MiB of this line left out)"
    assert after.text == "next"


def test_a_cut_through_a_character_shows_no_broken_character() -> None:
    (line,) = printed(b"x" + "ü".encode() * 40_000 + b"\n")
    assert "\ufffd" not in line
    assert line.startswith("xü")
    assert line.endswith("left out)")


def test_head_and_tail_are_kept_and_the_middle_is_counted() -> None:
    output = make_output(limit=8192)
    for number in range(1, 1001):
        output.write("stdout", b"line %d\n" % number)
    lines = output.close()
    (mark,) = [line for line in lines if line.stream == "mark"]
    head, tail = lines[: lines.index(mark)], lines[lines.index(mark) + 1 :]
    assert len(head) > 50
    assert len(tail) > 50
    assert tail[-1] == Line(1000, NOW, "stdout", "line 1000")
    assert all(line.text == f"line {line.number}" for line in head + tail)
    left_out = 1000 - len(head) - len(tail)
    assert mark.number == len(head) + 1
    assert mark.text.startswith(f"… {left_out} lines (")


def test_output_that_fits_has_no_mark() -> None:
    output = make_output(limit=8192)
    for number in range(1, 121):
        output.write("stdout", b"line %d\n" % number)
    lines = output.close()
    assert [line.text for line in lines] == [f"line {number}" for number in range(1, 121)]
    assert [line.number for line in lines] == list(range(1, 121))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stdout", "stderr"]),
            st.binary(max_size=300).map(lambda data: data.replace(b"\x01", b"\n").replace(b"\x02", b"\n")),
        ),
        max_size=60,
    ),
    st.booleans(),
)
def test_whatever_is_printed_stays_within_the_limit(writes: list[tuple[Stream, bytes]], taking: bool) -> None:
    limit = 4096
    output, lines = make_output(limit), []
    for stream, data in writes:
        output.write(stream, data)
        if taking:
            lines += output.take()
    lines += output.close()
    assert len(msgspec.json.encode([attrs.astuple(line) for line in lines])) <= limit
    numbers = [line.number for line in lines]
    assert numbers == sorted(set(numbers))
    assert sum(line.stream == "mark" for line in lines) <= 1


def test_the_first_line_of_the_tail_shows_that_its_start_is_gone() -> None:
    output = make_output(limit=4096)
    output.write("stdout", b"head\n" * 200)
    for _ in range(200):
        output.write("stdout", b"0123456789")
    lines = output.close()
    assert lines[-2].stream == "mark"
    assert lines[-1].text.startswith("… 0123456789")


def test_a_gigabyte_needs_little_memory_even_if_nobody_takes_lines() -> None:
    output = make_output()
    chunk = b"a line of output\n" * 3855
    tracemalloc.start()
    try:
        for _ in range(16_500):
            output.write("stdout", chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lines = output.close()
    assert peak < 16 << 20
    assert sum(len(line.text) + 1 for line in lines) <= 1 << 20
    assert "1.0 GiB" in next(line.text for line in lines if line.stream == "mark")


def number_lines(output: OutputBuffer, first: int, last: int) -> None:
    for number in range(first, last + 1):
        output.write("stdout", b"line %d\n" % number)


def test_the_latest_lines_are_shown_while_the_tail_waits_for_the_end() -> None:
    output = make_output(limit=8192)
    number_lines(output, 1, 40)
    assert output.latest() == []
    number_lines(output, 41, 1000)
    shown = output.latest()
    assert shown[0].stream == "mark"
    assert shown[-1] == Line(1000, NOW, "stdout", "line 1000")
    assert all(line.text == f"line {line.number}" for line in shown[1:])
    assert len({line.number for line in shown}) == len(shown)
    assert output.latest() == []
    output.write("stdout", b"::progress 1/2\nline 1002\nunfinished")
    assert output.latest()[-1] == Line(1002, NOW, "stdout", "line 1002")
    # The numbers that were shown are those of the end: who follows by number sees no line twice.
    output.write("stdout", b" line\n")
    assert output.close()[-2:] == [
        Line(1002, NOW, "stdout", "line 1002"),
        Line(1003, NOW, "stdout", "unfinished line"),
    ]


def test_the_latest_lines_of_two_streams_are_told_apart() -> None:
    output = make_output(limit=8192)
    number_lines(output, 1, 500)
    for number in range(501, 600, 2):
        output.write("stdout", b"line %d\nli" % number)
        output.write("stderr", b"line %d\n" % (number + 1))
        output.write("stdout", b"\rli\r")
    shown = output.latest()[1:]
    assert {line.stream for line in shown} == {"stdout", "stderr"}
    assert all(line.text == f"line {line.number}" for line in shown)
    assert shown[-1].number == 600


@pytest.mark.parametrize("text", [b"y", b"\x1b[31mred\x1b[0m" * 5, b"\xff" * 500, "ü".encode() * 300, b"\x01" * 70_000])
def test_what_is_stored_as_json_stays_within_a_mebibyte(text: bytes) -> None:
    output, stored, shown = make_output(), 0, 0
    for _ in range(max(100, (8 << 20) // (len(text) + 1))):
        output.write("stdout", text + b"\n")
        if lines := output.take():
            stored += len(msgspec.json.encode([attrs.astuple(line) for line in lines]))
    shown = len(msgspec.json.encode([attrs.astuple(line) for line in output.latest()]))
    stored += len(msgspec.json.encode([attrs.astuple(line) for line in output.close()]))
    assert stored + shown <= 1 << 20
    assert stored > 1 << 19


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        (b"::progress 64/100 loading\n", Progress(64, 100, "loading")),
        (b"::progress 5\n", Progress(5, None, "")),
        (b"::progress 0.5/1.5\r\n", Progress(0.5, 1.5, "")),
        ("::progress 1/2 " + "ä" * 500 + "\n", Progress(1, 2, "ä" * 200)),
    ],
)
@pytest.mark.parametrize("full", [False, True], ids=["in the head", "in the tail"])
def test_progress_lines_are_read_and_not_kept(line: bytes | str, progress: Progress, full: bool) -> None:
    output = make_output(limit=4096)
    output.write("stdout", b"filler\n" * (1000 if full else 1))
    data = line.encode() if isinstance(line, str) else line
    output.write("stdout", data[:7])
    output.write("stdout", data[7:])
    assert output.progress == progress
    assert not [text for text in texts(output.close()) if "::progress" in text]


def test_progress_that_straddles_the_head_and_the_tail_is_read() -> None:
    output = make_output(limit=4096)
    output.write("stdout", b"::progress 3")
    output.write("stderr", b"filler\n" * 1000)
    output.write("stdout", b"/4 soon\n")
    assert output.progress == Progress(3, 4, "soon")


def test_only_the_latest_progress_counts() -> None:
    output = make_output()
    output.write("stdout", b"::progress 1/3\n::progress 2/3\nline\n")
    assert output.progress == Progress(2, 3)


@pytest.mark.parametrize("line", ["::progress", "::progress x/y", "::progress -1", "::progress " + "9" * 400])
def test_a_malformed_progress_line_is_an_ordinary_line(line: str) -> None:
    assert printed(line.encode() + b"\n") == [line]


def test_progress_on_stderr_is_an_ordinary_line() -> None:
    assert printed(b"::progress 1/2\n", stream="stderr") == ["::progress 1/2"]


def test_what_is_written_after_the_end_is_dropped() -> None:
    output = make_output()
    output.write("log", b"before\n")
    assert texts(output.close()) == ["before"]
    output.write("log", b"after\n")
    assert output.take() == []
    assert output.close() == []


def test_threads_may_write_at_once() -> None:
    output: OutputBuffer = make_output(limit=8 << 20)

    def work(name: int) -> None:
        for _ in range(500):
            output.write("log", b"from %d\n" % name)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = output.close()
    assert sorted(texts(lines)) == sorted(f"from {name}" for name in range(4) for _ in range(500))
    assert [line.number for line in lines] == list(range(1, 2001))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 30, "1.0 GiB"), (5 << 50, "5120.0 TiB")],
)
def test_sizes_are_written_for_people(count: int, text: str) -> None:
    assert size_text(count) == text
