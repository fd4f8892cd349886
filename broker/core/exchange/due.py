"""Core: messages that are due later and lie on disk: 24 bytes of memory for each.

They stand in order of due time, then of arrival, in chunks. A chunk is not changed but replaced, so
that a checkpoint can share it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.durable import DUE_INDEX
from broker.store.api import OFFSET_BITS
from broker.store.records import u32_at, u64_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

__all__ = ["Due", "DueMessages", "without_lost_messages"]

CHUNK_COUNT: Final = 256
NUMBER_BYTES: Final = 8
INDEX_HEAD_BYTES: Final = 5
"""Kind and holder; then as many numbers of arrival, due times, and positions."""


class Due(NamedTuple):
    """One message.

    Attributes:
        due_ms: in milliseconds since 1970.
        number: of its arrival, greater than those of all that came before it.
        position: in the log.

    """

    due_ms: int
    number: int
    position: int


class _Chunk:
    """Some messages in order, each part eight bytes for each."""

    __slots__ = ("dues", "numbers", "positions")

    def __init__(self, dues: bytes, numbers: bytes, positions: bytes) -> None:
        self.dues = dues
        self.numbers = numbers
        self.positions = positions

    @property
    def count(self) -> int:
        return len(self.dues) // NUMBER_BYTES

    def at(self, place: int) -> Due:
        start: i64 = place * NUMBER_BYTES
        return Due(
            int(u64_at(self.dues, start)),
            int(u64_at(self.numbers, start)),
            int(u64_at(self.positions, start)),
        )

    def slice(self, start: int, stop: int) -> _Chunk:
        first = start * NUMBER_BYTES
        last = stop * NUMBER_BYTES
        return _Chunk(self.dues[first:last], self.numbers[first:last], self.positions[first:last])

    def with_one(self, one: Due) -> _Chunk:
        """The same with one more, in its place."""
        at = int(self._place_of(one.due_ms, one.number)) * NUMBER_BYTES
        return _Chunk(
            self.dues[:at] + one.due_ms.to_bytes(NUMBER_BYTES, "little") + self.dues[at:],
            self.numbers[:at] + one.number.to_bytes(NUMBER_BYTES, "little") + self.numbers[at:],
            self.positions[:at]
            + one.position.to_bytes(NUMBER_BYTES, "little")
            + self.positions[at:],
        )

    def _place_of(self, due_ms: i64, number: i64) -> i64:
        low: i64 = 0
        high: i64 = len(self.dues) // NUMBER_BYTES
        while low < high:
            middle: i64 = (low + high) // 2
            there: i64 = u64_at(self.dues, middle * NUMBER_BYTES)
            if there < due_ms or (
                there == due_ms and u64_at(self.numbers, middle * NUMBER_BYTES) < number
            ):
                low = middle + 1
            else:
                high = middle

        return low

    def count_until(self, due_ms: i64) -> int:
        """How many are due at that time or before."""
        return int(self._place_of(due_ms + 1, 0))

    def all_positions(self) -> array[int]:
        found = array("Q")
        found.frombytes(self.positions)
        return found


class DueMessages:
    """The messages of one exchange that are on disk.

    Attributes:
        count: of them.

    """

    __slots__ = ("_chunks", "_firsts", "count")

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        # Due time and number of the first of each chunk.
        self._firsts: list[tuple[int, int]] = []
        self.count = 0

    def first(self) -> tuple[int, int]:
        """Due time and number of the first of all; there has to be one."""
        return self._firsts[0]

    def add(self, one: Due) -> None:
        """Put a message in its place."""
        self.count += 1
        key = (one.due_ms, one.number)
        chunks = self._chunks
        place = max(bisect_right(self._firsts, key) - 1, 0)
        if not chunks:
            chunks.append(_Chunk(b"", b"", b""))
            self._firsts.append(key)
        elif chunks[place].count >= CHUNK_COUNT:
            place = self._make_room(place, key)

        chunks[place] = chunks[place].with_one(one)
        self._firsts[place] = min(self._firsts[place], key)

    def _make_room(self, place: int, key: tuple[int, int]) -> int:
        """Begin a chunk, or divide a full one; returns which is the one for a key then."""
        chunk = self._chunks[place]
        last = chunk.at(chunk.count - 1)
        if place == len(self._chunks) - 1 and key > (last.due_ms, last.number):
            # Nearly always: what comes later is due later.
            self._chunks.append(_Chunk(b"", b"", b""))
            self._firsts.append(key)
            return place + 1

        half = chunk.count // 2
        middle = chunk.at(half)
        self._chunks[place : place + 1] = [chunk.slice(0, half), chunk.slice(half, chunk.count)]
        self._firsts.insert(place + 1, (middle.due_ms, middle.number))
        return place if key < self._firsts[place + 1] else place + 1

    def take(self, until_ms: int) -> list[Due]:
        """Take the first few of those that are due until then; at least one if there is one."""
        if not self._chunks:
            return []

        chunk = self._chunks[0]
        stop = chunk.count_until(until_ms)
        if stop == chunk.count:
            del self._chunks[0]
            del self._firsts[0]
        elif stop:
            rest = chunk.slice(stop, chunk.count)
            first = rest.at(0)
            self._chunks[0] = rest
            self._firsts[0] = (first.due_ms, first.number)

        self.count -= stop
        return [chunk.at(place) for place in range(stop)]

    def clear(self) -> None:
        """Forget all."""
        self._chunks.clear()
        self._firsts.clear()
        self.count = 0

    # -- the books of the log

    def positions(self) -> list[array[int]]:
        """Where they lie, some after the other."""
        return [chunk.all_positions() for chunk in self._chunks]

    def places_in(self, numbers: set[int]) -> list[int]:
        """Where those lie that are in these segments of the log."""
        found: list[int] = []
        for chunk in self._chunks:
            found += [one for one in chunk.all_positions() if one >> OFFSET_BITS in numbers]

        return found

    def move(self, places: dict[int, int]) -> list[int]:
        """Messages have another position now; returns the old ones that are here."""
        found: list[int] = []
        for number, chunk in enumerate(self._chunks):
            positions = chunk.all_positions()
            here = [one for one in positions if one in places]
            if here:
                found += here
                moved = array("Q", [places.get(one, one) for one in positions])
                self._chunks[number] = _Chunk(chunk.dues, chunk.numbers, moved.tobytes())

        return found

    def append_state(self, records: list[list[bytes]], holder_id: int) -> None:
        """Add what a checkpoint has to tell."""
        head = bytes((DUE_INDEX,)) + holder_id.to_bytes(INDEX_HEAD_BYTES - 1, "little")
        records += [[head, one.numbers, one.dues, one.positions] for one in self._chunks]

    def take_index(self, buffer: bytes, start: i64, end: i64) -> int:
        """Add what a checkpoint tells from there on; returns the greatest number of arrival."""
        size: i64 = (end - start) // 3
        numbers = buffer[start : start + size]
        dues = buffer[start + size : start + 2 * size]
        chunk = _Chunk(dues, numbers, buffer[start + 2 * size : end])
        if not chunk.count:
            return 0

        if self._is_behind_all(chunk.at(0)):
            self._append(chunk)
        else:
            for one in _all_of(chunk):
                self.add(one)

        arrivals = array("Q")
        arrivals.frombytes(numbers)
        return max(arrivals)

    def _is_behind_all(self, one: Due) -> bool:
        """Whether a message comes after all that are here."""
        if not self._chunks:
            return True

        chunk = self._chunks[len(self._chunks) - 1]
        last = chunk.at(chunk.count - 1)
        return (last.due_ms, last.number) < (one.due_ms, one.number)

    def _append(self, chunk: _Chunk) -> None:
        first = chunk.at(0)
        self._chunks.append(chunk)
        self._firsts.append((first.due_ms, first.number))
        self.count += chunk.count

    def settle_all(self, gone: set[int]) -> None:
        """Forget those at these positions."""
        chunks = self._chunks
        self._chunks = []
        self._firsts = []
        self.count = 0
        for chunk in chunks:
            if gone.isdisjoint(chunk.all_positions()):
                kept = chunk
            else:
                kept = _chunk_of([one for one in _all_of(chunk) if one.position not in gone])

            if kept.count:
                self._append(kept)


def _all_of(chunk: _Chunk) -> list[Due]:
    return [chunk.at(place) for place in range(chunk.count)]


def _chunk_of(found: list[Due]) -> _Chunk:
    return _Chunk(
        array("Q", [one.due_ms for one in found]).tobytes(),
        array("Q", [one.number for one in found]).tobytes(),
        array("Q", [one.position for one in found]).tobytes(),
    )


def without_lost_messages(body: bytes, is_there: Callable[[int], bool]) -> tuple[bytes, int]:
    """The record of a checkpoint without the messages that cannot be read, and how many those are.

    Args:
        body: of the record, with its kind.
        is_there: whether the message at a position can be read.

    """
    messages = DueMessages()
    messages.take_index(body, INDEX_HEAD_BYTES, len(body))
    before = messages.count
    lost = [one for chunk in messages.positions() for one in chunk if not is_there(one)]
    messages.settle_all(set(lost))
    records: list[list[bytes]] = []
    messages.append_state(records, int(u32_at(body, 1)))
    kept = [b"".join(record) for record in records]
    return kept[0] if kept else body[:INDEX_HEAD_BYTES], before - messages.count
