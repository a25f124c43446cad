"""From a job to what executes it on this node; worked out once per revision, not once per run."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from trisched.domain.job import Job
from trisched.storage.job_cache import JobCache
from trisched.worker.executors import Executor
from trisched.worker.executors.function import BoundFunction
from trisched.worker.secrets import needed
from trisched.worker.tasks import Tasks


@attrs.define
class Plan:
    """How this node runs a job."""

    job: Job
    executor: Executor
    function: BoundFunction | None
    #: Whether other runs of the job may be waiting for this one to end.
    frees_others: bool
    #: The names of the secrets that an attempt needs.
    secrets: tuple[str, ...] = ()


class Plans:
    """The plans of all jobs that this node can run, and the ids of those it cannot."""

    def __init__(self, cache: JobCache, tasks: Tasks, executors: Mapping[str, Executor], tags: frozenset[str]) -> None:
        self._cache, self._tasks, self._executors, self._tags = cache, tasks, executors, tags
        self._version = -1
        self._plans: dict[str, Plan] = {}
        #: Jobs whose runs are left for other nodes.
        self.excluded: list[str] = []

    async def refresh(self) -> None:
        """Reads changed jobs and works their plans out."""
        await self._cache.refresh()
        if self._cache.version == self._version:
            return
        self._version = self._cache.version
        made = {job.id: self._plan(job) for job in self._cache.jobs.values()}
        self._plans = {job_id: plan for job_id, plan in made.items() if plan is not None}
        self.excluded = sorted({job_id for job_id, plan in made.items() if plan is None} | self._cache.broken.keys())

    def leave(self, job_ids: set[str]) -> None:
        """Leaves the runs of these jobs, which nobody here knows, for others until some job changes."""
        self.excluded = sorted({*self.excluded, *job_ids})

    def find(self, job_id: str) -> Plan | None:
        """The plan of that job, if this node can run it."""
        return self._plans.get(job_id)

    def _plan(self, job: Job) -> Plan | None:
        known = self._plans.get(job.id)
        if known is not None and known.job.revision == job.revision:
            return known
        spec = job.spec
        if not self._tags.issuperset(spec.requires):
            return None
        frees = spec.overlap in ("queue", "cancel_running") or spec.misfire == "catch_up_all"
        if spec.type != "python":
            executor = self._executors.get(spec.type)
            return None if executor is None else Plan(job, executor, None, frees, needed(spec))
        task = self._tasks.find(spec.function or "")
        executor = None if task is None else self._executors.get(task.mode)
        return None if task is None or executor is None else Plan(job, executor, task.bound, frees)
