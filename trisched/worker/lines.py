"""Splits streams of bytes into lines of text: broken UTF-8, carriage returns and endless lines included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

Stream = Literal["stdout", "stderr", "log", "mark"]


def decode(data: bytes | bytearray) -> str:
    """Text that every store can hold: what is not UTF-8 is replaced, NULs are shown as ␀."""
    return data.decode("utf-8", "replace").replace("\0", "␀")


def size_text(count: int) -> str:
    """A number of bytes for people: ``1.0 GiB``."""
    if count < 1024:
        return f"{count} B"
    size, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"


class Lines:
    """Splits the streams into lines, each stream for itself."""

    __slots__ = ("_streams", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._streams: dict[Stream, _Unfinished] = {}

    def begin(self, stream: Stream, start: bytes) -> None:
        """Gives the stream's first line a start."""
        self._streams[stream] = _Unfinished(self.limit, start)

    def feed(self, stream: Stream, data: bytes) -> Iterator[tuple[int, str]]:
        """Each line that ends in ``data``, with the position behind it. May be left half-way."""
        line = self._streams.get(stream)
        if line is None:
            line = self._streams[stream] = _Unfinished(self.limit)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line.extend(data[start:end])
            start = end + 1
            yield start, line.finish()
        line.extend(data[start:])

    def unfinished(self) -> Iterator[tuple[Stream, bytes]]:
        """The bytes of lines that have not ended."""
        return ((stream, line.raw()) for stream, line in self._streams.items() if line)

    def flush(self) -> Iterator[tuple[Stream, str]]:
        """The lines that have not ended, as if they had."""
        return ((stream, line.finish()) for stream, line in self._streams.items() if line)


class _Unfinished:
    """The line of one stream that has no newline yet; what exceeds the limit is counted, not kept."""

    __slots__ = ("_data", "_left_out", "_limit")

    def __init__(self, limit: int, start: bytes = b"") -> None:
        self._limit = limit
        self._data = bytearray(start)
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self._data)

    def extend(self, piece: bytes) -> None:
        data = self._data
        data += piece
        if b"\r" in data:
            self._return_carriage()
        if len(data) > self._limit:
            self._cut()

    def _return_carriage(self) -> None:
        """A carriage return starts the line anew; one at the very end may belong to CR LF."""
        start = self._data.rstrip(b"\r").rfind(b"\r") + 1
        if start:
            del self._data[:start]
            self._left_out = 0

    def _cut(self) -> None:
        data = self._data
        body = len(data.rstrip(b"\r"))
        returned = body < len(data)
        self._left_out += max(0, body - self._limit)
        del data[min(body, self._limit) :]
        if returned:
            data += b"\r"

    def finish(self) -> str:
        """The line's text; the next one starts empty."""
        text = decode(self._data.rstrip(b"\r"))
        if self._left_out:
            # The cut may have gone through a character.
            text = text.rstrip("\ufffd") + f" … ({size_text(self._left_out)} of this line left out)"
        self._data.clear()
        self._left_out = 0
        return text

    def raw(self) -> bytes:
        """The line as bytes to go on with; one that was cut is ended here."""
        return self.finish().encode() + b"\n" if self._left_out else bytes(self._data)
