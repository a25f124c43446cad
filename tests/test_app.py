"""The embedded App: declare, submit, wait, trigger; in Trio, in a thread, and as a client without a node."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest
import trio

import trisched
from tests.worker.http_server import answer, serving


def make_app(database_url: str, tmp_path: Path) -> trisched.App:
    return trisched.App(database_url, data_dir=str(tmp_path / "data"), web=False)


async def test_submitted_run_gives_its_result(database_url: str, tmp_path: Path) -> None:
    app = make_app(database_url, tmp_path)

    @app.job()
    async def add(left: int, right: int) -> int:
        return left + right

    async with app.running():
        run = await add.submit(left=2, right=3)
        assert await run.wait(timeout="20s") == 5
        assert await run.status() == "completed"


async def test_handle_is_still_the_function(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)

    @app.job()
    async def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert await double(4) == 8
    assert double.__doc__ == "Twice."


async def test_submit_many_keeps_the_order(database_url: str, tmp_path: Path) -> None:
    app = make_app(database_url, tmp_path)

    @app.job()
    async def square(number: int) -> int:
        return number**2

    async with app.running():
        runs = await square.submit_many({"number": number} for number in range(50))
        assert [await run.wait(timeout="30s") for run in runs] == [number**2 for number in range(50)]


async def test_same_key_gives_the_same_run(database_url: str, tmp_path: Path) -> None:
    app = make_app(database_url, tmp_path)
    calls = []

    @app.job()
    async def welcome(customer: int) -> None:
        calls.append(customer)

    async with app.running():
        first = await welcome.submit(customer=7, key="welcome:7")
        await first.wait(timeout="20s")
        second = await welcome.submit(customer=7, key="welcome:7")
        assert (second.id, first.created, second.created) == (first.id, True, False)
        with pytest.raises(trisched.Conflict):
            await welcome.submit(customer=8, key="welcome:7")
    assert calls == [7]


async def test_triggers_at_once_collapse_onto_one_run(database_url: str, tmp_path: Path) -> None:
    app = make_app(database_url, tmp_path)
    release = trio.Event()

    @app.job()
    async def report() -> None:
        await release.wait()

    found: set[str] = set()

    async def trigger() -> None:
        found.add((await report.trigger()).id)

    async with app.running():
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(trigger)
        release.set()
        assert len(found) == 1


async def test_failing_run_says_why(database_url: str, tmp_path: Path) -> None:
    app = make_app(database_url, tmp_path)

    @app.job(retries=1, backoff={"kind": "fixed", "base": 0.01, "jitter": 0})
    async def broken() -> None:
        raise ValueError("out of paper")

    async with app.running():
        run = await broken.submit()
        with pytest.raises(trisched.RunFailed, match="dead: ValueError: out of paper"):
            await run.wait(timeout="20s")


async def test_waiting_ends_in_time(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)

    @app.job()
    async def later() -> None: ...

    async with app.running():
        run = await later.submit(delay="1h")
        with pytest.raises(trisched.WaitTimeout, match="still pending"):
            await run.wait(timeout=0.05)
        await run.cancel()
        with pytest.raises(trisched.RunFailed, match="cancelled"):
            await run.wait(timeout="5s")


async def test_context_tells_who_one_is_and_submits_more(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)

    @app.job()
    async def child(number: int) -> int:
        return number + 1

    @app.job()
    async def parent(ctx: trisched.Context) -> list[object]:
        run = await ctx.submit("child", {"number": 41}, key=f"{ctx.run_id}:child")
        return [ctx.job, ctx.attempt, ctx.lease_ok(), await run.wait(timeout="10s")]

    async with app.running():
        run = await parent.submit()
        assert await run.wait(timeout="20s") == ["parent", 1, True, 42]


async def test_plain_function_runs_in_a_thread(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)

    @app.job()
    def name_of_thread() -> str:
        return threading.current_thread().name

    async with app.running():
        assert await (await name_of_thread.submit()).wait(timeout="20s") != threading.current_thread().name


async def test_wrong_parameters_are_refused_by_name(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)

    @app.job()
    async def mail(to: str) -> None: ...

    async with app.running():
        with pytest.raises(trisched.Invalid, match=r"parameters\.two"):
            await mail.submit(two="a@example.com")


async def test_declaring_again_keeps_the_next_run(database_url: str, tmp_path: Path) -> None:
    def declared(schedule: str) -> trisched.App:
        app = make_app(database_url, tmp_path)

        @app.job(schedule=schedule)
        async def hourly() -> None: ...

        return app

    async def next_run(app: trisched.App) -> datetime | None:
        async with app.open():
            return await app.next_run("hourly")

    first = await next_run(declared("every 1h"))
    await trio.sleep(0.01)
    assert await next_run(declared("every 1h")) == first
    assert await next_run(declared("every 2h")) != first


async def test_unknown_field_is_refused_where_it_is_written(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)
    with pytest.raises(TypeError, match="retrys is not a field"):
        app.job(retrys=3)(lambda: None)


async def test_second_node_on_a_sqlite_file_is_refused_with_the_pid(tmp_path: Path) -> None:
    database = str(tmp_path / "t.db")
    async with make_app(database, tmp_path).running():
        with pytest.raises(trisched.Misconfigured, match=f"pid {os.getpid()}"):
            async with make_app(database, tmp_path).running():
                pass


async def test_error_in_the_block_comes_out_as_it_is_and_releases_the_work(tmp_path: Path) -> None:
    database = str(tmp_path / "t.db")
    started = trio.Event()

    def build() -> trisched.App:
        app = make_app(database, tmp_path)

        @app.job()
        async def sleeper() -> str:
            started.set()
            await trio.sleep(0.2 if again else 3600)
            return "slept"

        return app

    again = False
    app = build()
    run_id = ""

    async def fail() -> None:
        nonlocal run_id
        async with app.running():
            run_id = (await app.submit("sleeper")).id
            await started.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    again = True
    app = build()
    async with app.running():
        run = await app.find_run(run_id)
        assert await run.wait(timeout="20s") == "slept"


def test_programs_without_trio(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "t.db"), tmp_path)

    @app.job()
    def add(left: int, right: int) -> int:
        return left + right

    with app.start_in_thread():
        run = app.sync.submit("add", {"left": 1, "right": 2})
        assert app.sync.wait(run, timeout="20s") == 3
        runs = app.sync.submit_many("add", [{"left": number, "right": 0} for number in range(5)])
        assert [app.sync.wait(run, timeout="20s") for run in runs] == list(range(5))


def test_sync_without_a_node_only_submits(tmp_path: Path) -> None:
    database = str(tmp_path / "t.db")
    client = make_app(database, tmp_path)
    client.shell("greet", "echo hello")
    run = client.sync.submit("greet")
    assert run.created
    client.sync.close()

    node = make_app(database, tmp_path)
    with node.start_in_thread():
        node.sync.wait(run.id, timeout="20s")


CRASH = """
import sys, trio, trisched
app = trisched.App(sys.argv[1], data_dir=sys.argv[2], web=False)

@app.job()
async def sleeper():
    print("started", flush=True)
    await trio.sleep(3600)

async def main():
    async with app.running():
        await sleeper.submit()
        await trio.sleep_forever()

trio.run(main)
"""


def kill_at_work(database: str, data_dir: Path) -> None:
    """Starts a node in another process and kills it while it works."""
    command = [sys.executable, "-c", CRASH, database, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crashing:
        assert crashing.stdout is not None
        assert crashing.stdout.readline() == "started\n"
        crashing.kill()


async def test_work_of_a_killed_node_is_taken_up_at_the_next_start(tmp_path: Path) -> None:
    database = str(tmp_path / "t.db")
    await trio.to_thread.run_sync(kill_at_work, database, tmp_path / "data")
    app = make_app(database, tmp_path)
    done = trio.Event()

    async def sleeper() -> None:
        done.set()

    app.task("main.sleeper")(sleeper)
    async with app.running():
        # Less than a lease: the file's lock proves that the old node is gone.
        with trio.fail_after(14):
            await done.wait()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_node_that_cannot_start_lets_its_port_go(tmp_path: Path) -> None:
    app = trisched.App(str(tmp_path / "t.db"), data_dir=str(tmp_path), port=0)
    app.shell("orphan", "true", depends_on=["nobody"])
    counts: list[int] = []
    for _ in range(2):
        with pytest.raises(trisched.Invalid, match="no job 'nobody'"):
            async with app.running():
                pass
        counts.append(open_files())
    assert counts[0] == counts[1]


async def test_an_http_job_keeps_its_key_over_all_attempts(database_url: str, tmp_path: Path) -> None:
    app = trisched.App(
        database_url, data_dir=str(tmp_path / "data"), web=False, http_allow=["127.0.0.1"], secrets_dir=tmp_path
    )
    (tmp_path / "TOKEN").write_text("s3cr3t-7f\n")
    async with serving(answer(503), answer(200, b'{"token": "s3cr3t-7f"}', Content_Type="application/json")) as server:
        app.http(
            "hook",
            server.url("/{{parameters.id}}"),
            headers={"Authorization": "${secret:TOKEN}"},
            json={"id": "{{parameters.id}}"},
            retries=2,
            backoff={"kind": "fixed", "base": 0, "jitter": 0},
        )
        async with app.running():
            run = await app.submit("hook", {"id": 7})
            result = await run.wait(timeout="30s")
    assert (result["status"], result["json"]) == (200, {"token": "***"})
    first, second = server.received
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == run.id
    assert [sent.headers["x-trisched-attempt"] for sent in server.received] == ["1", "2"]
    assert first.headers["x-trisched-token"] != second.headers["x-trisched-token"]
    assert (second.target, second.json, second.headers["authorization"]) == ("/7", {"id": 7}, "s3cr3t-7f")
