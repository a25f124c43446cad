"""The graph of ``depends_on``: a cycle is found with its path, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def find_cycle(edges: Mapping[str, Iterable[str]], start: str) -> list[str] | None:
    """The path from ``start`` back to itself along ``edges`` (name → what it depends on), or None.

    Iterative, for a chain may be deeper than Python's stack.
    """
    path = [start]
    pending = [iter(edges.get(start, ()))]
    seen: set[str] = set()
    while pending:
        node = next(pending[-1], None)
        if node is None:
            pending.pop()
            path.pop()
        elif node == start:
            return [*path, start]
        elif node not in seen:
            seen.add(node)
            path.append(node)
            pending.append(iter(edges.get(node, ())))
    return None
