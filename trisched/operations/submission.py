"""What a caller may say when it asks for a run, and the checks on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from trisched.domain.duration import MICROSECONDS, parse_duration, parse_instant
from trisched.domain.job_fields import DAY, parse_parameters, parse_priority
from trisched.domain.run import PRIORITY_CLASS, RunStatus
from trisched.domain.text import parse_number, parse_text
from trisched.errors import FieldError, Invalid

#: The same key gives the same run for this long.
KEY_LIFETIME_US: Final = 24 * 3600 * MICROSECONDS
_KEY_LENGTH: Final = 255
_MOST_DELAY: Final = 3660 * DAY


@attrs.define(kw_only=True)
class Submission:
    """One run that is asked for. Values are as the caller wrote them; None means: as the job says.

    Exactly one of ``job`` (a name or id) and ``function`` is needed, at most one of ``delay`` and ``at``. An ``at``
    that is over means now. ``parameters`` are laid over those of the job.
    """

    job: object = None
    function: object = None
    parameters: object = attrs.field(factory=dict)
    queue: object = None
    priority: object = None
    delay: object = None
    at: object = None
    key: object = None
    retries: object = None
    timeout: object = None

    def shape(self) -> tuple[object, ...]:
        """All but parameters and key. Types count, for ``True`` equals 1 and is no number of retries."""
        return (
            self.job, self.function, self.queue, self.priority, self.delay, self.at, self.retries, self.timeout,
            type(self.delay), type(self.retries), type(self.timeout),
        )  # fmt: skip


@attrs.define
class Submitted:
    """The answer to a submission; ``created`` is False when an earlier run stands for it."""

    run_id: str
    status: RunStatus
    created: bool


@attrs.frozen(kw_only=True)
class Wishes:
    """What a submission says beside job and parameters, checked."""

    queue: str | None
    #: The stored number of the class.
    priority: int | None
    delay_us: int | None
    at: int | None
    retries: int | None
    #: JSON of what a worker must do differently from the job, if anything.
    overrides: str | None


class _Reader:
    """Parses field by field and keeps all that is wrong."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def read(self, value: object, path: str, parse: Any, **limits: Any) -> Any:
        if value is None:
            return None
        try:
            return parse(value, path, **limits)
        except Invalid as error:
            self.errors += error.errors
            return None


def parse_wishes(submission: Submission) -> Wishes:
    """The wishes of ``submission``; Invalid with every broken rule."""
    reader = _Reader()
    if submission.delay is not None and submission.at is not None:
        reader.errors.append(FieldError("at", "give delay or at, not both"))
    priority = reader.read(submission.priority, "priority", parse_priority)
    delay = reader.read(submission.delay, "delay", parse_duration, most=_MOST_DELAY)
    timeout = reader.read(submission.timeout, "timeout", parse_duration, least=0.001, most=30 * DAY)
    wishes = Wishes(
        queue=reader.read(submission.queue, "queue", parse_text, most=100),
        priority=None if priority is None else PRIORITY_CLASS[priority],
        delay_us=None if delay is None else round(delay * MICROSECONDS),
        at=reader.read(submission.at, "at", parse_instant),
        retries=reader.read(submission.retries, "retries", parse_number, least=0, most=1000),
        overrides=None if timeout is None else msgspec.json.encode({"timeout": timeout}).decode(),
    )
    if reader.errors:
        raise Invalid(reader.errors)
    return wishes


def parse_key(value: object, path: str = "key") -> str:
    """A key: text of a sensible length without control characters, which headers and logs could not carry."""
    key = parse_text(value, path, most=_KEY_LENGTH)
    if any(char < " " or char == "\x7f" for char in key):
        raise Invalid.at(path, "must not contain control characters")
    return key


def parameters_text(value: object) -> str:
    """Parameters as they are stored with a run: keys in order, so that equal parameters are equal texts."""
    if value is not None and not isinstance(value, Mapping):
        raise Invalid.at("parameters", "must be a JSON object")
    return in_order(parse_parameters(dict(value) if value else {}))


def in_order(text: str) -> str:
    """The same JSON with the keys of every object in order."""
    if text == "{}":
        return text
    return msgspec.json.encode(msgspec.json.decode(text), order="deterministic").decode()
