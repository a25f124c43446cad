"""Nodes: one trisched process, its lease, and the arithmetic that keeps two of them apart."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class LeaseTimes:
    """The durations of the protocol, in seconds; the defaults are those of the contract."""

    node: float = 15.0
    beat: float = 3.0
    margin: float = 5.0
    grace: float = 2.0
    leader: float = 5.0
    leader_beat: float = 1.0
    #: How far the rates of two clocks may differ.
    drift: float = 0.01

    def trusted(self) -> float:
        """How long after asking a node may act on its lease: (L − M)(1 − ρ)."""
        return (self.node - self.margin) * (1 - self.drift)

    def leader_trusted(self) -> float:
        """How long after asking a leader may act; one beat and the drift are kept as margin."""
        return (self.leader - self.leader_beat) * (1 - self.drift)


@attrs.frozen(kw_only=True)
class Node:
    """One process of the cluster, as stored."""

    id: str
    incarnation: str
    host: str
    pid: int
    version: str
    tags: tuple[str, ...]
    queues: tuple[str, ...]
    concurrency: int
    started_at: int
    last_seen_at: int
    lease_until: int
    draining_at: int | None
