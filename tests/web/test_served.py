"""Over a real socket: what only the server and the framework together decide."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from tests.operations.stage import shell
from tests.web.stage import Browser
from trisched.web.body import BATCH_LIMIT
from trisched.web.listen import address, listen
from trisched.web.serve import serve


@asynccontextmanager
async def served(web: Browser) -> AsyncIterator[httpx.AsyncClient]:
    bound, stopping = listen("127.0.0.1", 0), trio.Event()
    url = address(bound)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, web.app, bound, stopping)
        async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
            yield client
        stopping.set()


async def endless(chunks: int) -> AsyncIterator[bytes]:
    for _ in range(chunks):
        yield b"x" * 65_536


async def test_an_encoded_slash_is_part_of_a_name(web: Browser) -> None:
    async with served(web) as client:
        assert (await client.post("/api/jobs", json=shell("a/trigger"))).status_code == 201
        assert (await client.get("/api/jobs/a%2Ftrigger")).json()["name"] == "a/trigger"
        assert (await client.post("/api/jobs/a%2ftrigger/trigger")).status_code == 201
        assert (await client.post("/api/jobs/a/trigger")).status_code == 404


@pytest.mark.parametrize("path", ["/api/runs/batch", "/api/jobs", "/api/nothing"])
async def test_a_client_that_sends_too_much_gets_its_answer(web: Browser, path: str) -> None:
    chunks = BATCH_LIMIT // 65_536 + 20
    async with served(web) as client:
        for _ in range(2):
            reply = await client.post(path, content=endless(chunks), headers={"Content-Type": "application/json"})
            assert reply.status_code == (404 if path == "/api/nothing" else 413)
        assert (await client.get("/healthz")).status_code == 200
