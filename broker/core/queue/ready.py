"""The ready messages of a queue, in the order in which they are to be served.

Fresh messages come at the tail. Those that are given back return to their original place (rule
A-05): every one of them was once taken from the head, so all of them stand before all fresh ones,
and among themselves they are ordered by position. A heap does that at the same cost in any order.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.message import Message

__all__ = ["PriorityReady", "Ready"]


class Ready:
    """First in, first out, with a way back to one's place."""

    __slots__ = ("_fresh", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[Message] = deque()
        self._returned: list[tuple[int, Message]] = []

    def append(self, message: Message) -> None:
        """Add a message at the tail."""
        self._fresh.append(message)

    def put_back(self, message: Message) -> None:
        """Return a message to its place among those that were here before."""
        heapq.heappush(self._returned, (int(message.position), message))

    def head(self) -> Message | None:
        """The next message to be served, left where it is."""
        if self._returned:
            return self._returned[0][1]

        fresh = self._fresh
        return fresh[0] if fresh else None

    def pop(self) -> Message | None:
        """Take the next message to be served."""
        if self._returned:
            return heapq.heappop(self._returned)[1]

        fresh = self._fresh
        return fresh.popleft() if fresh else None

    def messages(self) -> list[Message]:
        """All messages in serving order."""
        return [entry[1] for entry in sorted(self._returned, key=_position_of)] + list(self._fresh)

    def clear(self) -> None:
        """Forget all messages."""
        self._fresh.clear()
        self._returned.clear()


def _position_of(entry: tuple[int, Message]) -> int:
    return entry[0]


class PriorityReady(Ready):
    """Several levels, the highest that is not empty served first (rules Q-90, Q-91).

    Args:
        priority_max: x-max-priority; messages above it count as that (Q-90).

    """

    __slots__ = ("_filled", "_levels", "_priority_max")

    def __init__(self, priority_max: i64) -> None:
        super().__init__()
        self._priority_max = priority_max
        # Made when first needed: most queues use few of their levels.
        self._levels: dict[int, Ready] = {}
        # The levels that hold something, as a bit mask: its length names the highest.
        self._filled = 0

    def append(self, message: Message) -> None:
        """Add a message at the tail of its level."""
        self._level_of(message).append(message)

    def put_back(self, message: Message) -> None:
        """Return a message to its place in its level."""
        self._level_of(message).put_back(message)

    def head(self) -> Message | None:
        """The oldest message of the highest level."""
        filled = self._filled
        return self._levels[filled.bit_length() - 1].head() if filled else None

    def pop(self) -> Message | None:
        """Take the oldest message of the highest level."""
        filled = self._filled
        if not filled:
            return None

        level = filled.bit_length() - 1
        ready = self._levels[level]
        message = ready.pop()
        if ready.head() is None:
            self._filled = filled & ~(1 << level)

        return message

    def messages(self) -> list[Message]:
        """All messages in serving order."""
        levels = sorted(self._levels, reverse=True)
        return [message for level in levels for message in self._levels[level].messages()]

    def clear(self) -> None:
        """Forget all messages."""
        self._levels.clear()
        self._filled = 0

    def _level_of(self, message: Message) -> Ready:
        """The level a message is about to be added to."""
        level = max(0, int(min(message.priority, self._priority_max)))
        self._filled |= 1 << level
        ready = self._levels.get(level)
        if ready is None:
            ready = Ready()
            self._levels[level] = ready

        return ready
