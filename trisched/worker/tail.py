"""The tail of an attempt's output: raw chunks in a ring, made into lines only when somebody looks.

add ──▶ [chunk][chunk][chunk] ──▶ the oldest fall out and are counted
                       └─ latest(): the last few lines, while the run goes on
        └─────────────── lines(): all that is left, at the end
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from trisched.worker.lines import Lines, Stream

#: What a line takes in the store besides its text: its number, time and stream as JSON.
LINE_COST: Final = 40
_CHUNK: Final = 64 << 10
#: Of so many last bytes the lines are shown while the run goes on.
_LATEST: Final = 4 << 10
_MOST_LATEST: Final = 100


def cost(text: str) -> int:
    """What a line takes in the store, where its text is JSON: a control character is six bytes there."""
    return len(msgspec.json.encode(text)) + LINE_COST


class TailLine(NamedTuple):
    """A line that was kept, with its place among all lines of the tail, counted from 1."""

    place: int
    stream: Stream
    text: str
    at: int


class _Chunk(NamedTuple):
    stream: Stream
    data: bytes
    at: int
    lines: int

    @property
    def cost(self) -> int:
        return len(self.data) + LINE_COST * max(1, self.lines)


class Tail:
    """The last chunks of output, as many as there is room for, and a count of what fell out."""

    __slots__ = (
        "_chunks", "_line_limit", "_open", "_room", "_seen", "_shown", "_size", "left_out_bytes", "left_out_lines",
    )  # fmt: skip

    def __init__(self, room: int, line_limit: int) -> None:
        self._room = room
        self._line_limit = line_limit
        self._chunks: deque[_Chunk] = deque()
        self._size = 0
        self._seen = self._shown = 0
        #: Streams whose first kept chunk starts in the middle of a line.
        self._open: dict[Stream, bool] = {}
        self.left_out_lines = 0
        self.left_out_bytes = 0

    def add(self, stream: Stream, data: bytes, at: int) -> None:
        """Takes a piece; the oldest make room for it."""
        for start in range(0, len(data), _CHUNK):
            piece = data[start : start + _CHUNK]
            chunk = _Chunk(stream, piece, at, piece.count(b"\n"))
            self._chunks.append(chunk)
            self._size += chunk.cost
            self._seen += chunk.lines
            while self._size - self._chunks[0].cost >= self._room:
                self._drop(self._chunks.popleft())

    def _drop(self, chunk: _Chunk) -> None:
        self._size -= chunk.cost
        self._open[chunk.stream] = not chunk.data.endswith(b"\n")
        self.left_out_lines += chunk.lines
        self.left_out_bytes += len(chunk.data)

    def lines(self) -> list[TailLine]:
        """The last lines that fit; what does not is added to the left-out count."""
        kept = deque(self._split())
        size = sum(cost(line.text) for line in kept)
        while kept and size > self._room:
            gone = kept.popleft()
            size -= cost(gone.text)
            self.left_out_lines += 1
            self.left_out_bytes += len(gone.text.encode()) + 1
        return list(kept)

    def _split(self) -> Iterator[TailLine]:
        lines = Lines(self._line_limit)
        at, place = 0, self._seen - sum(chunk.lines for chunk in self._chunks)
        for stream, data, at, _ in self._chunks:
            if self._open.pop(stream, False):
                lines.begin(stream, "… ".encode())
            for _, text in lines.feed(stream, data):
                place += 1
                yield TailLine(place, stream, text, at)
        for stream, text in lines.flush():
            place += 1
            yield TailLine(place, stream, text, at)

    def latest(self) -> list[TailLine]:
        """The last whole lines, if there are new ones since the last call."""
        if self._seen == self._shown:
            return []
        self._shown = self._seen
        window = self._window()
        place = self._seen - sum(data.count(b"\n") for _, data, _ in window)
        lines, begun, found = Lines(self._line_limit), set(), []
        for stream, data, at in window:
            for _, text in lines.feed(stream, data):
                place += 1
                # The first line of a stream in the window may lack its start.
                if stream in begun:
                    found.append(TailLine(place, stream, text, at))
                begun.add(stream)
        return found[-_MOST_LATEST:]

    def _window(self) -> list[tuple[Stream, bytes, int]]:
        window: list[tuple[Stream, bytes, int]] = []
        room = _LATEST
        for chunk in reversed(self._chunks):
            window.append((chunk.stream, chunk.data[-room:], chunk.at))
            room -= len(chunk.data)
            if room <= 0:
                break
        return window[::-1]
