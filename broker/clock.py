"""Where time comes from. Bottom layer: imports nothing of the broker.

Invariant: nothing below the rim reads a clock of its own accord; whoever needs the time is given a
:class:`Clock`, so that a test can run a day of broker life in milliseconds.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

__all__ = ["Clock", "SystemClock"]


class Clock(ABC):
    """Two readings: one that never jumps, for deadlines, and one that people know, for stamps."""

    __slots__ = ()

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    @abstractmethod
    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump when somebody sets the machine's clock."""

    def seconds_until(self, moment_s: float) -> float | None:
        """How long the machine has to wait for a monotonic reading; None: it would not come."""
        return max(0.0, moment_s - self.monotonic())


class SystemClock(Clock):
    """The machine's clocks."""

    __slots__ = ()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
