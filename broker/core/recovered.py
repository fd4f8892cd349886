"""Core: what recovery has found of one holder of messages, until the holder itself gets it.

Of messages nothing is kept but their positions, eight bytes each.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.store.api import OFFSET_BITS

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.durable import StoredMessage

__all__ = ["Live", "Recovered", "count_positions"]

TRIM_COUNT: Final = 65_536
"""Settled positions at the front of a level, before they are let go of."""


class _Level:
    """Positions in serving order; those before `head` are settled."""

    __slots__ = ("head", "positions", "redelivered_count")

    def __init__(self) -> None:
        self.positions: array[int] = array("Q")
        self.head: i64 = 0
        self.redelivered_count: i64 = 0

    def trim(self, gone: set[int]) -> None:
        """Pass over what is settled at the front."""
        positions = self.positions
        head: i64 = self.head
        count: i64 = len(positions)
        while head < count and positions[head] in gone:
            gone.discard(positions[head])
            head += 1
            self.redelivered_count -= 1

        if head > TRIM_COUNT and head * 2 > count:
            del positions[: int(head)]
            head = 0

        self.head = head

    def settle(self, position: int) -> bool:
        """Take a position from the front; False when it does not stand there."""
        head: i64 = self.head
        if head < len(self.positions) and self.positions[head] == position:
            self.head = head + 1
            self.redelivered_count -= 1
            return True

        return False


class Recovered:
    """What recovery has found of one holder of messages: a queue, or an exchange that delays.

    Attributes:
        returned: position -> how often given back, and when it is ready again; in that order.
        body_bytes: of all bodies.
        has_deadlines: whether some of the messages may have one.

    """

    __slots__ = (
        "_gone",
        "_latest",
        "_origins",
        "body_bytes",
        "has_deadlines",
        "holder",
        "levels",
        "returned",
    )

    def __init__(self, holder: Destination) -> None:
        self.holder = holder
        self.levels: dict[int, _Level] = {}
        self.returned: dict[int, tuple[int, int]] = {}
        self.body_bytes: i64 = 0
        self.has_deadlines = False
        self._gone: set[int] = set()
        # Of messages that were moved: where they are now, and what they are known as here.
        self._latest: dict[int, int] = {}
        self._origins: dict[int, int] = {}

    def add(self, stored: StoredMessage, place: i64, position: i64) -> None:
        """A message has come, as this row of it tells."""
        self.level(self.holder.level_of(stored.priority)).positions.append(int(position))
        self.body_bytes += stored.body_size()
        if stored.deadline(place):
            self.has_deadlines = True

    def truncate(self, first_offset: i64) -> None:
        """Of a stream: it begins there now."""

    def take_stream_index(self, buffer: bytes, start: i64, end: i64) -> None:
        """Of a stream: one of its segments, as a checkpoint has it."""

    def take_due_index(self, buffer: bytes, start: i64, end: i64) -> None:
        """Of an exchange that delays: some of its messages, as a checkpoint has them."""

    def level(self, number: int) -> _Level:
        """The positions of one level."""
        level = self.levels.get(number)
        if level is None:
            level = _Level()
            self.levels[number] = level

        return level

    def settle(self, position: int, body_size: i64) -> None:
        """A message has left."""
        if self._origins:
            position = self._origins.get(position, position)

        self.body_bytes -= body_size
        self.returned.pop(position, None)
        gone = self._gone
        for level in self.levels.values():
            if level.settle(position):
                if gone:
                    level.trim(gone)

                return

        gone.add(position)

    def give_back(self, position: int, count: int, due_wall_ms: int) -> None:
        """A message was given back once more: it stands behind those that were before it."""
        position = self._origins.get(position, position)
        self.returned.pop(position, None)
        self.returned[position] = (count, due_wall_ms)

    def move(self, old: int, new: int) -> None:
        """A message lies in another place now."""
        origin = self._origins.pop(old, old)
        self._origins[new] = origin
        self._latest[origin] = new

    def purge(self, kept: dict[int, int]) -> None:
        """Only these are left: positions and body sizes."""
        known = {self._origins.get(position, position) for position in kept}
        for level in self.levels.values():
            left = [one for one in level.positions[int(level.head) :] if one in known]
            level.positions = array("Q", left)
            level.head = 0
            level.redelivered_count = 0

        self.body_bytes = sum(kept.values())
        for position in [one for one in self.returned if one not in known]:
            del self.returned[position]

    def finish(self) -> None:
        """All has been read: leave what is there, and where it is now."""
        gone = self._gone
        latest = self._latest
        returned = self.returned
        for level in self.levels.values():
            level.redelivered_count = max(level.redelivered_count, 0)
            positions = level.positions
            if level.head:
                positions = positions[int(level.head) :]
                level.head = 0

            if gone or returned:
                kept = array("Q")
                redelivered_count: i64 = 0
                for place, one in enumerate(positions):
                    if one not in gone and one not in returned:
                        kept.append(one)
                        if place < level.redelivered_count:
                            redelivered_count += 1

                positions = kept
                level.redelivered_count = redelivered_count

            if latest:
                positions = array("Q", [latest.get(one, one) for one in positions])

            level.positions = positions

        if latest:
            self.returned = {latest.get(one, one): about for one, about in returned.items()}

    def count_live(self, live: Live) -> None:
        """Count the messages of each segment."""
        for level in self.levels.values():
            count_positions(level.positions, live)

        for position in self.returned:
            live.add(position >> OFFSET_BITS, 1, position)

    @property
    def count(self) -> int:
        """How many messages there are."""
        return sum([len(one.positions) for one in self.levels.values()]) + len(self.returned)


class Live:
    """What is of use in the segments of a log.

    Attributes:
        counts: how many messages, by number of segment.
        last: the last position of any, by number of segment.

    """

    __slots__ = ("counts", "last")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.last: dict[int, int] = {}

    def add(self, number: int, count: int, last: int) -> None:
        """Count messages of one segment."""
        self.counts[number] = self.counts.get(number, 0) + count
        self.last[number] = max(self.last.get(number, 0), last)


def count_positions(positions: array[int], live: Live) -> None:
    """Count the messages of each segment of the log, by their positions."""
    # Neighbours mostly lie in the same segment.
    number: i64 = -1
    count: i64 = 0
    last: i64 = 0
    for one in positions:
        position: i64 = one
        segment: i64 = position >> OFFSET_BITS
        if segment != number:
            if count:
                live.add(int(number), int(count), int(last))

            number = segment
            count = 0
            last = 0

        count += 1
        last = max(last, position)

    if count:
        live.add(int(number), int(count), int(last))
