"""What a queue holds and has to keep: its ready messages, and the log's part in them.

The queue proper decides what becomes of a message; here is how that is told to the log, what a
checkpoint says of the messages, and how they come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.binding import Destination
from broker.core.index import LevelState, append_index
from broker.core.queue.ready import Ready
from broker.limits import HOT_BYTES_MAX, HOT_MESSAGES_MAX

if TYPE_CHECKING:
    from array import array

    from mypy_extensions import i16, i64

    from broker.core.journal import Journal
    from broker.core.message import Message
    from broker.core.recovered import Recovered
    from broker.core.vhost import VirtualHost

__all__ = ["KeptMessages"]


class KeptMessages(Destination):
    """The messages of one queue that are ready.

    Args:
        vhost: the virtual host it lives in.
        name: its name, unique there.
        durable: as declared.

    """

    __slots__ = (
        "has_deadlines",
        "is_deleted",
        "next_position",
        "ready",
        "ready_bytes",
        "ready_count",
        "vhost",
    )

    def __init__(self, vhost: VirtualHost, name: str, durable: bool) -> None:
        super().__init__(name, True, durable)
        self.vhost = vhost
        self.ready: Ready = Ready()
        self.ready_count: i64 = 0
        self.ready_bytes: i64 = 0
        self.next_position: i64 = 1
        self.has_deadlines = False
        self.is_deleted = False

    def _keep(self, message: Message) -> None:
        """Have the message outlive the broker, if it is meant to (section DU)."""
        journal = self.journal
        if journal is not None and self.log_id > 0 and (message.is_persistent or self.keeps_all):
            journal.add(self, message)

    def let_go(self, message: Message) -> None:
        """The message is gone for good: the log need not have it any more."""
        journal = self.journal
        if journal is not None:
            journal.settled(self, message)

    def _forget_ready(self, journal: Journal) -> None:
        """Nothing that is ready is of use any more; what is unacked is."""
        self._forget_all(self.hot_messages())
        for chunk in self.cold_chunks():
            journal.forget_positions(chunk)

        queue = self.as_queue()
        if self.log_id > 0 and not self.is_deleted and queue is not None:
            journal.purged(self, journal.books.unacked_rows(queue))

    def _forget_all(self, messages: list[Message]) -> None:
        journal = self.journal
        if journal is not None:
            journal.forget(messages)

    def level_of(self, priority: i16) -> int:
        """The level that a message of that priority stands in."""
        return self.ready.level_of(priority)

    def hot_messages(self) -> list[Message]:
        """The messages in memory that nobody has, in serving order within each level."""
        found = self.ready.front()
        for _, level in self.ready.levels():
            found += level.hot()

        return found

    def cold_chunks(self) -> list[array[int]]:
        """Where the messages on disk stand, marked or not."""
        chunks: list[array[int]] = []
        for _, level in self.ready.levels():
            cold = level.cold
            if cold is not None:
                chunks += cold.all_positions()

        return chunks

    def awaits_log(self) -> bool:
        """Whether it wants to know when the log has the messages that it was given."""
        return self.ready_count > HOT_MESSAGES_MAX or self.ready_bytes > HOT_BYTES_MAX

    def written(self, journal: Journal) -> bool:
        """The log has messages: let go of what can be read back. True: there is more to come."""
        return not self.is_deleted and self.ready.spill(journal, self, HOT_MESSAGES_MAX)

    def places_in(self, numbers: set[int]) -> list[int]:
        """Where messages on disk stand that lie in those segments of the log."""
        found: list[int] = []
        for _, level in self.ready.levels():
            cold = level.cold
            if cold is not None:
                found += cold.places_in(numbers)

        return found

    def move_cold(self, places: dict[int, int]) -> list[int]:
        """Messages on disk have another position now; returns the old ones that are here."""
        found: list[int] = []
        for _, level in self.ready.levels():
            cold = level.cold
            if cold is not None:
                found += cold.move(places)

        return found

    def append_state(self, records: list[list[bytes]], unacked: list[Message]) -> None:
        """Add what a checkpoint has to tell of the messages here."""
        outstanding: dict[int, list[Message]] = {}
        size = int(self.ready_bytes - self._transient_bytes())
        for message in [*unacked, *self.ready.front()]:
            outstanding.setdefault(self.level_of(message.priority), []).append(message)

        for message in unacked:
            size += int(message.body_size)

        levels: dict[int, Ready] = dict(self.ready.levels())
        for level in sorted({*levels, *outstanding}):
            first = [one for one in outstanding.get(level, []) if self._outlives(one)]
            first.sort(key=_position_of)
            ready = levels.get(level)
            hot = [] if ready is None else [one for one in ready.fresh() if self._outlives(one)]
            cold = None if ready is None else ready.cold
            state = LevelState(level, first + hot)
            state.redelivered_count = len(first) + sum([1 for one in hot if one.redelivered])
            state.body_bytes = size
            state.has_deadlines = self.has_deadlines
            if cold is not None:
                state.chunks = [*cold.durable_positions(), cold.tail_positions()]
                state.redelivered_count += int(cold.redelivered_count)

            append_index(records, self, state)
            size = 0

    def _transient_bytes(self) -> i64:
        """How much of what is ready does not outlive the broker."""
        size: i64 = 0
        if self.keeps_all:
            return size

        for message in self.hot_messages():
            if not message.is_persistent:
                size += message.body_size

        for _, level in self.ready.levels():
            if level.cold is not None:
                size += level.cold.transient_bytes

        return size

    def _outlives(self, message: Message) -> bool:
        return message.record > 0 and (message.is_persistent or self.keeps_all)

    def restore(self, journal: Journal, found: Recovered) -> None:
        """Take over the messages that recovery has found; `settle_down` when all queues have."""
        positions = {number: level.positions for number, level in found.levels.items()}
        redelivered = {n: int(level.redelivered_count) for n, level in found.levels.items()}
        count = self.ready.restore(journal, self, positions, redelivered)
        if count:
            self.ready_count = count
            self.ready_bytes = max(found.body_bytes, 0)
            self.next_position = count + 1
            self.has_deadlines = found.has_deadlines


def _position_of(message: Message) -> int:
    return int(message.position)
