"""Reading runs: one with its attempts, its output, and lists page by page."""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any, Final

import attrs
import msgspec

from trisched.domain.run import FINISHED, STATUS_GROUPS, Attempt, Run, RunStatus
from trisched.domain.text import parse_choice, parse_number
from trisched.errors import Invalid, NotFound
from trisched.operations.scope import Scope, is_storable
from trisched.storage.database import Tx
from trisched.storage.tables import attempt as attempt_table
from trisched.storage.tables import job as job_table
from trisched.storage.tables import run as run_table
from trisched.storage.tables import run_lookup

#: What ``status`` may be in a list: a status, or a word for several.
STATUS_WORDS: Final = (*(status.value for status in RunStatus), *STATUS_GROUPS)
DEFAULT_LIMIT: Final = 50
MOST: Final = 1000
_CURSOR: Final = re.compile(r"run-[0-9a-f]{26}")
#: Ids carry the clock of the node that made them: an hour covers any clock that works at all.
_SKEW_US: Final = 3_600_000_000
#: The head and tail that a run's detail shows of its output; ``output`` has all of it.
_SHOWN: Final = 65_536


@attrs.frozen(kw_only=True)
class RunDetail:
    """A run, with what is known of its attempts."""

    run: Run
    job_name: str
    #: Those that ended, the earliest first. One that is under way is told by the run itself.
    attempts: list[Attempt]
    #: The database's time of this answer.
    now: int
    #: The text of the last attempt's output, cut in the middle if long; None if it was not asked for.
    output: str | None = None


@attrs.frozen
class OutputLine:
    """One line of output; ``stream`` is stdout, stderr or log."""

    number: int
    at: int
    stream: str
    text: str


@attrs.frozen(kw_only=True)
class RunFilter:
    """Which runs to list; None means all."""

    status: str | None = None
    job: str | None = None
    #: Bounds of the time it was made, in microseconds: from (inclusive) to (exclusive).
    since: int | None = None
    until: int | None = None
    queue: str | None = None
    worker: str | None = None


@attrs.frozen(kw_only=True)
class RunPage:
    """Some runs, newest first, the names of their jobs by id, and where the next page begins."""

    runs: list[Run]
    job_names: dict[str, str]
    now: int
    next: str | None


def required_run(tx: Tx, run_id: str) -> Run:
    """The run of that id; NotFound if there is none."""
    run = run_table.get(tx, run_id) if is_storable(run_id) else None
    if run is None:
        raise NotFound("run", run_id)
    return run


async def get(scope: Scope, run_id: str, *, with_output: bool = False) -> RunDetail:
    """The run with its attempts."""

    def work(tx: Tx) -> RunDetail:
        run = required_run(tx, run_id)
        name = job_table.names_of_ids(tx, [run.job_id]).get(run.job_id, run.job_id)
        attempts = attempt_table.of_run(tx, run_id)
        output = _shown(_lines(tx, run_id, run.token)) if with_output else None
        return RunDetail(run=run, job_name=name, attempts=attempts, now=run_table.now(tx), output=output)

    return await scope.database.read(work)


async def output(
    scope: Scope, run_id: str, *, attempt: int | None = None, token: int | None = None, after: int = 0
) -> list[OutputLine]:
    """The lines of one attempt (the latest, unless told) whose numbers are beyond ``after``.

    A token names an attempt exactly; a number may stand for two when the first was released.
    """

    def work(tx: Tx) -> list[OutputLine]:
        run = required_run(tx, run_id)
        if token is None and attempt is not None:
            wanted = _token_of(tx, run, attempt)
        else:
            wanted = run.token if token is None else token
        return [line for line in _lines(tx, run_id, wanted) if line.number > after]

    return await scope.database.read(work)


def _token_of(tx: Tx, run: Run, number: int) -> int:
    if run.status is RunStatus.RUNNING and number == run.attempt:
        return run.token
    # A released attempt does not count, so its number may come again: the later one is meant.
    tokens = [attempt.token for attempt in attempt_table.of_run(tx, run.id) if attempt.number == number]
    if not tokens:
        raise NotFound("attempt", f"{run.id}/{number}")
    return tokens[-1]


def _lines(tx: Tx, run_id: str, token: int) -> list[OutputLine]:
    lines: list[OutputLine] = []
    for chunk in attempt_table.output_of(tx, run_id, token):
        found = [OutputLine(*line) for line in msgspec.json.decode(chunk)]
        # The latest lines, shown while the tail was not stored, may be in both.
        last = lines[-1].number if lines else 0
        lines += found if found and found[0].number > last else [line for line in found if line.number > last]
    return lines


def _shown(lines: Iterable[OutputLine]) -> str:
    text = "\n".join(line.text for line in lines)
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]}\n… {len(text) - _SHOWN:,} characters left out; see the run's output …\n{text[-half:]}"


async def list_runs(
    scope: Scope, wanted: RunFilter, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None
) -> RunPage:
    """One page of the runs that meet the filter. Following ``next`` meets every run once, whatever is added."""
    most = parse_number(limit, "limit", least=1, most=MOST)
    conditions, parameters = _conditions(wanted)
    if cursor is not None:
        conditions.append("id < :before")
        parameters["before"] = _read_cursor(cursor)

    def work(tx: Tx) -> RunPage:
        now = run_table.now(tx)
        if wanted.job is not None and not _add_job(tx, wanted.job, parameters):
            return RunPage(runs=[], job_names={}, now=now, next=None)
        found = run_lookup.list_runs(tx, conditions, parameters, most + 1)
        runs = found[:most]
        names = job_table.names_of_ids(tx, sorted({run.job_id for run in runs}))
        last = _write_cursor(runs[-1].id) if len(found) > most else None
        return RunPage(runs=runs, job_names=names, now=now, next=last)

    return await scope.database.read(work)


def _add_job(tx: Tx, job: str, parameters: dict[str, Any]) -> bool:
    """Resolves a name or id; a removed job is found by its id. False if there never was one."""
    if not is_storable(job):
        return False
    found = job_table.find_id(tx, job)
    parameters["job_id"] = found
    return found is not None


def _conditions(wanted: RunFilter) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    if wanted.status is not None:
        statuses = statuses_of(wanted.status)
        conditions.append("status {in:statuses}")
        parameters["statuses"] = sorted(statuses)
        if not statuses & FINISHED:
            # Lets the index of what is not over serve the list.
            conditions.append("finished_at IS NULL")
    for column, value in (("queue", wanted.queue), ("node_id", wanted.worker)):
        if value is not None:
            conditions.append(f"{column} = :{column}")
            parameters[column] = _storable(value, "worker" if column == "node_id" else column)
    if wanted.job is not None:
        conditions.append("job_id = :job_id")
    if wanted.since is not None:
        conditions.append("id >= :first_id AND created_at >= :since")
        parameters |= {"first_id": id_at(wanted.since - _SKEW_US), "since": wanted.since}
    if wanted.until is not None:
        conditions.append("id < :last_id AND created_at < :until")
        parameters |= {"last_id": id_at(wanted.until + _SKEW_US), "until": wanted.until}
    return conditions, parameters


def statuses_of(word: str) -> frozenset[RunStatus]:
    """The statuses that a word of a filter stands for."""
    parse_choice(word, "status", STATUS_WORDS)
    return STATUS_GROUPS.get(word) or frozenset({RunStatus(word)})


def _storable(text: str, path: str) -> str:
    if not is_storable(text):
        raise Invalid.at(path, "must not contain NUL characters or lone surrogates")
    return text


def id_at(at: int) -> str:
    """A text that sorts before the ids of runs made after ``at``."""
    return f"run-{max(at, 0):014x}"


def _write_cursor(run_id: str) -> str:
    return urlsafe_b64encode(f"runs:{run_id}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        kind, _, run_id = urlsafe_b64decode(padded).decode("ascii").partition(":")
    except (ValueError, binascii.Error):
        kind, run_id = "", ""
    if kind != "runs" or not _CURSOR.fullmatch(run_id):
        raise Invalid.at("cursor", "is none of this list; use `next` of the page before, as it is")
    return run_id
