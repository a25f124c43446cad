"""trisched: a job scheduler and priority task queue for Python, built on Trio."""

from trisched.app import App
from trisched.errors import (
    Conflict,
    Invalid,
    Misconfigured,
    NotFound,
    RunFailed,
    StoreUnavailable,
    TrischedError,
    WaitTimeout,
)
from trisched.handle import JobHandle, RunHandle
from trisched.worker.context import Context

__version__ = "0.1.0"

__all__ = [
    "App",
    "Conflict",
    "Context",
    "Invalid",
    "JobHandle",
    "Misconfigured",
    "NotFound",
    "RunFailed",
    "RunHandle",
    "StoreUnavailable",
    "TrischedError",
    "WaitTimeout",
]
