"""Core: the part of a queue that lies on disk: eight bytes of memory for each message.

A deep queue is three parts: the messages to be served next, in memory; behind them positions in
the log; behind those the newest messages, which have not been written yet. What is written at the
front of the newest goes over to the positions; when the first part runs out, the next few are read
back. A transient message that stands among persistent ones is written for this purpose alone: its
position is marked, and no checkpoint tells of it.
"""

from __future__ import annotations

from array import array
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.store.api import OFFSET_BITS

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal
    from broker.core.message import Message

__all__ = ["POSITION_MASK", "TRANSIENT", "Cold"]

CHUNK_COUNT: Final = 4_096
"""Positions in a chunk. A full chunk is not changed any more but by compaction, which makes a new
one, so that a checkpoint can share it."""

REFILL_COUNT: Final = 512
"""Messages read back at a time, if they are not too large together."""

PAGED_COUNT_MAX: Final = 8_192
"""Transient messages that are written at a time."""

TRANSIENT: Final = 1 << 62
"""Marks the position of a message that does not outlive the broker; no segment's number is so
high."""

POSITION_MASK: Final = TRANSIENT - 1


class _Chunk:
    """Some positions, one after the other in serving order, and which segments they lie in.

    Attributes:
        positions: marked ones among them.
        lowest: no position lies in a segment before this one.
        highest: none in one behind this one.

    """

    __slots__ = ("highest", "lowest", "positions")

    def __init__(self, positions: array[int]) -> None:
        self.positions = positions
        self.lowest: i64 = TRANSIENT
        self.highest: i64 = 0
        for position in positions:
            self.embrace(position)

    def embrace(self, position: i64) -> None:
        """A position belongs to it."""
        number: i64 = (position & POSITION_MASK) >> OFFSET_BITS
        if number < self.lowest:
            self.lowest = number

        if number > self.highest:
            self.highest = number

    def may_lie_in(self, numbers: list[int]) -> bool:
        """Whether positions may lie in one of these segments.

        Neighbours nearly always lie in the same segment, or in two: so of millions of positions few
        are looked at.

        """
        for number in numbers:  # noqa: SIM110 - compiled, a loop is several times faster than any()
            if self.lowest <= number <= self.highest:
                return True

        return False


class Cold:
    """What is behind the first messages of a queue, or of one of its levels.

    Args:
        journal: reads messages back.
        holder: the queue.
        next_position: of the first message that goes cold; see `Message.position`.

    Attributes:
        tail: the newest messages, in order.
        count: messages, but for those of the tail.
        redelivered_count: how many of the first were delivered before.
        transient_bytes: of the bodies of those that do not outlive the broker.

    """

    __slots__ = (
        "_chunks",
        "_first",
        "_has_transient",
        "_holder",
        "_journal",
        "_next_position",
        "count",
        "redelivered_count",
        "tail",
        "transient_bytes",
    )

    def __init__(self, journal: Journal, holder: Destination, next_position: i64) -> None:
        self._journal = journal
        self._holder = holder
        self._chunks: deque[_Chunk] = deque()
        # Of the first chunk, how many have left.
        self._first: i64 = 0
        self._has_transient = False
        self._next_position: i64 = next_position
        self.tail: deque[Message] = deque()
        self.count: i64 = 0
        self.redelivered_count: i64 = 0
        self.transient_bytes: i64 = 0

    def restore(self, positions: array[int], redelivered_count: i64) -> None:
        """Take over what recovery has found, in serving order."""
        for start in range(0, len(positions), CHUNK_COUNT):
            self._chunks.append(_Chunk(positions[start : start + CHUNK_COUNT]))

        self.count = len(positions)
        self.redelivered_count = redelivered_count

    # -- going cold

    def cool(self) -> None:
        """Let go of the messages at the front of the tail that can be read back."""
        tail = self.tail
        journal = self._journal
        written: i64 = journal.written_until
        while tail:
            message = tail[0]
            record: i64 = message.record
            if record == 0:
                self._page_out()
                return

            if record < 0 or record >= written:
                return

            if not journal.outlives(self._holder, message):
                record |= TRANSIENT
                self._has_transient = True
                self.transient_bytes += message.body_size

            if message.redelivered and self.redelivered_count == self.count:
                self.redelivered_count += 1

            self._append(record)
            tail.popleft()

    def _page_out(self) -> None:
        """Have the transient messages at the front of the tail written, so that they can go."""
        for message in islice(self.tail, PAGED_COUNT_MAX):
            if message.record == 0:
                self._journal.page_out(self._holder, message)

    def _append(self, position: i64) -> None:
        chunks = self._chunks
        if not chunks or len(chunks[len(chunks) - 1].positions) >= CHUNK_COUNT:
            chunks.append(_Chunk(array("Q")))

        chunk = chunks[len(chunks) - 1]
        chunk.positions.append(int(position))
        chunk.embrace(position)
        self.count += 1

    # -- coming back

    def refill(self, fresh: deque[Message]) -> bool:
        """Bring the next few messages back; True when nothing is left here.

        Raises:
            StoreError: they cannot be read.

        """
        if self.count:
            self._refill_some(fresh)
            if self.count:
                return False

        # What is there still has not been written, so it is no more than one batch or two.
        fresh.extend(self.tail)
        self.tail.clear()
        return True

    def _refill_some(self, fresh: deque[Message]) -> None:
        chunk = self._chunks[0].positions
        first: i64 = self._first
        stop: i64 = min(first + REFILL_COUNT, len(chunk))
        wanted = [position & POSITION_MASK for position in chunk[int(first) : int(stop)]]
        messages = self._journal.load(self._holder, wanted)
        taken: i64 = len(messages)
        for message in messages:
            if not self._journal.outlives(self._holder, message):
                self.transient_bytes -= message.body_size

            message.position = self._next_position
            self._next_position += 1
            if self.redelivered_count > 0:
                self.redelivered_count -= 1
                message.redelivered = True

            fresh.append(message)

        self.count -= taken
        self._first = first + taken
        if self._first == len(chunk):
            self._chunks.popleft()
            self._first = 0

    # -- looking

    @property
    def first_position(self) -> i64:
        """The position of the first message that lies here; the others follow one by one."""
        return self._next_position

    def peek(self, position: i64, count: i64) -> list[Message]:
        """Read messages without bringing them back.

        Args:
            position: of the first of them; it lies here.
            count: no more than so many; fewer when they are large.

        Raises:
            StoreError: they cannot be read.

        """
        place: i64 = position - self._next_position
        skip: i64 = place + self._first
        wanted: list[int] = []
        for chunk in self._chunks:
            positions = chunk.positions
            size: i64 = len(positions)
            if skip < size:
                stop: i64 = min(size, skip + count - len(wanted))
                wanted += [one & POSITION_MASK for one in positions[int(skip) : int(stop)]]
                skip = 0
                if len(wanted) >= count:
                    break
            else:
                skip -= size

        messages = self._journal.load(self._holder, wanted) if wanted else []
        for message in messages:
            message.position = position
            message.redelivered = place < self.redelivered_count
            position += 1
            place += 1

        return messages

    # -- the books of the log

    def all_positions(self) -> list[array[int]]:
        """All positions in serving order, marked ones among them."""
        chunks = [chunk.positions for chunk in self._chunks]
        if chunks and self._first:
            chunks[0] = chunks[0][int(self._first) :]

        return chunks

    def tail_positions(self) -> array[int]:
        """The positions of the newest messages, as a checkpoint tells of them."""
        journal = self._journal
        tail = [one for one in self.tail if one.record > 0 and journal.outlives(self._holder, one)]
        return array("Q", [int(one.record) for one in tail])

    def durable_positions(self) -> list[array[int]]:
        """The positions that a checkpoint tells of, in chunks that nobody changes any more."""
        chunks = self.all_positions()
        if chunks:
            last = len(chunks) - 1
            chunks[last] = array("Q", chunks[last])

        if self._has_transient:
            chunks = [array("Q", [one for one in chunk if one < TRANSIENT]) for chunk in chunks]

        return chunks

    def places_in(self, numbers: set[int]) -> list[int]:
        """The positions that lie in those segments of the log, unmarked."""
        found: list[int] = []
        asked = list(numbers)
        first: i64 = self._first
        for chunk in self._chunks:
            if chunk.may_lie_in(asked):
                here = [one & POSITION_MASK for one in chunk.positions[int(first) :]]
                found += [one for one in here if one >> OFFSET_BITS in numbers]

            first = 0

        return found

    def move(self, places: dict[int, int]) -> list[int]:
        """Messages have another position now: old ones to new ones, unmarked.

        Returns the old positions of those that are here.

        """
        found: list[int] = []
        asked = list({old >> OFFSET_BITS for old in places})
        first: i64 = self._first
        for number in range(len(self._chunks)):
            chunk = self._chunks[number]
            if chunk.may_lie_in(asked):
                here = [one & POSITION_MASK for one in chunk.positions[int(first) :]]
                here = [position for position in here if position in places]
                if here:
                    found += here
                    self._chunks[number] = _Chunk(_moved(chunk.positions, places))

            first = 0

        return found


def _moved(chunk: array[int], places: dict[int, int]) -> array[int]:
    moved = array("Q")
    for position in chunk:
        place = position & POSITION_MASK
        moved.append(places.get(place, place) | (position & TRANSIENT))

    return moved
