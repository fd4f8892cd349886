"""A clock that runs with the machine's until somebody stops or moves it. Layer: testing.

Invariant: neither reading goes back, whatever is done to the clock.
"""

from __future__ import annotations

import time

from broker.clock import Clock

__all__ = ["HandClock"]


class HandClock(Clock):
    """The time of one broker under test.

    Attributes:
        is_frozen: it moves by hand only.

    """

    __slots__ = ("_frozen_s", "_offset_s", "_wall_start_s", "is_frozen")

    def __init__(self) -> None:
        self._offset_s = 0.0
        self._frozen_s = 0.0
        self._wall_start_s = time.time() - time.monotonic()
        self.is_frozen = False

    def monotonic(self) -> float:
        return self._frozen_s if self.is_frozen else time.monotonic() + self._offset_s

    def wall(self) -> float:
        return self.monotonic() + self._wall_start_s

    def seconds_until(self, moment_s: float) -> float | None:
        return None if self.is_frozen else max(0.0, moment_s - self.monotonic())

    def freeze(self) -> None:
        """Stand still; harmless when it does."""
        self._frozen_s = self.monotonic()
        self.is_frozen = True

    def resume(self) -> None:
        """Run on from where it stands; harmless when it runs."""
        if self.is_frozen:
            self._offset_s = self._frozen_s - time.monotonic()
            self.is_frozen = False

    def move_to(self, moment_s: float) -> None:
        """Be at a moment; one that is over leaves it where it is."""
        ahead_s = moment_s - self.monotonic()
        if ahead_s > 0:
            self._frozen_s += ahead_s
            self._offset_s += ahead_s
