"""Random lives of one run: whatever is asked in whatever order, its status follows the table of moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.stage import OUTCOMES, SECOND, new_run, registration
from trisched.domain.lifecycle import MOVES, Ending, Move
from trisched.domain.run import FINISHED, WAITS_OVERLAP, Run, RunStatus
from trisched.storage.database import Tx
from trisched.storage.migrate import migrate
from trisched.storage.sqlite import SqliteConnection
from trisched.storage.tables import node as node_table
from trisched.storage.tables import run as run_table

T = TypeVar("T")
ENDS = sorted(move for move, (sources, _) in MOVES.items() if RunStatus.RUNNING in sources)
STEPS = st.one_of(
    st.sampled_from(["claim", "promote", "free", "cancel", "revive", "resolve", "give_back", "complete", "wait"]),
    st.tuples(st.just("end"), st.sampled_from(ENDS)),
    st.tuples(st.just("stale"), st.sampled_from(ENDS), st.sampled_from(["token", "claim_id"])),
)
BIRTHS: list[dict[str, Any]] = [
    {"status": RunStatus.QUEUED},
    {"status": RunStatus.PENDING},
    {"status": RunStatus.PENDING, "waits": WAITS_OVERLAP, "slot_at": 1},
    {"status": RunStatus.SKIPPED},
]


class HandClock:
    """Time that moves when the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def now_us(self) -> int:
        return self.now


class Life:
    """One run in a database of its own, and the verbs that are tried on it."""

    def __init__(self, connection: SqliteConnection, clock: HandClock, birth: dict[str, Any]) -> None:
        self._connection, self._clock = connection, clock
        self._claims = 0
        run = new_run(due_at=clock.now + 5 * SECOND, **birth)
        self._id = run.id
        self._do(migrate)
        node = registration()
        self._do(lambda tx: node_table.register(tx, node, nonce="0", lease_us=10**15, dead=None))
        self._do(lambda tx: run_table.add(tx, [run]))

    def _do(self, work: Callable[[Tx], T]) -> T:
        [answer] = self._connection.transact([work])
        value: T = answer.unwrap()
        return value

    @property
    def run(self) -> Run:
        run = self._do(lambda tx: run_table.get(tx, self._id))
        assert run is not None
        return run

    def step(self, step: Any) -> set[Move]:
        """Does one step; the moves that it may have made."""
        match step:
            case ("end", move):
                end = self._ending(move)
                self._do(lambda tx: run_table.end_attempt(tx, end))
                return {move, Move.CANCEL}
            case ("stale", move, part):
                end = self._ending(move)
                wrong: dict[str, Any] = {"token": end.token - 1} if part == "token" else {"claim_id": "claim-wrong"}
                stale = attrs.evolve(end, **wrong)
                assert not self._do(lambda tx: run_table.end_attempt(tx, stale))
                assert not self._do(lambda tx: run_table.complete(tx, [stale]))
                return set()
        verb: Callable[[], set[Move]] = getattr(self, f"_{step}")
        return verb()

    def _ending(self, move: Move) -> Ending:
        run = self.run
        return Ending(
            run_id=run.id,
            token=run.token,
            claim_id=run.claim_id or "claim-none",
            move=move,
            outcome=OUTCOMES[move],
            delay=3.0,
        )

    def _claim(self) -> set[Move]:
        self._claims += 1
        claim_id = f"claim-{self._claims}"
        self._do(
            lambda tx: run_table.claim(
                tx, queue="default", node_id="node-a", incarnation="a-1", claim_id=claim_id, most=1, excluded=[]
            )
        )
        return {Move.CLAIM}

    def _complete(self) -> set[Move]:
        end = self._ending(Move.COMPLETE)
        self._do(lambda tx: run_table.complete(tx, [end]))
        return {Move.COMPLETE}

    def _promote(self) -> set[Move]:
        self._do(lambda tx: run_table.promote(tx, 1))
        return {Move.PROMOTE}

    def _free(self) -> set[Move]:
        self._do(run_table.free_waiting)
        return {Move.PROMOTE}

    def _cancel(self) -> set[Move]:
        self._do(lambda tx: run_table.cancel(tx, self._id, "why"))
        return {Move.CANCEL}

    def _revive(self) -> set[Move]:
        self._do(lambda tx: run_table.revive(tx, self._id))
        return {Move.REVIVE}

    def _resolve(self) -> set[Move]:
        self._do(lambda tx: run_table.resolve(tx, self._id, "why"))
        return {Move.RESOLVE}

    def _give_back(self) -> set[Move]:
        self._do(lambda tx: run_table.give_back(tx, f"claim-{self._claims}"))
        return {Move.RELEASE}

    def _wait(self) -> set[Move]:
        self._clock.now += 10 * SECOND
        return set()


@contextmanager
def _life(birth: dict[str, Any]) -> Iterator[Life]:
    clock = HandClock()
    connection = SqliteConnection(":memory:", clock, writer=True)
    try:
        yield Life(connection, clock, birth)
    finally:
        connection.close()


def _is_sound(run: Run) -> bool:
    return (
        (run.status is RunStatus.RUNNING) == (run.claim_id is not None)
        and (run.status in FINISHED) == (run.finished_at is not None)
        and 0 <= run.attempt <= run.token
        and run.failures + run.crashes <= run.attempt
    )


@settings(max_examples=60)
@given(birth=st.sampled_from(BIRTHS), steps=st.lists(STEPS, min_size=1, max_size=25))
def test_a_run_changes_only_along_the_table_of_moves(birth: dict[str, Any], steps: list[Any]) -> None:
    with _life(birth) as life:
        before = life.run
        for step in steps:
            moves = life.step(step)
            after = life.run
            if after.status is not before.status:
                allowed = {move for move in moves if before.status in MOVES[move][0]}
                assert after.status in {MOVES[move][1] for move in allowed}, (step, before, after)
            if not moves:
                assert after == before, (step, before, after)
            assert after.token - before.token == (
                after.status is RunStatus.RUNNING and before.status is not after.status
            )
            assert _is_sound(after), (step, before, after)
            before = after


@settings(max_examples=60)
@given(birth=st.sampled_from(BIRTHS), steps=st.lists(STEPS, max_size=12), move=st.sampled_from(ENDS))
def test_an_end_takes_effect_exactly_while_the_run_is_held(birth: dict[str, Any], steps: list[Any], move: Move) -> None:
    with _life(birth) as life:
        for step in steps:
            life.step(step)
        before = life.run
        life.step(("end", move))
        after = life.run
        assert (after != before) is (before.status is RunStatus.RUNNING)
        if before.status is RunStatus.RUNNING and before.cancel_requested_at is None:
            assert after.status is MOVES[move][1]
