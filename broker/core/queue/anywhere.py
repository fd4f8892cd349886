"""Ready messages that expire wherever they stand (x-ttl-anywhere; off unless asked for).

RabbitMQ lets only the head of a classic queue expire, so what is behind a message that lives longer
stays, counted and stored, until it becomes the head. This store lies around another one: that keeps
the order, this keeps a heap of deadlines. What expires in the middle leaves a hollow message,
which is skipped when it becomes the head; when hollow ones are the majority they are swept out.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from broker.core.message import GONE, NO_DEADLINE, Address, Message
from broker.core.queue.ready import Ready

if TYPE_CHECKING:
    from array import array

    from mypy_extensions import i16, i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal

__all__ = ["AnywhereReady"]

NOWHERE: Final = Address("", "")
"""Of a message that is hollow: its own may hold a history."""

SWEEP_MIN: Final = 64
"""Hollow messages, or outdated deadlines, below this number are not worth a sweep."""


class AnywhereReady(Ready):
    """A store whose messages expire in any place.

    Args:
        inner: decides the order; it may hold messages already.

    """

    __slots__ = ("_count", "_due", "_hollow_count", "_timed", "inner")

    def __init__(self, inner: Ready) -> None:
        super().__init__()
        self.inner = inner
        # Messages that are here, and how many of those taken out by `pop_expired` still are.
        self._count: i64 = 0
        self._hollow_count: i64 = 0
        # Deadlines with places: position and level, since after a restart each level counts for
        # itself. A deadline whose message is elsewhere by now is not in `_timed`.
        self._due: list[tuple[int, tuple[int, int]]] = []
        self._timed: dict[tuple[int, int], Message] = {}
        for message in inner.messages():
            self._watch(message)

    @property
    def deadline_count(self) -> int:
        """Deadlines that are kept, those of messages that have left among them."""
        return len(self._due)

    def unwrap(self) -> Ready:
        """The inner store with what is here; this one must not be used any more."""
        self.inner.sweep()
        return self.inner

    def append(self, message: Message) -> None:
        """Add a message at the tail."""
        self.inner.append(message)
        self._watch(message)

    def put_back(self, message: Message) -> None:
        """Return a message to its place."""
        self.inner.put_back(message)
        self._watch(message)

    def _watch(self, message: Message) -> None:
        self._count += 1
        deadline_ms = message.deadline_ms
        if deadline_ms != NO_DEADLINE:
            place = self._place_of(message)
            self._timed[place] = message
            heapq.heappush(self._due, (int(deadline_ms), place))

    def _place_of(self, message: Message) -> tuple[int, int]:
        return (int(message.position), self.inner.level_of(message.priority))

    def head(self) -> Message | None:
        """The next message to be served, left where it is."""
        inner = self.inner
        head = inner.head()
        while head is not None and head.deadline_ms == GONE:
            inner.pop()
            self._hollow_count -= 1
            head = inner.head()

        return head

    def pop(self) -> Message | None:
        """Take the next message to be served."""
        if self.head() is None:
            return None

        message = self.inner.pop()
        assert message is not None
        self._count -= 1
        if message.deadline_ms != NO_DEADLINE:
            del self._timed[self._place_of(message)]
            self._forget_outdated()

        return message

    def pop_expired(self, now_ms: i64) -> Message | None:
        """Take any message whose time is over, the longest overdue first."""
        due: i64 = self.next_deadline()
        if due == NO_DEADLINE or due > now_ms:
            return None

        place = heapq.heappop(self._due)[1]
        message = self._timed[place]
        if message is self.head():
            # Nearly always, where all messages live equally long.
            return self.pop()

        del self._timed[place]
        self._count -= 1
        return self._hollow_out(message)

    def _hollow_out(self, message: Message) -> Message:
        """The message itself, while its place is kept by what is left of it."""
        taken = message.twin()
        message.content = b""
        message.body_size = 0
        message.address = NOWHERE
        message.deadline_ms = GONE
        self._hollow_count += 1
        if self._hollow_count > SWEEP_MIN and self._hollow_count > self._count:
            self.inner.sweep()
            self._hollow_count = 0

        return taken

    def next_deadline(self) -> i64:
        """The earliest deadline of all, or NO_DEADLINE."""
        due = self._due
        timed = self._timed
        while due and due[0][1] not in timed:
            heapq.heappop(due)

        return due[0][0] if due else NO_DEADLINE

    def _forget_outdated(self) -> None:
        """Drop the deadlines of messages that have left once they are the majority."""
        timed = self._timed
        if len(self._due) > 2 * len(timed) + SWEEP_MIN:
            self._due = [(int(one.deadline_ms), place) for place, one in timed.items()]
            heapq.heapify(self._due)

    def sweep(self) -> None:
        """Forget the hollow messages."""
        self.inner.sweep()
        self._hollow_count = 0

    def messages(self) -> list[Message]:
        """All messages in serving order."""
        return [one for one in self.inner.messages() if one.deadline_ms != GONE]

    def spill(self, journal: Journal, holder: Destination, count_max: i64) -> bool:
        """Nothing goes to disk: any of them may be the next to expire."""
        return False

    def restore(
        self,
        journal: Journal,
        holder: Destination,
        positions: dict[int, array[int]],
        redelivered: dict[int, int],
    ) -> int:
        """Begin with what recovery has found; returns how many messages there are."""
        count = self.inner.restore(journal, holder, positions, redelivered)
        for message in self.inner.messages():
            self._watch(message)

        return count

    def front(self) -> list[Message]:
        """The messages that were given back, in serving order."""
        return self.inner.front()

    def levels(self) -> list[tuple[int, Ready]]:
        """The parts that are served one before the other, the first first, with their levels."""
        return self.inner.levels()

    def level_of(self, priority: i16) -> int:
        """The level that a message of that priority belongs to."""
        return self.inner.level_of(priority)

    def clear(self) -> None:
        """Forget all messages."""
        self.inner.clear()
        self._due.clear()
        self._timed.clear()
        self._count = 0
        self._hollow_count = 0
