"""Errors as the API tells them."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class FieldProblem(Struct, kw_only=True):
    """One broken rule: where, and what to do about it."""

    path: str
    message: str


class Problem(Struct, kw_only=True, omit_defaults=True):
    """An error, as application/problem+json."""

    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET
    #: For dependencies that lead back to themselves: the names along the way.
    cycle: list[str] | UnsetType = UNSET
