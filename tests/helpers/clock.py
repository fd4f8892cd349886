"""A clock that stands still until a test moves it."""

from __future__ import annotations

from broker.clock import Clock

__all__ = ["VirtualClock"]


class VirtualClock(Clock):
    """Both readings move together; the wall begins at 2024-02-29 12:00:00 UTC.

    Args:
        start_s: what the monotonic reading begins with.
        elapsed_s: how far the wall is already.

    """

    __slots__ = ("_elapsed_s", "_start_s", "_wall_start_s")

    MONOTONIC_START_S = 1_000.0
    WALL_START_S = 1_709_208_000.0

    def __init__(self, start_s: float = MONOTONIC_START_S, elapsed_s: float = 0.0) -> None:
        self._elapsed_s = 0.0
        self._start_s = start_s
        self._wall_start_s = self.WALL_START_S + elapsed_s

    def monotonic(self) -> float:
        return self._start_s + self._elapsed_s

    def wall(self) -> float:
        return self._wall_start_s + self._elapsed_s

    def move(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, "time does not go back"
        self._elapsed_s += seconds
