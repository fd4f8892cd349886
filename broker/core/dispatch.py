"""Which consumer of a queue is served next (rule CO-10).

Only consumers that may be able to take a message stand in the rotation. One that turns out not to
be able leaves it, and enters again when it can: on a settlement, when its connection has room, when
the channel's limit allows. So choosing costs the same with one consumer and with a thousand.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import Consumer

__all__ = ["Rotation"]

STALE_MIN: Final = 32
"""Cancelled consumers below this number are dropped when their turn comes."""


class _Level:
    """The consumers of one priority: those in the rotation, and how many there are in all."""

    __slots__ = ("consumer_count", "priority", "stale", "waiting")

    def __init__(self, priority: i64) -> None:
        self.priority = priority
        self.waiting: deque[Consumer] = deque()
        self.consumer_count: i64 = 0
        self.stale: i64 = 0


class Rotation:
    """The waiting consumers of one queue, by priority, round robin among equals."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: list[_Level] = []

    def register(self, consumer: Consumer) -> None:
        """A consumer of the queue has come; it does not stand in the rotation yet."""
        self._level_of(consumer.priority).consumer_count += 1

    def unregister(self, consumer: Consumer) -> None:
        """A consumer of the queue is gone for good."""
        level = self._level_of(consumer.priority)
        level.consumer_count -= 1
        if level.consumer_count == 0:
            self._levels.remove(level)
            return

        if consumer.is_waiting:
            level.stale += 1
            if level.stale > STALE_MIN and level.stale * 2 > len(level.waiting):
                level.waiting = deque([one for one in level.waiting if not one.is_cancelled])
                level.stale = 0

    def clear(self) -> None:
        """The queue is gone: it leads to nobody any more."""
        self._levels = []

    def add(self, consumer: Consumer) -> None:
        """A consumer may be able to take a message: last in its level."""
        consumer.is_waiting = True
        self._level_of(consumer.priority).waiting.append(consumer)

    def next_able(self) -> Consumer | None:
        """The consumer whose turn it is, moved to the tail of its level; None when all are busy."""
        for level in self._levels:
            waiting = level.waiting
            count: i64 = len(waiting)
            while count > 0:
                consumer = waiting[0]
                if consumer.is_able():
                    if count > 1:
                        waiting.rotate(-1)

                    return consumer

                waiting.popleft()
                count -= 1
                if consumer.is_cancelled and consumer not in consumer.queue.consumers:
                    # One that is cancelled but not unregistered yet was not counted.
                    level.stale -= 1

                consumer.park()

        return None

    def _level_of(self, priority: i64) -> _Level:
        place = 0
        for level in self._levels:
            if level.priority == priority:
                return level

            if level.priority < priority:
                break

            place += 1

        fresh = _Level(priority)
        self._levels.insert(place, fresh)
        return fresh
