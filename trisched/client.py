"""The REST interface of a node from Python: one method per verb, JSON objects out, trisched's own errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx
import trio

from trisched.domain.duration import parse_duration
from trisched.domain.run import FINISHED, RunStatus
from trisched.errors import (
    Conflict,
    FieldError,
    Invalid,
    NotFound,
    RunFailed,
    Stale,
    StoreFull,
    StoreUnavailable,
    TooLarge,
    TrischedError,
    Unreadable,
    WaitTimeout,
)

JsonObject = dict[str, Any]

DEFAULT_URL: Final = "http://127.0.0.1:8000"
#: Longer than a busy node takes to answer, shorter than a person waits.
_TIMEOUT: Final = 30.0
#: Waiting asks often at first, for most runs are short, then once a second.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_LOOPBACK: Final = ("127.", "::1", "localhost")
_MISSING: Final = re.compile(r"no (\w+) ['\"](.*)['\"]")
_ERRORS: Final[Mapping[int, type[TrischedError]]] = {
    400: Unreadable,
    409: Conflict,
    412: Stale,
    413: TooLarge,
    503: StoreUnavailable,
    507: StoreFull,
}


def discover(data_dir: Path, environ: Mapping[str, str], default: str = DEFAULT_URL) -> str:
    """The address of the node to talk to: ``TRISCHED_URL``, the node of ``data_dir``, or ``default``."""
    if url := environ.get("TRISCHED_URL"):
        return url
    try:
        url = json.loads((data_dir / "node.json").read_text())["url"]
    except (OSError, ValueError, LookupError, TypeError):
        return default
    return url if isinstance(url, str) and url else default


class Client:
    """A connection to one node; use it as ``async with Client(url) as client``."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid.at("url", f"{url!r} is not an address; write it like {DEFAULT_URL}")
        self.url = url.rstrip("/")
        # A proxy from the environment cannot reach this host's own loopback.
        local = parts.hostname.startswith(_LOOPBACK)
        self._http = httpx.AsyncClient(base_url=self.url, timeout=_TIMEOUT, trust_env=not local)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)

    async def jobs(self, **filters: object) -> JsonObject:
        """``{"jobs": […], "total": n, "counts": {…}}``; the filters are those of ``GET /api/jobs``."""
        return await self._object("GET", "/api/jobs", params=filters)

    async def job(self, job: str) -> JsonObject:
        """One job, by id or name."""
        return await self._object("GET", f"/api/jobs/{_segment(job)}")

    async def create_job(self, **fields: object) -> JsonObject:
        """The new job, with its id and the moment of its next run."""
        return await self._object("POST", "/api/jobs", json=fields)

    async def enable(self, job: str) -> JsonObject:
        """Lets the schedule of ``job`` make runs again."""
        return await self._object("POST", f"/api/jobs/{_segment(job)}/enable")

    async def disable(self, job: str) -> JsonObject:
        """Stops the schedule of ``job`` from making runs."""
        return await self._object("POST", f"/api/jobs/{_segment(job)}/disable")

    async def trigger(self, job: str, **options: object) -> JsonObject:
        """A run of a stored job, now: ``{"run_id", "status", "created"}``."""
        return await self._object("POST", f"/api/jobs/{_segment(job)}/trigger", json=_given(options))

    async def slots(self, job: str, **options: object) -> JsonObject:
        """``{"slots": […], "next"}``: what became of the slots of ``job``; options: from, to, limit."""
        return await self._object("GET", f"/api/jobs/{_segment(job)}/slots", params=options)

    async def backfill(self, job: str, **options: object) -> JsonObject:
        """Makes the missing slots of a range; options: from, to, dry_run, expect."""
        return await self._object("POST", f"/api/jobs/{_segment(job)}/backfill", json=_given(options))

    async def why(self, job: str, **options: object) -> JsonObject:
        """Sentences on a slot of ``job``, or on how it stands."""
        return await self._object("GET", f"/api/jobs/{_segment(job)}/why", params=options)

    async def why_run(self, run_id: str) -> JsonObject:
        """Sentences on how a run came to where it is."""
        return await self._object("GET", f"/api/runs/{_segment(run_id)}/why")

    async def submit(self, job: str, parameters: Mapping[str, object] | None = None, **options: object) -> JsonObject:
        """A run with parameters of its own: ``{"run_id", "status", "created"}``."""
        request = {"job": job, "parameters": dict(parameters or {}), **_given(options)}
        return await self._object("POST", "/api/runs", json=request)

    async def submit_batch(self, runs: Sequence[Mapping[str, object]]) -> list[JsonObject]:
        """Many runs in one transaction: all are stored, or none; the answers are in their order."""
        answer = await self._object("POST", "/api/runs/batch", json={"runs": list(runs)})
        return list(answer["runs"])

    async def runs(self, **filters: object) -> JsonObject:
        """``{"runs": […], "next": cursor}``; the filters are those of ``GET /api/runs``."""
        return await self._object("GET", "/api/runs", params=filters)

    async def run(self, run_id: str) -> JsonObject:
        """One run with its attempts."""
        return await self._object("GET", f"/api/runs/{_segment(run_id)}")

    async def output(
        self, run_id: str, *, attempt: int | None = None, token: int | None = None, after: int | None = None
    ) -> JsonObject:
        """Lines of output with number, time and stream; ``after`` leaves out the lines up to that number."""
        filters = {"attempt": attempt, "token": token, "after": after}
        return await self._object("GET", f"/api/runs/{_segment(run_id)}/output", params=filters)

    async def cancel(self, run_id: str) -> JsonObject:
        """Takes a waiting run back, or asks a running one to stop."""
        return await self._object("POST", f"/api/runs/{_segment(run_id)}/cancel")

    async def retry(self, run_id: str) -> JsonObject:
        """Gives a finished run new attempts."""
        return await self._object("POST", f"/api/runs/{_segment(run_id)}/retry")

    async def workers(self) -> list[JsonObject]:
        """The nodes that execute runs."""
        return await self._objects("/api/workers")

    async def queues(self) -> list[JsonObject]:
        """The queues and what waits in them."""
        return await self._objects("/api/queues")

    async def system(self) -> JsonObject:
        """The state of the cluster as this node sees it."""
        return await self._object("GET", "/api/system")

    async def preview(
        self, cron: str, *, tz: str | None = None, after: str | None = None, count: int | None = None
    ) -> JsonObject:
        """A schedule in words, with its next fires; nothing is stored."""
        filters = {"cron": cron, "tz": tz, "from": after, "count": count}
        return await self._object("GET", "/api/schedules/preview", params=filters)

    async def wait(
        self,
        run_id: str,
        timeout: float | str | None = None,
        *,
        watch: Callable[[JsonObject], None] = lambda _: None,
    ) -> JsonObject:
        """The run once it completed. RunFailed if it ended otherwise, WaitTimeout if it goes on for too long.

        A held run counts as ended: it does not move before a person decides. ``watch`` gets the run at each look.
        """
        limit = float("inf") if timeout is None else parse_duration(timeout, "timeout")
        pause, deadline = _FIRST_PAUSE, trio.current_time() + limit
        while True:
            run = await self.run(run_id)
            watch(run)
            status = run["status"]
            if status == RunStatus.COMPLETED:
                return run
            if status in FINISHED or status == RunStatus.HELD:
                raise RunFailed(run_id, status, failure_of(run))
            left = deadline - trio.current_time()
            if left <= 0:
                raise WaitTimeout(run_id, status)
            await trio.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def _object(self, method: str, path: str, **request: Any) -> JsonObject:
        answer = await self._ask(method, path, **request)
        if not isinstance(answer, dict):
            raise TrischedError(f"{self.url}{path} did not answer with a JSON object: is that a trisched node?")
        return answer

    async def _objects(self, path: str) -> list[JsonObject]:
        answer = await self._ask("GET", path)
        if not isinstance(answer, list):
            raise TrischedError(f"{self.url}{path} did not answer with a JSON list: is that a trisched node?")
        return answer

    async def _ask(self, method: str, path: str, **request: Any) -> object:
        request["params"] = _given(request.get("params", {}))
        if method == "POST":
            request.setdefault("json", {})
        try:
            response = await self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise StoreUnavailable(
                f"no answer from {self.url} ({_reason(error)}); start a node with `trisched run`, "
                "or name the address of one with --url or TRISCHED_URL"
            ) from error
        if not response.is_success:
            raise _error(response)
        try:
            return response.json()
        except ValueError:
            raise TrischedError(f"{self.url}{path} did not answer with JSON: is that a trisched node?") from None


def failure_of(run: Mapping[str, Any]) -> str | None:
    """Why a run did not complete: its reason, else the error of its last attempt."""
    if run.get("reason"):
        return str(run["reason"])
    errors = [attempt["error"] for attempt in run.get("attempts") or () if attempt.get("error")]
    return str(errors[-1]) if errors else None


def _segment(name: str) -> str:
    """``name`` as one part of a path, whatever it contains."""
    # A name of dots alone would be taken for a step up.
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _given(options: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _reason(error: httpx.TransportError) -> str:
    return str(error) or type(error).__name__


def _error(response: httpx.Response) -> TrischedError:
    """The error that the node meant, from its status and its problem document."""
    problem = _problem(response)
    detail = str(problem.get("detail") or problem.get("title") or f"status {response.status_code}")
    if response.status_code == 422:
        return Invalid([*_field_errors(problem)] or [FieldError("", detail)])
    if response.status_code == 404 and (match := _MISSING.search(detail)):
        return NotFound(match[1], match[2])
    if response.status_code == 404:
        return NotFound("page", response.url.path)
    kind = _ERRORS.get(response.status_code)
    if kind is not None:
        return kind(detail)
    return TrischedError(f"{response.url} answered {response.status_code}: {detail}")


def _problem(response: httpx.Response) -> JsonObject:
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _field_errors(problem: JsonObject) -> Iterator[FieldError]:
    for error in problem.get("errors") or ():
        if isinstance(error, dict):
            yield FieldError(str(error.get("path", "")), str(error.get("message", "")))
