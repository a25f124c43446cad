"""Keeps what a run prints: numbered lines of a bounded head and tail, and the latest progress.

    bytes ──▶ head: split into lines at once, handed out by take() ──▶ stored while the run goes on
         └──▶ tail: once the head is full, raw chunks in a ring; the oldest fall out and are counted
                    latest() shows the last lines meanwhile, close() splits what is left: a mark, then the last lines

A run that prints 1 GiB costs no work per line: lines are only made of what is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import attrs

from trisched.domain.progress import START, Progress
from trisched.worker.lines import Lines, Stream, decode, size_text
from trisched.worker.tail import Tail, cost

#: Stored per attempt, as JSON: each line counts with its text and what its number and time take.
OUTPUT_LIMIT: Final = 1 << 20
_LINE_LIMIT: Final = 64 << 10
_MARK_ROOM: Final = 256
#: For the latest lines, which are stored beside the head and the tail.
_LATEST_ROOM: Final = 32 << 10
_PROGRESS_START: Final = START.encode()


@attrs.frozen
class Line:
    """One line of output, counted from 1; left-out lines are counted too."""

    number: int
    at: int
    stream: Stream
    text: str


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
        self._tail: Tail | None = None
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

    def latest(self) -> list[Line]:
        """The last lines of what cannot be stored yet, to be shown until the next call; empty without news.

        Their numbers are those that they will have in the end, if they are among the last then.
        """
        with self._lock:
            found = [] if self._tail is None else self._tail.latest()
            lines = [
                Line(self._count + place, at, stream, text)
                for place, stream, text, at in found
                if not _is_progress(stream, text)
            ]
        if lines and lines[0].number > self._count + 1:
            lines.insert(0, Line(lines[0].number - 1, lines[0].at, "mark", "… lines left out while it runs …"))
        return lines

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
                room = self._limit - self._used - _MARK_ROOM - min(_LATEST_ROOM, self._limit // 8)
                tail = self._tail = Tail(room, lines.limit)
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
        self._used += cost(text)
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

    def _end_tail(self, tail: Tail) -> None:
        kept = tail.lines()
        if tail.left_out_bytes:
            lines, size = tail.left_out_lines, size_text(tail.left_out_bytes)
            word = "line" if lines == 1 else "lines"
            mark = f"… {lines:,} {word} ({size}) left out …"
            # The mark has the first left-out number, so numbers stay unique when only part of a line is gone.
            self._ready.append(Line(self._count + 1, kept[0].at if kept else self._at, "mark", mark))
            self._count += max(1, lines)
        for _, stream, text, at in kept:
            if _is_progress(stream, text):
                # Among those that were left out it has counted as a line.
                self._count += 1
            self._keep(stream, text, at)


def _is_progress(stream: Stream, text: str) -> bool:
    return stream == "stdout" and Progress.parse(text) is not None
