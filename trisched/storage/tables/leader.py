"""The one row that says who leads: an epoch that only grows, with a lease."""

from __future__ import annotations

from typing import Final

import attrs

from trisched.storage.database import Tx
from trisched.storage.statements import Statement, load

SQL: Final = load("leader")
#: On Postgres a successor waits until this transaction is over; SQLite has one writer anyway.
_GUARD: Final = SQL.guard.filled(lock=Statement("lock", "", "FOR SHARE"))


@attrs.frozen
class Leader:
    """Who leads, as the database sees it."""

    epoch: int
    node_id: str | None
    incarnation: str | None
    until: int
    now: int

    @property
    def alive(self) -> bool:
        """Whether its lease still runs."""
        return self.until > self.now


class Deposed(Exception):
    """A write of a leader that is none any more; the transaction is undone."""


def seen(tx: Tx) -> Leader:
    """The leader's row."""
    row = tx.one(SQL.seen)
    assert row is not None
    return Leader(*row)


def take(tx: Tx, *, epoch: int, node_id: str, incarnation: str, lease_us: int, only_one: bool) -> bool:
    """Becomes leader with ``epoch`` + 1, if nobody else is or was faster."""
    return (
        tx.count(
            SQL.take, epoch=epoch, node_id=node_id, incarnation=incarnation, lease_us=lease_us, only_one=int(only_one)
        )
        == 1
    )


def renew(tx: Tx, *, epoch: int, incarnation: str, lease_us: int) -> bool:
    """Goes on leading; False if somebody else does."""
    return tx.count(SQL.renew, epoch=epoch, incarnation=incarnation, lease_us=lease_us) == 1


def resign(tx: Tx, *, epoch: int, incarnation: str) -> None:
    """Lets others lead at once."""
    tx.count(SQL.resign, epoch=epoch, incarnation=incarnation)


def guard(tx: Tx, epoch: int) -> None:
    """Raises Deposed unless ``epoch`` leads right now."""
    if tx.one(_GUARD, epoch=epoch) is None:
        raise Deposed(f"epoch {epoch} does not lead any more")
