"""The ready messages of a queue, in the order in which they are to be served.

Fresh messages come at the tail. Those that are given back return to their original place (rule
A-05): every one of them was once taken from the head, so all of them stand before all fresh ones,
and among themselves they are ordered by position. A heap does that at the same cost in any order.

Of a deep queue only the first messages are here; the others lie on disk (queue/cold.py).
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from broker.core.message import GONE, NO_DEADLINE, Message
from broker.core.queue.cold import Cold
from broker.limits import HOT_BYTES_MAX

if TYPE_CHECKING:
    from array import array

    from mypy_extensions import i16, i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal

__all__ = ["PriorityReady", "Ready", "is_expired"]


class Ready:
    """First in, first out, with a way back to one's place."""

    __slots__ = ("_cold", "_fresh", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[Message] = deque()
        self._returned: list[tuple[int, Message]] = []
        self._cold: Cold | None = None

    def append(self, message: Message) -> None:
        """Add a message at the tail."""
        cold = self._cold
        if cold is None:
            self._fresh.append(message)
        else:
            cold.tail.append(message)

    def put_back(self, message: Message) -> None:
        """Return a message to its place among those that were here before."""
        heapq.heappush(self._returned, (int(message.position), message))

    def head(self) -> Message | None:
        """The next message to be served, left where it is."""
        if self._returned:
            return self._returned[0][1]

        fresh = self._fresh
        if not fresh and self._cold is not None:
            self._refill()

        return fresh[0] if fresh else None

    def pop(self) -> Message | None:
        """Take the next message to be served."""
        if self._returned:
            return heapq.heappop(self._returned)[1]

        fresh = self._fresh
        if not fresh and self._cold is not None:
            self._refill()

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
        """All messages in serving order, those on disk brought back."""
        while self._cold is not None:
            self._refill()

        return self.front() + list(self._fresh)

    def clear(self) -> None:
        """Forget all messages."""
        self._fresh.clear()
        self._returned.clear()
        self._cold = None

    # -- what lies on disk

    def _refill(self) -> None:
        cold = self._cold
        assert cold is not None
        if cold.refill(self._fresh):
            self._cold = None

    def spill(self, journal: Journal, holder: Destination, count_max: i64) -> bool:
        """Leave all but the first so many messages to the disk; True when some still are to go."""
        cold = self._cold
        if cold is None:
            fresh = self._fresh
            kept: deque[Message] = deque()
            size: i64 = 0
            while fresh and len(kept) < count_max and size < HOT_BYTES_MAX:
                size += fresh[0].body_size
                kept.append(fresh.popleft())

            if not fresh:
                self._fresh = kept
                return False

            cold = Cold(journal, holder, fresh[0].position)
            cold.tail = fresh
            self._fresh = kept
            self._cold = cold

        cold.cool()
        return True

    def restore(
        self,
        journal: Journal,
        holder: Destination,
        positions: dict[int, array[int]],
        redelivered: dict[int, int],
    ) -> int:
        """Begin with what recovery has found.

        Args:
            journal: reads the messages when they are to be served.
            holder: the queue.
            positions: of the messages of each level, in serving order; a queue without levels has
                the level 0 alone.
            redelivered: how many of the first of each level were delivered before.

        Returns how many messages there are.

        """
        found = positions.get(0)
        if not found:
            return 0

        cold = Cold(journal, holder, 1)
        cold.restore(found, redelivered.get(0, 0))
        self._cold = cold
        return len(found)

    def front(self) -> list[Message]:
        """The messages that were given back, in serving order."""
        return [entry[1] for entry in sorted(self._returned, key=_position_of)]

    def levels(self) -> list[tuple[int, Ready]]:
        """The parts that are served one before the other, the first first, with their levels."""
        return [(0, self)]

    def hot(self) -> list[Message]:
        """The messages in memory that were not given back, in serving order."""
        cold = self._cold
        return list(self._fresh) if cold is None else [*self._fresh, *cold.tail]

    def fresh(self) -> list[Message]:
        """Those of them that are served before what lies on disk."""
        return list(self._fresh)

    def some(self, count: int) -> list[Message]:
        """The first so many of them: they are many where transient ones stay in memory."""
        return list(islice(self._fresh, count))

    def level_of(self, priority: i16) -> int:
        """The level that a message of that priority belongs to."""
        return 0

    @property
    def cold(self) -> Cold | None:
        """What lies on disk behind the first messages, if anything does."""
        return self._cold


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
        """All messages in serving order, those on disk brought back."""
        levels = sorted(self._levels, reverse=True)
        return [message for level in levels for message in self._levels[level].messages()]

    def spill(self, journal: Journal, holder: Destination, count_max: i64) -> bool:
        """Leave all but the first so many messages of each level to the disk."""
        is_spilled = False
        for ready in self._levels.values():
            if ready.spill(journal, holder, count_max):
                is_spilled = True

        return is_spilled

    def restore(
        self,
        journal: Journal,
        holder: Destination,
        positions: dict[int, array[int]],
        redelivered: dict[int, int],
    ) -> int:
        """Begin with what recovery has found; returns how many messages there are."""
        count = 0
        for level, found in positions.items():
            if found:
                ready = Ready()
                self._levels[level] = ready
                self._filled |= 1 << level
                inner = {0: found}
                count += ready.restore(journal, holder, inner, {0: redelivered.get(level, 0)})

        return count

    def levels(self) -> list[tuple[int, Ready]]:
        """The levels that hold something, the highest first."""
        filled = self._filled
        return [
            (level, self._levels[level])
            for level in sorted(self._levels, reverse=True)
            if filled >> level & 1
        ]

    def front(self) -> list[Message]:
        """The messages that were given back, in serving order."""
        levels = sorted(self._levels, reverse=True)
        return [message for level in levels for message in self._levels[level].front()]

    def clear(self) -> None:
        """Forget all messages."""
        self._levels.clear()
        self._filled = 0

    def level_of(self, priority: i16) -> int:
        """The level that a message of that priority, or of none (-1), belongs to."""
        shown = int(priority) if priority >= 0 else int(self._priority_absent)
        return min(shown, int(self._priority_max))

    def _level_of(self, message: Message) -> Ready:
        """The level a message is about to be added to."""
        level = self.level_of(message.priority)
        self._filled |= 1 << level
        ready = self._levels.get(level)
        if ready is None:
            ready = Ready()
            self._levels[level] = ready

        return ready
