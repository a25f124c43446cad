"""What every operation is given: the database, the maker of ids, and the tasks this program knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from trisched.clock import Ids
from trisched.domain.job import Job
from trisched.errors import Conflict, Invalid, NotFound
from trisched.storage.database import Database, Tx
from trisched.storage.tables import job as job_table


class TaskBook(Protocol):
    """The Python functions that jobs may name."""

    def knows(self, function: str) -> bool:
        """Whether the function is registered here."""

    def check(self, function: str, parameters: Mapping[str, object]) -> None:
        """Raises Invalid for parameters that the function does not take; a function not known here is not judged."""


@attrs.frozen(kw_only=True)
class Scope:
    """The surroundings of an operation; made once by the program."""

    database: Database
    ids: Ids
    tasks: TaskBook


def is_storable(text: str) -> bool:
    """Whether both databases can be asked about ``text``: no NUL, no lone surrogate."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))


def required_job(tx: Tx, id_or_name: str, *, lock: str = "") -> Job:
    """The job with that id or name; NotFound if there is none."""
    if not is_storable(id_or_name):
        raise NotFound("job", id_or_name)
    try:
        job = job_table.find(tx, id_or_name, lock=lock)
    except Invalid as error:
        raise Conflict(f"the stored definition of {id_or_name!r} cannot be read by this version: {error}") from None
    if job is None:
        raise NotFound("job", id_or_name)
    return job
