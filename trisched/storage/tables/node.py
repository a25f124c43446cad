"""The node table: who is alive, by leases that the database's clock judges."""

from __future__ import annotations

from typing import Final

import attrs
import msgspec

from trisched.domain.node import Ability, Node
from trisched.storage.database import Tx
from trisched.storage.statements import load

SQL: Final = load("node")


@attrs.frozen(kw_only=True)
class Registration:
    """What a node says of itself when it comes."""

    id: str
    incarnation: str
    host: str
    pid: int
    version: str
    tags: tuple[str, ...]
    queues: tuple[str, ...]
    #: The Python functions it has, by name.
    tasks: tuple[str, ...]
    concurrency: int


def register(tx: Tx, node: Registration, *, nonce: str, lease_us: int, dead: str | None) -> bool:
    """Takes the row of ``node.id``; False if a living node has it. ``dead`` is an incarnation known to be gone."""
    row = tx.one(
        SQL.register,
        id=node.id,
        incarnation=node.incarnation,
        nonce=nonce,
        host=node.host,
        pid=node.pid,
        version=node.version,
        tags=msgspec.json.encode(node.tags).decode(),
        queues=msgspec.json.encode(node.queues).decode(),
        tasks=msgspec.json.encode(node.tasks).decode(),
        concurrency=node.concurrency,
        lease_us=lease_us,
        dead=dead or "",
    )
    return row is not None


def expire_others(tx: Tx, incarnation: str) -> None:
    """Ends the leases of all other nodes, where another proof says that they are gone."""
    tx.count(SQL.expire_others, incarnation=incarnation)


def find(tx: Tx, node_id: str) -> Node | None:
    """The node of that id."""
    return next((node for node in list_nodes(tx) if node.id == node_id), None)


def beat(tx: Tx, node_id: str, incarnation: str, *, nonce: str, nonces: list[str], lease_us: int) -> bool:
    """Renews the lease; False if the row is another's now."""
    return tx.count(SQL.beat, id=node_id, incarnation=incarnation, nonce=nonce, nonces=nonces, lease_us=lease_us) == 1


def leave(tx: Tx, node_id: str, incarnation: str) -> None:
    """Gives the lease up at once, so that others need not wait for its end."""
    tx.count(SQL.leave, id=node_id, incarnation=incarnation)


def drain(tx: Tx, node_id: str) -> bool:
    """Asks a node to take no more work."""
    return tx.count(SQL.drain, id=node_id) == 1


def list_nodes(tx: Tx) -> list[Node]:
    """All nodes known, also those that left lately."""
    return [_from_row(row) for row in tx.rows(SQL.list)]


def _from_row(row: tuple[object, ...]) -> Node:
    names = [field.name for field in attrs.fields(Node)]
    values = dict(zip(names, row, strict=True))
    for name in ("tags", "queues", "tasks"):
        values[name] = tuple(msgspec.json.decode(str(values[name])))
    return Node(**values)  # type: ignore[arg-type]


def abilities(tx: Tx) -> list[Ability]:
    """What the living nodes that execute can do."""
    return [Ability(*(frozenset(msgspec.json.decode(text)) for text in row)) for row in tx.rows(SQL.living)]


def gone(tx: Tx, grace_us: int, *, quiet: bool) -> list[str]:
    """Incarnations that hold runs and are gone; while ``quiet``, a lease that ran out does not prove it."""
    return [row[0] for row in tx.rows(SQL.gone, grace_us=grace_us, quiet=int(quiet))]


def leader_lives(tx: Tx) -> bool:
    """Whether the node that leads has a living lease itself."""
    return tx.one(SQL.leader_lives) is not None


def lapsed(tx: Tx, node_id: str, incarnation: str) -> bool:
    """Whether the lease of this node has run out, so that others may have taken its runs."""
    return tx.one(SQL.lapsed, id=node_id, incarnation=incarnation) is not None


def forget(tx: Tx, age_us: int) -> None:
    """Drops rows of nodes that left long ago."""
    tx.count(SQL.forget, age_us=age_us)
