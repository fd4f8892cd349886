"""Messages of a queue that wait before they are ready again (rule QQ-09)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.core.deadlines import Timer
    from broker.core.message import Message
    from broker.core.queue.queue import Queue

__all__ = ["Delays"]


class Delays:
    """The waiting room of one queue: neither ready nor unacked, but counted by length limits.

    Args:
        queue: whose messages wait.
        on_due: takes those whose time has come, first come first.

    """

    __slots__ = ("_number", "_on_due", "_queue", "_timer", "_waiting", "count", "size_bytes")

    def __init__(self, queue: Queue, on_due: Callable[[list[Message]], None]) -> None:
        self._queue = queue
        self._on_due = on_due
        self._waiting: list[tuple[int, int, Message]] = []
        self._timer: Timer | None = None
        self._number: i64 = 0
        self.count: i64 = 0
        self.size_bytes: i64 = 0

    def add(self, message: Message, delay_ms: int) -> None:
        """Let a message wait."""
        due_ms = int(self._queue.vhost.deadlines.now_ms) + delay_ms
        self._number += 1
        heapq.heappush(self._waiting, (due_ms, int(self._number), message))
        self.count += 1
        self.size_bytes += message.body_size
        self._arm()

    def messages(self) -> list[Message]:
        """All messages, the first to be ready first."""
        return [entry[2] for entry in sorted(self._waiting)]

    def waiting(self) -> list[tuple[Message, int]]:
        """All messages with the time when they are ready, in milliseconds of the node's clock."""
        return [(entry[2], entry[0]) for entry in sorted(self._waiting)]

    def clear(self) -> i64:
        """Forget all messages; returns how many."""
        count: i64 = self.count
        self._waiting.clear()
        self.count = 0
        self.size_bytes = 0
        self._arm()
        return count

    def _arm(self) -> None:
        """Wait for the first, whichever that is now."""
        deadlines = self._queue.vhost.deadlines
        due_ms = self._waiting[0][0] if self._waiting else -1
        timer = self._timer
        if timer is not None:
            if timer.due_ms == due_ms:
                return

            deadlines.cancel(timer)
            self._timer = None

        if due_ms >= 0:
            self._timer = deadlines.schedule(due_ms, self._run)

    def _run(self) -> None:
        self._timer = None
        now_ms = int(self._queue.vhost.deadlines.now_ms)
        due: list[Message] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            message = heapq.heappop(self._waiting)[2]
            self.count -= 1
            self.size_bytes -= message.body_size
            due.append(message)

        self._arm()
        self._on_due(due)
