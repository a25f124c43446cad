"""Keeps what a run prints: numbered lines of a bounded head and tail, and the latest progress.

    bytes ──▶ head: split into lines at once, handed out by take() ──▶ stored while the run goes on
         └──▶ tail: once the head is full, raw chunks in a ring; the oldest fall out and are counted
                    close() splits what is left: a mark line, then the last lines

A run that prints 1 GiB costs no work per line: lines are only made of what is kept.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import attrs

from trisched.worker.lines import Lines, Stream, decode, size_text

#: Kept per attempt. Each line counts with its text and what its number and time take.
OUTPUT_LIMIT: Final = 1 << 20
_LINE_LIMIT: Final = 64 << 10
_LINE_COST: Final = 16
_MARK_ROOM: Final = 128
_CHUNK: Final = 64 << 10
PROGRESS_TEXT_LIMIT: Final = 200
_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_PROGRESS = re.compile(rf"::progress {_NUMBER}(?:/{_NUMBER})?(?:\s+(.*))?", re.DOTALL)
_PROGRESS_START: Final = b"::progress "


@attrs.frozen
class Line:
    """One line of output, counted from 1; left-out lines are counted too."""

    number: int
    at: int
    stream: Stream
    text: str


@attrs.frozen
class Progress:
    """How far a run says it is; ``total`` is None when it does not know."""

    done: float
    total: float | None = None
    text: str = ""

    @classmethod
    def parse(cls, line: str) -> Progress | None:
        """The progress in a line ``::progress 64/100 text``, or None when it is an ordinary line."""
        if not line.startswith("::progress ") or (found := _PROGRESS.fullmatch(line)) is None:
            return None
        done, total, text = found.groups()
        short = (text or "").strip()[:PROGRESS_TEXT_LIMIT]
        return cls(float(done), None if total is None else float(total), short)


def visible(text: str) -> str:
    """``text`` as every store can hold it: NULs shown as ␀, lone surrogates replaced."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\0", "␀")


class OutputBuffer:
    """The output of one attempt. Written from any thread; what comes after close() is dropped."""

    __slots__ = (
        "_at",
        "_clock",
        "_closed",
        "_count",
        "_limit",
        "_lines",
        "_lock",
        "_partial",
        "_ready",
        "_tail",
        "_used",
        "progress",
    )

    def __init__(self, *, clock: Callable[[], int], limit: int = OUTPUT_LIMIT) -> None:
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._ready: list[Line] = []
        self._lines: Lines | None = None
        self._tail: _Tail | None = None
        self._partial = b""
        self._count = self._used = self._at = 0
        self._closed = False
        #: The latest progress, from the context or from a ``::progress`` line.
        self.progress: Progress | None = None

    def write(self, stream: Stream, data: bytes) -> None:
        """Takes a piece of output as it came; it need not end at a line's end."""
        with self._lock:
            if self._closed:
                return
            self._at = self._clock()
            if self._tail is None:
                data = self._fill_head(stream, data)
            if self._tail is not None and data:
                if stream == "stdout":
                    self._scan_progress(data)
                self._tail.add(stream, data, self._at)

    def take(self) -> list[Line]:
        """The lines that are new since the last call and can be stored now."""
        with self._lock:
            ready, self._ready = self._ready, []
            return ready

    def close(self) -> list[Line]:
        """Everything that was not taken yet, to the last; afterwards writes are ignored."""
        with self._lock:
            self._closed = True
            if self._tail is not None:
                self._end_tail(self._tail)
            elif self._lines is not None:
                for stream, text in self._lines.flush():
                    self._keep(stream, text, self._at)
            self._tail = self._lines = None
            ready, self._ready = self._ready, []
            return ready

    def _fill_head(self, stream: Stream, data: bytes) -> bytes:
        """Makes lines while the head has room; returns what belongs to the tail."""
        lines = self._lines
        if lines is None:
            lines = self._lines = Lines(min(_LINE_LIMIT, self._limit // 8))
        for end, text in lines.feed(stream, data):
            self._keep(stream, text, self._at)
            if self._used >= self._limit // 2:
                tail = self._tail = _Tail(self._limit - self._used - _MARK_ROOM, lines.limit)
                for name, rest in lines.unfinished():
                    tail.add(name, rest, self._at)
                    if name == "stdout":
                        self._partial = rest[:512]
                return data[end:]
        return b""

    def _keep(self, stream: Stream, text: str, at: int) -> None:
        if stream == "stdout" and (progress := Progress.parse(text)):
            self.progress = progress
            return
        self._count += 1
        self._used += _cost(text)
        self._ready.append(Line(self._count, at, stream, text))

    def _scan_progress(self, data: bytes) -> None:
        """Finds the last progress line in a chunk without looking at every line."""
        window = b"\n" + self._partial + data
        end = window.rfind(b"\n")
        # A progress line is short: the start of the unfinished line is enough to know it by.
        self._partial = window[end + 1 : end + 513]
        if _PROGRESS_START in window and (start := window.rfind(b"\n" + _PROGRESS_START, 0, end)) >= 0:
            line = window[start + 1 : window.find(b"\n", start + 1)]
            self.progress = Progress.parse(decode(line.rstrip(b"\r"))) or self.progress

    def _end_tail(self, tail: _Tail) -> None:
        kept = tail.lines()
        if tail.left_out_bytes:
            lines, size = tail.left_out_lines, size_text(tail.left_out_bytes)
            word = "line" if lines == 1 else "lines"
            mark = f"… {lines:,} {word} ({size}) left out …"
            # The mark has the first left-out number, so numbers stay unique when only part of a line is gone.
            self._ready.append(Line(self._count + 1, kept[0].at if kept else self._at, "mark", mark))
            self._count += max(1, lines)
        for stream, text, at in kept:
            self._keep(stream, text, at)


class _Chunk(NamedTuple):
    stream: Stream
    data: bytes
    at: int
    lines: int

    @property
    def cost(self) -> int:
        return len(self.data) + _LINE_COST * max(1, self.lines)


class _TailLine(NamedTuple):
    stream: Stream
    text: str
    at: int


class _Tail:
    """The last chunks of output, as many as there is room for, and a count of what fell out."""

    __slots__ = ("_chunks", "_line_limit", "_open", "_room", "_size", "left_out_bytes", "left_out_lines")

    def __init__(self, room: int, line_limit: int) -> None:
        self._room = room
        self._line_limit = line_limit
        self._chunks: deque[_Chunk] = deque()
        self._size = 0
        #: Streams whose first kept chunk starts in the middle of a line.
        self._open: dict[Stream, bool] = {}
        self.left_out_lines = 0
        self.left_out_bytes = 0

    def add(self, stream: Stream, data: bytes, at: int) -> None:
        for start in range(0, len(data), _CHUNK):
            piece = data[start : start + _CHUNK]
            chunk = _Chunk(stream, piece, at, piece.count(b"\n"))
            self._chunks.append(chunk)
            self._size += chunk.cost
            while self._size - self._chunks[0].cost >= self._room:
                self._drop(self._chunks.popleft())

    def _drop(self, chunk: _Chunk) -> None:
        self._size -= chunk.cost
        self._open[chunk.stream] = not chunk.data.endswith(b"\n")
        self.left_out_lines += chunk.lines
        self.left_out_bytes += len(chunk.data)

    def lines(self) -> list[_TailLine]:
        """The last lines that fit; what does not is added to the left-out count."""
        kept = deque(self._split())
        size = sum(_cost(line.text) for line in kept)
        while kept and size > self._room:
            gone = kept.popleft()
            size -= _cost(gone.text)
            self.left_out_lines += 1
            self.left_out_bytes += len(gone.text.encode()) + 1
        return list(kept)

    def _split(self) -> Iterator[_TailLine]:
        lines = Lines(self._line_limit)
        at = 0
        for stream, data, at, _ in self._chunks:
            if self._open.pop(stream, False):
                lines.begin(stream, "… ".encode())
            for _, text in lines.feed(stream, data):
                yield _TailLine(stream, text, at)
        for stream, text in lines.flush():
            yield _TailLine(stream, text, at)


def _cost(text: str) -> int:
    return (len(text) if text.isascii() else len(text.encode())) + _LINE_COST
