"""The key of a request: in its body, or in the ``Idempotency-Key`` header."""

from __future__ import annotations

from trisched.errors import Invalid
from trisched.operations.submission import parse_key
from trisched.web.route import Call

HEADER = "Idempotency-Key"


def given_key(call: Call, in_body: object) -> object:
    """The key, wherever it is; Invalid if the two places disagree."""
    in_header = call.headers.get(HEADER)
    if in_header is None:
        return in_body
    parse_key(in_header, HEADER)
    if in_body is not None and in_body != in_header:
        raise Invalid.at("key", f"is not the key of the {HEADER} header; give one of them")
    return in_header
