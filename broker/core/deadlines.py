"""The node's time and everything that waits for a point in it.

Time is an argument here: ``now_ms`` is set by the rim before it feeds bytes, and deadlines are
run when the rim says that it is later. Milliseconds of a clock that never goes back; the wall time
is needed for the few stamps that leave the broker.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

__all__ = ["Deadlines", "Timer"]

CANCELLED_MIN: Final = 256
"""Cancelled timers below this number are left to come due."""


class Timer:
    """One deadline. ``action`` is None once it has run or was cancelled."""

    __slots__ = ("action", "due_ms")

    def __init__(self, due_ms: i64, action: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.action: Callable[[], None] | None = action


class Deadlines:
    """A heap of timers, and the time they are measured against."""

    __slots__ = ("_cancelled", "_count", "_heap", "now_ms", "wall_offset_ms")

    def __init__(self, now_ms: i64 = 1, wall_offset_ms: i64 = 0) -> None:
        self.now_ms = now_ms
        self.wall_offset_ms = wall_offset_ms
        self._heap: list[tuple[int, int, Timer]] = []
        self._count: i64 = 0
        self._cancelled: i64 = 0

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the world counts them."""
        return self.now_ms + self.wall_offset_ms

    def schedule(self, due_ms: i64, action: Callable[[], None]) -> Timer:
        """Call ``action`` once, at or after ``due_ms``; equal deadlines keep their order."""
        timer = Timer(due_ms, action)
        self._count += 1
        heapq.heappush(self._heap, (int(due_ms), int(self._count), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; one that has run is left alone."""
        if timer.action is None:
            return

        timer.action = None
        self._cancelled += 1
        heap = self._heap
        if self._cancelled > CANCELLED_MIN and self._cancelled * 2 > len(heap):
            live = [entry for entry in heap if entry[2].action is not None]
            heapq.heapify(live)
            self._heap = live
            self._cancelled = 0

    def next_due_ms(self) -> i64:
        """The earliest deadline, or -1 when nothing waits."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if entry[2].action is not None:
                return entry[0]

            heapq.heappop(heap)
            self._cancelled -= 1

        return -1

    def run(self, count_max: i64) -> None:
        """Run what is due, at most ``count_max`` timers; the rest stays due."""
        left: i64 = count_max
        now: i64 = self.now_ms
        while left > 0:
            due: i64 = self.next_due_ms()
            if due < 0 or due > now:
                return

            timer = heapq.heappop(self._heap)[2]
            action = timer.action
            timer.action = None
            left -= 1
            if action is not None:
                action()
