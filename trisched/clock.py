"""The clock and the maker of ids: the only places that read wall time and fresh randomness."""

from __future__ import annotations

import random
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time. Waiting is Trio's: under a virtual Trio clock both move together."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""


class SystemClock:
    """The wall clock of this host."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class Ids:
    """Time-ordered ids: 14 hex digits of microseconds, never twice the same, then 12 random ones.

    Called from several threads. Ordering across nodes follows their clocks; nothing depends on it.
    """

    def __init__(self, clock: Clock, randomness: random.Random) -> None:
        self._clock, self._random = clock, randomness
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """A fresh id such as ``run-0637f0c1b2a3d49c0ffee12345``."""
        return self.some(prefix, 1)[0]

    def some(self, prefix: str, count: int) -> list[str]:
        """``count`` fresh ids in their order."""
        with self._lock:
            first = max(self._clock.now_us(), self._last + 1)
            self._last = first + count - 1
            bits = self._random.getrandbits
            return [f"{prefix}-{stamp:014x}{bits(48):012x}" for stamp in range(first, first + count)]

    def token(self) -> str:
        """A random text that nobody else makes: incarnations, claims, nonces."""
        with self._lock:
            return f"{self._random.getrandbits(96):024x}"
