"""What the rest of trisched may ask of a database: transactions as plain functions, and wake-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from trisched.errors import StoreError
from trisched.storage.statements import Statement
from trisched.storage.wakeup import Wakeups

T = TypeVar("T")
#: A transaction: run to its end on the thread that owns the connection, possibly more than once.
Work = Callable[["Tx"], T]
Row = tuple[Any, ...]


class Duplicate(StoreError):
    """A unique constraint refused the row; its text names the columns or the index."""


class Tx(Protocol):
    """The inside of one transaction."""

    def rows(self, statement: Statement, **parameters: object) -> list[Row]:
        """All rows of the answer."""

    def one(self, statement: Statement, **parameters: object) -> Row | None:
        """The first row of the answer, if any."""

    def count(self, statement: Statement, **parameters: object) -> int:
        """How many rows were changed."""

    def many(self, statement: Statement, parameters: Sequence[Mapping[str, object]]) -> None:
        """The statement once for each set of parameters, in as few round trips as there can be."""

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Many fresh rows by the fastest way there is; Duplicate if one exists, and then none is stored."""

    def attempt(self, work: Callable[[Tx], T]) -> T:
        """``work`` as a part that is undone alone if it raises."""

    def wake(self, topic: str) -> None:
        """After the commit, tells everybody who waits for ``topic``, on every node."""


class Database(Protocol):
    """One store, reached through connections on threads of our own."""

    #: "sqlite" or "postgres".
    kind: str
    #: How people know it: a path, or an address without a password.
    label: str
    wakeups: Wakeups

    async def open(self) -> None:
        """Connects and brings the schema up to date, or says why it cannot."""

    async def close(self) -> None:
        """Lets all connections go."""

    async def listen(self) -> None:
        """Passes on the wake-ups of other processes until it is cancelled."""

    async def read(self, work: Work[T]) -> T:
        """The answer of ``work``, which only reads."""

    async def write(self, work: Work[T]) -> T:
        """The answer of ``work``, committed when this returns."""

    async def control(self, work: Work[T]) -> T:
        """Like write, on a way that no amount of other work can clog: leases and leadership."""
