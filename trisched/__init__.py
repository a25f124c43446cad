"""trisched: a job scheduler and priority task queue for Python, built on Trio."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trisched.version import __version__

if TYPE_CHECKING:
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

#: Where each public name lives. They are imported when first used: the command line starts without them.
_HOMES = {
    "App": "app",
    "Conflict": "errors",
    "Context": "worker.context",
    "Invalid": "errors",
    "JobHandle": "handle",
    "Misconfigured": "errors",
    "NotFound": "errors",
    "RunFailed": "errors",
    "RunHandle": "handle",
    "StoreUnavailable": "errors",
    "TrischedError": "errors",
    "WaitTimeout": "errors",
}

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
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trisched' has no attribute {name!r}")
    value = getattr(import_module(f"trisched.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
