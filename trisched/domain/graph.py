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


def in_order(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """All names, each after everything it depends on; names of a cycle come last, by name."""
    waiting = {name: set(needs) & edges.keys() for name, needs in edges.items()}
    freed_by: dict[str, list[str]] = {name: [] for name in edges}
    for name, needs in waiting.items():
        for need in needs:
            freed_by[need].append(name)
    ordered: list[str] = []
    ready = sorted(name for name, needs in waiting.items() if not needs)
    while ready:
        ordered += ready
        following = []
        for done in ready:
            del waiting[done]
            for name in freed_by[done]:
                waiting[name].discard(done)
                if not waiting[name]:
                    following.append(name)
        ready = sorted(following)
    return ordered + sorted(waiting)
