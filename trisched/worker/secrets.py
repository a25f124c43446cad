"""Secrets: found on the node when an attempt needs them, and hidden wherever one would show.

A secret is the variable ``TRISCHED_SECRET_NAME`` of the node, or the file ``NAME`` in its directory of secrets.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import attrs
import msgspec

from trisched.domain.job import JobSpec
from trisched.domain.template import SECRET_NAME, secrets_in
from trisched.worker.executors import Ended

VARIABLE_PREFIX: Final = "TRISCHED_SECRET_"
MASK: Final = "***"
#: Hiding anything shorter would hide ordinary text.
_LEAST_HIDDEN: Final = 4
_FILE_LIMIT: Final = 64 << 10
_LOOK_EVERY: Final = 1.0
#: What :mod:`trisched.worker.lines` and the tail of an output write where a line was cut.
_CUT_END: Final = " … ("
_CUT_START: Final = "… "


class UnknownSecret(Exception):
    """The node does not have the secret, or cannot read it; the text names it."""


def needed(spec: JobSpec) -> tuple[str, ...]:
    """The names of the secrets that a job refers to."""
    texts = [*spec.env.values()]
    if (request := spec.request) is not None:
        texts += [request.url, *request.headers.values(), request.json or "", request.body or ""]
    return tuple(dict.fromkeys(name for text in texts for name in secrets_in(text)))


class Secrets:
    """The secrets of one node. ``mask`` may be called from any thread."""

    def __init__(self, environ: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        # An empty variable is how compose files and unit files say "not set".
        self._variables = {
            name.removeprefix(VARIABLE_PREFIX): text
            for name, text in (environ or {}).items()
            if name.startswith(VARIABLE_PREFIX) and text
        }
        self._directory = directory
        self._look_at = 0.0
        #: Every text to hide. What was a secret once stays hidden: it may be in use somewhere.
        self._hidden: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._hide(self._variables.values())

    def to_hide(self) -> Self | None:
        """Itself; None if the node has no secrets and cannot get any, so that nothing is paid."""
        if self._directory is not None and (now := time.monotonic()) >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._hide(self._in_directory())
        return None if self._pattern is None and self._directory is None else self

    def resolve(self, names: Iterable[str]) -> dict[str, str]:
        """The values of these secrets, read now; UnknownSecret if one is not here."""
        found = {name: self._find(name) for name in names}
        self._hide(found.values())
        return found

    def mask(self, text: str) -> str:
        """``text`` with every known secret hidden, also one of which a cut line shows a part."""
        if self._pattern is None:
            return text
        text = self._pattern.sub(MASK, text)
        return self._mask_cut(text) if _CUT_START in text else text

    def mask_start(self, text: str) -> str:
        """``text`` that may have been cut at its end, likewise."""
        return _without_start_at_end(self.mask(text), self._hidden)

    def mask_ended(self, ended: Ended) -> Ended:
        """The ending without secrets in its error and its result."""
        error = ended.error
        if error is not None:
            trace = None if error.traceback is None else self.mask(error.traceback)
            error = attrs.evolve(error, message=self.mask(error.message), traceback=trace)
        result = ended.result
        if result is not None and self._pattern is not None and self._pattern.search(result):
            result = msgspec.json.encode(self._mask_json(msgspec.json.decode(result))).decode()
        return attrs.evolve(ended, error=error, result=result)

    def _mask_json(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.mask(name): self._mask_json(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._mask_json(part) for part in value]
        if isinstance(value, str):
            return self.mask(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return MASK if is_number and str(value) in self._hidden else value

    def _mask_cut(self, text: str) -> str:
        """Hides the beginning of a secret before a cut, and the end of one behind a cut."""
        kept, mark, rest = text.rpartition(_CUT_END)
        if mark:
            text = _without_start_at_end(kept, self._hidden) + mark + rest
        if text.startswith(_CUT_START):
            text = _CUT_START + _without_end_at_start(text.removeprefix(_CUT_START), self._hidden)
        return text

    def _find(self, name: str) -> str:
        if name in self._variables:
            return self._variables[name]
        if self._directory is None:
            raise UnknownSecret(f"the secret {name} is not known on this node: set {VARIABLE_PREFIX}{name}")
        try:
            return _read(self._directory / name)
        except FileNotFoundError:
            raise UnknownSecret(
                f"the secret {name} is not known on this node: set {VARIABLE_PREFIX}{name}, "
                f"or put it into a file {name} in {self._directory}"
            ) from None
        except OSError as error:
            raise UnknownSecret(f"the secret {name} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise UnknownSecret(f"the secret {name} cannot be read: {error}") from None

    def _in_directory(self) -> Iterator[str]:
        assert self._directory is not None
        try:
            names = os.listdir(self._directory)  # noqa: PTH208 - names are all that is needed
        except OSError:
            return
        for name in names:
            if SECRET_NAME.fullmatch(name):
                try:
                    yield _read(self._directory / name)
                except (OSError, ValueError):
                    # Whoever needs this one is told why it cannot be read.
                    continue

    def _hide(self, values: Iterable[str]) -> None:
        fresh = {form for value in values for form in _forms(value)} - self._hidden
        if fresh:
            self._hidden = self._hidden | fresh
            # The longest first: one secret may begin like another.
            ordered = sorted(self._hidden, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, ordered)))


def _forms(value: str) -> Iterator[str]:
    """The texts by which a secret shows: itself, each of its lines, and as addresses and JSON write it."""
    for text in (value, *value.splitlines()):
        plain = text.strip()
        forms = (plain, quote(plain, safe=""), quote(plain), msgspec.json.encode(plain).decode()[1:-1])
        yield from (form for form in forms if len(plain) >= _LEAST_HIDDEN and form)


def _read(path: Path) -> str:
    # Never waits: a pipe in the directory is not a secret.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a file")
        data = file.read(_FILE_LIMIT + 1)
    if len(data) > _FILE_LIMIT:
        raise ValueError(f"it is larger than {_FILE_LIMIT >> 10} KiB")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None


def _without_start_at_end(text: str, hidden: Iterable[str]) -> str:
    most = max((_overlap(text, secret) for secret in hidden), default=0)
    return text[: len(text) - most] + MASK if most else text


def _without_end_at_start(text: str, hidden: Iterable[str]) -> str:
    most = max((_overlap(text[::-1], secret[::-1]) for secret in hidden), default=0)
    return MASK + text[most:] if most else text


def _overlap(text: str, secret: str) -> int:
    """How many characters at the end of ``text`` are the beginning of ``secret``; fewer than four are chance."""
    lengths = range(min(len(secret) - 1, len(text)), _LEAST_HIDDEN - 1, -1)
    return next((length for length in lengths if text.endswith(secret[:length])), 0)
