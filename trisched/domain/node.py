"""Nodes: one trisched process, its lease, and the arithmetic that keeps two of them apart."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from trisched.domain.job import JobSpec


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


@attrs.frozen
class Ability:
    """What a node can do: its tags, and the Python functions it has."""

    tags: frozenset[str]
    tasks: frozenset[str]

    def can_run(self, spec: JobSpec) -> bool:
        """Whether a run of the job may go to this node."""
        return self.tags.issuperset(spec.requires) and (spec.type != "python" or task_name(spec) in self.tasks)


def task_name(spec: JobSpec) -> str:
    """The name under which the function of a Python job is registered; ``a:b`` and ``a.b`` are the same."""
    return (spec.function or "").replace(":", ".")


def why_unrunnable(spec: JobSpec, abilities: Sequence[Ability]) -> str | None:
    """Why no living node can run the job, for people; None if one can."""
    if any(ability.can_run(spec) for ability in abilities):
        return None
    if not abilities:
        return "no node that executes is alive"
    if spec.type == "python" and not any(task_name(spec) in ability.tasks for ability in abilities):
        return f"no living node has the task {task_name(spec)!r}; its runs wait for one"
    tags = ", ".join(spec.requires)
    return f"no living node that could run it has the tags it requires ({tags}); its runs wait for one"


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
    tasks: tuple[str, ...]
    concurrency: int
    started_at: int
    last_seen_at: int
    lease_until: int
    draining_at: int | None
