"""The ready messages of a queue, in the order in which they are to be served.

Fresh messages come at the tail. Those that are given back return to their original place (rule
A-05): every one of them was once taken from the head, so all of them stand before all fresh ones,
and among themselves they are ordered by position. A heap does that at the same cost in any order.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from broker.core.message import GONE, NO_DEADLINE, Message

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["PriorityReady", "Ready", "is_expired"]


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

    def pop_expired(self, now_ms: i64) -> Message | None:
        """Take a message whose time is over and whose place lets it expire (rule TTL-02)."""
        head = self.head()
        if head is None or not is_expired(head, now_ms):
            return None

        return self.pop()

    def next_deadline(self) -> i64:
        """When `pop_expired` finds something next, or NO_DEADLINE."""
        head = self.head()
        return NO_DEADLINE if head is None else head.deadline_ms

    def sweep(self) -> None:
        """Forget the messages that are marked as gone."""
        self._fresh = deque([one for one in self._fresh if one.deadline_ms != GONE])
        self._returned = [one for one in self._returned if one[1].deadline_ms != GONE]
        heapq.heapify(self._returned)

    def messages(self) -> list[Message]:
        """All messages in serving order."""
        return [entry[1] for entry in sorted(self._returned, key=_position_of)] + list(self._fresh)

    def clear(self) -> None:
        """Forget all messages."""
        self._fresh.clear()
        self._returned.clear()


def is_expired(message: Message, now_ms: i64) -> bool:
    """Whether a message has a deadline and that is over."""
    return message.deadline_ms != NO_DEADLINE and message.deadline_ms <= now_ms


def _position_of(entry: tuple[int, Message]) -> int:
    return entry[0]


class PriorityReady(Ready):
    """Several levels, the highest that is not empty served first (rules Q-90, Q-91).

    Args:
        priority_max: x-max-priority; messages above it count as that (Q-90).
        priority_absent: the level of messages without a priority.

    """

    __slots__ = ("_filled", "_levels", "_priority_absent", "_priority_max")

    def __init__(self, priority_max: i64, priority_absent: i64 = 0) -> None:
        super().__init__()
        self._priority_max = priority_max
        self._priority_absent = priority_absent
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
        return self._pop_of(filled.bit_length() - 1) if filled else None

    def _pop_of(self, level: int) -> Message | None:
        """Take the oldest message of a level that holds something."""
        ready = self._levels[level]
        message = ready.pop()
        if ready.head() is None:
            self._filled &= ~(1 << level)

        return message

    def sweep(self) -> None:
        """Forget the messages that are marked as gone."""
        for level, ready in self._levels.items():
            ready.sweep()
            if ready.head() is None:
                self._filled &= ~(1 << level)

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
        priority = message.priority if message.priority >= 0 else self._priority_absent
        level = int(min(priority, self._priority_max))
        self._filled |= 1 << level
        ready = self._levels.get(level)
        if ready is None:
            ready = Ready()
            self._levels[level] = ready

        return ready
