"""Real Postgres and Redis servers for tests: found, started on a free port, and sure to end.

A server comes from the environment (``TRISCHED_TEST_POSTGRES``, ``TRISCHED_TEST_REDIS``), else from the
system's programs, else from wheels of the package index. Each started one lives under ``guard.py``, which
ends it together with the process that asked for it.
"""

from tests.servers.postgres import PostgresServer
from tests.servers.process import CannotStart
from tests.servers.redis import RedisServer

__all__ = ["CannotStart", "PostgresServer", "RedisServer"]
