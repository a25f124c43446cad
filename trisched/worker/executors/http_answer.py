"""What came back from a request: read up to a cap, kept as a result, judged by the job's ``expect``."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import attrs
import msgspec

from trisched.domain.request import Request, retry_after, will_not_improve
from trisched.worker.executors import Ended, Failure

#: Headers that tell something about the answer; the others are the business of proxies and browsers.
_WORTH_KEEPING: Final = (
    "content-type", "content-length", "content-encoding", "content-location", "date", "etag", "last-modified", "link",
    "location", "retry-after", "server", "x-request-id", "x-correlation-id", "request-id", "traceparent",
    "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit", "ratelimit-policy",
    "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
)  # fmt: skip
_HEADER_LIMIT: Final = 2000
_JSON_DEPTH: Final = 100


@attrs.frozen(kw_only=True)
class Answer:
    """An answer as far as it was read."""

    status: int
    #: Names in lower case; of several with one name, the values joined by commas.
    headers: Mapping[str, str]
    body: bytes
    truncated: bool

    @property
    def words(self) -> str:
        """``404 Not Found``; the server's own words may say anything."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


class Body:
    """Collects a body up to its cap, unpacking what was packed in spite of our not asking for it."""

    def __init__(self, limit: int, encoding: str) -> None:
        self._limit = limit
        packed = encoding.strip().lower() in ("gzip", "x-gzip", "deflate")
        # 32: zlib looks for the header of either format by itself.
        self._unpack = zlib.decompressobj(32 + zlib.MAX_WBITS) if packed and limit else None
        self.data = bytearray()
        self.truncated = False

    def add(self, chunk: bytes) -> bool:
        """Takes a chunk; False once something had to be left out."""
        room = self._limit - len(self.data)
        if self._unpack is not None:
            # One byte more than there is room for tells whether something is cut; never more than that is unpacked.
            try:
                chunk = self._unpack.decompress(chunk, room + 1)
            except zlib.error:
                self._unpack = None
        self.data += chunk[:room]
        self.truncated |= len(chunk) > room
        return not self.truncated


def ended(request: Request, answer: Answer, now: int) -> Ended:
    """How the attempt ended that got this answer."""
    result = result_text(answer)
    if request.expects(answer.status):
        return Ended(completed=True, result=result)
    wait = answer.headers.get("retry-after")
    failure = Failure("HttpStatus", f"answered {answer.words}, expected {', '.join(request.expect)}")
    return Ended(
        completed=False,
        result=result,
        error=failure,
        retry_after=None if wait is None else retry_after(wait, now),
        fatal=will_not_improve(answer.status),
    )


def result_text(answer: Answer) -> str:
    """The answer as the JSON text that is stored."""
    kept = {name: answer.headers[name][:_HEADER_LIMIT] for name in _WORTH_KEEPING if name in answer.headers}
    result: dict[str, Any] = {"status": answer.status, "headers": kept, **_content(answer)}
    return msgspec.json.encode({**result, "truncated": answer.truncated}).decode()


def _content(answer: Answer) -> dict[str, Any]:
    kind, _, options = answer.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if (kind == "application/json" or kind.endswith("+json")) and answer.body and not answer.truncated:
        try:
            return {"json": _plain(msgspec.json.decode(answer.body))}
        except (ValueError, RecursionError):
            pass
    return {"body": _decoded(answer.body, options)}


def _plain(value: Any) -> Any:
    """The value, if it is no deeper than what every reader can take."""
    level = [value]
    for _ in range(_JSON_DEPTH):
        level = [part for item in level for part in _parts(item)]
        if not level:
            return value
    raise ValueError("too deep")


def _parts(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    return item if isinstance(item, list) else []


def _decoded(body: bytes, options: str) -> str:
    name, _, charset = options.strip().partition("=")
    codec = charset.strip(" \"'") if name.strip().lower() == "charset" else "utf-8"
    try:
        text = body.decode(codec, "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8", "replace")
    # Some codecs give lone surrogates, which no store takes.
    return text.encode("utf-8", "replace").decode()
