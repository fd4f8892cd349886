"""Core: a run of a stream's entries, that goes as a whole when it goes (rule ST-07).

Of each entry there is kept, packed, when it came (4 bytes) and, where there is a log, its position
there (8); and a mark of its filter value (2) from the first one on that has one. The entries
themselves are in memory, all of them or the newest. What is packed of a segment that takes no more
entries is not changed any more but as a whole, so that a checkpoint can share it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.core.durable import STREAM_INDEX
from broker.core.message import Message, content_with_properties
from broker.core.queue.stream_filter import MARK_BYTES, NOTHING, StreamFilter, filter_value_of
from broker.store.api import OFFSET_BITS
from broker.store.records import u32_at, u64_at
from broker.wire.properties import set_headers, with_headers
from broker.wire.tables import Field

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.message import Address

__all__ = ["ENTRY_OVERHEAD_BYTES", "Entry", "StreamSegment", "segment_from"]

ENTRY_OVERHEAD_BYTES: Final = 64
"""What an entry counts for beside its content: about what RabbitMQ adds to one on disk."""

SPAN_MS_MAX: Final = (1 << 32) - 1
"""Between the first and the last entry of a segment."""

MARKS_KNOWN_MAX: Final = 256
"""Different marks of a segment that are remembered, to pass over it as a whole."""

TIME_BYTES: Final = 4
PLACE_BYTES: Final = 8
HEAD_BYTES: Final = 36
"""Of a segment in a checkpoint: first offset, count, time, size, bytes of bodies; then times,
places and marks."""

OFFSET_HEADER: Final = "x-stream-offset"
OFFSET_ENTRY: Final = bytes((len(OFFSET_HEADER),)) + OFFSET_HEADER.encode() + b"l"
"""The header as it is encoded, but for its value."""

HAS_HEADERS: Final = 0x20
"""In the upper octet of the property flags."""


class Entry:
    """One message of a stream, in memory.

    Attributes:
        content: with its offset in it from the first delivery on, for all.
        filter_value: None where it was not looked for yet.
        pending: the message as the log is given it, until that is done.

    """

    __slots__ = ("_has_offset", "address", "body_size", "content", "filter_value", "pending")

    def __init__(self, message: Message, filter_value: str | None) -> None:
        self.address: Address = message.address
        self.content: bytes = message.content
        self.body_size: i64 = message.body_size
        self.filter_value = filter_value
        self.pending: Message | None = None
        self._has_offset = False

    @property
    def size_bytes(self) -> i64:
        """Memory that it takes, about."""
        return len(self.content) + ENTRY_OVERHEAD_BYTES

    def message_at(self, offset: i64) -> Message:
        """A message to be delivered, which says what its offset is (rule ST-05)."""
        if not self._has_offset:
            self.content = _with_offset(self.content, offset)
            self._has_offset = True

        message = Message(self.address, self.content, self.body_size, False, -1)
        message.position = offset
        return message

    def is_wanted(self, wanted: StreamFilter) -> bool:
        """Whether its filter value is one of those."""
        value = self.filter_value
        if value is None:
            value = filter_value_of(Message(self.address, self.content, self.body_size, False, -1))
            self.filter_value = value

        return value in wanted.values


class StreamSegment:
    """A run of entries with consecutive offsets.

    Args:
        base: the offset of the first.

    Attributes:
        count: entries.
        cold_count: how many of the first are not in memory.
        placed_count: how many of the first are known to have a place in the log.
        entries: those in memory.
        first_ms: when the first came.
        last_ms: when the last came.
        size_bytes: what it counts for when the stream is limited.
        body_bytes: of all bodies.

    """

    __slots__ = (
        "_high_number",
        "_is_packed",
        "_known_marks",
        "_low_number",
        "_marks",
        "_packed_marks",
        "_packed_places",
        "_packed_times",
        "_places",
        "_times",
        "base",
        "body_bytes",
        "cold_count",
        "count",
        "entries",
        "first_ms",
        "last_ms",
        "placed_count",
        "size_bytes",
    )

    def __init__(self, base: i64) -> None:
        self.base = base
        self.count: i64 = 0
        self.cold_count: i64 = 0
        self.placed_count: i64 = 0
        self.entries: list[Entry] = []
        self.first_ms: i64 = 0
        self.last_ms: i64 = 0
        self.size_bytes: i64 = 0
        self.body_bytes: i64 = 0
        self._times: array[int] = array("I")
        self._places: array[int] = array("Q")
        # Empty while no entry has a filter value.
        self._marks = bytearray()
        self._known_marks: set[int] = set()
        self._is_packed = False
        self._packed_times = b""
        self._packed_places = b""
        self._packed_marks = b""
        # Of the log's segments that have entries of it.
        self._low_number: i64 = (1 << OFFSET_BITS) - 1
        self._high_number: i64 = 0

    @property
    def end(self) -> i64:
        """The offset behind the last entry."""
        return self.base + self.count

    # -- taking entries

    def can_take(self, time_ms: i64) -> bool:
        """Whether an entry of that time fits in, as far as its time goes."""
        return self.count == 0 or self.last_ms <= time_ms <= self.first_ms + SPAN_MS_MAX

    def add(self, entry: Entry, mark: int, size_bytes: i64, time_ms: i64) -> None:
        """Append an entry that is in memory."""
        self.entries.append(entry)
        self._note(mark, size_bytes, time_ms)
        self.body_bytes += entry.body_size

    def add_cold(
        self, place: i64, mark: int, *, size_bytes: i64, body_size: i64, time_ms: i64
    ) -> None:
        """Append an entry that is in the log alone."""
        self._note(mark, size_bytes, time_ms)
        self.body_bytes += body_size
        self.cold_count += 1
        self._add_place(place)

    def _note(self, mark: int, size_bytes: i64, time_ms: i64) -> None:
        count: i64 = self.count
        if count == 0:
            self.first_ms = time_ms

        self._times.append(int(time_ms - self.first_ms))
        self.last_ms = time_ms
        self.size_bytes += size_bytes
        self.count = count + 1
        marks = self._marks
        if not mark and not marks:
            return

        if not marks and count:
            marks.extend(bytes(MARK_BYTES * int(count)))
            self._known_marks.add(0)

        marks.extend(mark.to_bytes(MARK_BYTES, "little"))
        if len(self._known_marks) <= MARKS_KNOWN_MAX:
            self._known_marks.add(mark)

    def _add_place(self, place: i64) -> None:
        self._places.append(int(place))
        self.placed_count += 1
        self._note_number(place >> OFFSET_BITS)

    def _note_number(self, number: i64) -> None:
        if number < self._low_number:
            self._low_number = number

        if number > self._high_number:
            self._high_number = number

    def take_places(self) -> None:
        """Learn where the log has the entries that it was given."""
        entries = self.entries
        while self.placed_count < self.count:
            entry = entries[self.placed_count - self.cold_count]
            pending = entry.pending
            if pending is None or pending.record <= 0:
                return

            entry.pending = None
            self._add_place(pending.record)

    # -- packing

    def pack(self) -> None:
        """It takes no more entries: keep what is known of them in a form that is not changed."""
        if self._is_packed or self.placed_count < self.count:
            return

        self._is_packed = True
        self._packed_times = self._times.tobytes()
        self._packed_places = self._places.tobytes()
        self._packed_marks = bytes(self._marks)
        self._times = array("I")
        self._places = array("Q")
        self._marks = bytearray()

    def unpack(self) -> None:
        """Take entries again."""
        if self._is_packed:
            self._is_packed = False
            self._times.frombytes(self._packed_times)
            self._places.frombytes(self._packed_places)
            self._marks = bytearray(self._packed_marks)
            self._packed_times = b""
            self._packed_places = b""
            self._packed_marks = b""

    # -- reading

    def _time_at(self, place: i64) -> i64:
        if self._is_packed:
            return self.first_ms + u32_at(self._packed_times, place * TIME_BYTES)

        return self.first_ms + self._times[place]

    def place_at(self, time_ms: i64) -> i64:
        """Which entry is the first of that time or later."""
        low: i64 = 0
        high: i64 = self.count
        while low < high:
            middle: i64 = (low + high) // 2
            if self._time_at(middle) < time_ms:
                low = middle + 1
            else:
                high = middle

        return low

    def find(self, offset: i64, end: i64, wanted: StreamFilter) -> i64:
        """The first offset in that range whose mark is wanted, or NOTHING."""
        start: i64 = max(offset - self.base, 0)
        stop: i64 = min(end - self.base, self.count)
        if start >= stop:
            return NOTHING

        marks: bytes | bytearray = self._packed_marks if self._is_packed else self._marks
        if not marks:
            return self.base + start if wanted.wants_unfiltered else NOTHING

        known = self._known_marks
        if len(known) <= MARKS_KNOWN_MAX and not wanted.is_among(known):
            return NOTHING

        found: i64 = wanted.find(marks, start, stop)
        return NOTHING if found == NOTHING else self.base + found

    def places(self, start: i64, stop: i64) -> list[int]:
        """Where in the log some entries are, that are not in memory."""
        if not self._is_packed:
            return self._places[int(start) : int(stop)].tolist()

        found = array("Q")
        found.frombytes(self._packed_places[start * PLACE_BYTES : stop * PLACE_BYTES])
        return found.tolist()

    def cool(self, stop: i64, excess_count: i64, excess_bytes: i64) -> list[Entry]:
        """Let go of entries, the oldest first, until so much has gone.

        Args:
            stop: the offset at which to end in any case.
            excess_count: entries that are too many.
            excess_bytes: by which they are too large.

        Returns those that have gone.

        """
        entries = self.entries
        most: i64 = min(len(entries), stop - self.base - self.cold_count)
        gone: i64 = 0
        while gone < most and (gone < excess_count or excess_bytes > 0):
            excess_bytes -= entries[gone].size_bytes
            gone += 1

        found = entries[: int(gone)]
        del entries[: int(gone)]
        self.cold_count += gone
        return found

    # -- the books of the log

    def all_places(self) -> array[int]:
        """Where the log has them."""
        if not self._is_packed:
            return self._places

        found = array("Q")
        found.frombytes(self._packed_places)
        return found

    def is_in(self, numbers: set[int]) -> bool:
        """Whether entries may lie in one of those segments of the log."""
        low: i64 = self._low_number
        high: i64 = self._high_number
        for number in numbers:  # noqa: SIM110 - compiled, a loop is several times faster than any()
            if low <= number <= high:
                return True

        return False

    def places_in(self, numbers: set[int]) -> list[int]:
        """The places that lie in those segments of the log."""
        if not self.is_in(numbers):
            return []

        return [one for one in self.all_places() if one >> OFFSET_BITS in numbers]

    def move(self, moved: dict[int, int]) -> list[int]:
        """Entries have another place now: old ones to new ones. Returns the old ones found."""
        places = self.all_places()
        found: list[int] = []
        for number, place in enumerate(places):
            new = moved.get(place)
            if new is not None:
                found.append(place)
                places[number] = new
                self._note_number(new >> OFFSET_BITS)

        if found and self._is_packed:
            # Not into what there was: a checkpoint may share that.
            self._packed_places = places.tobytes()

        return found

    def move_back(self, limit_ms: i64) -> None:
        """Nothing here came later than that: a clock was wrong."""
        times = [min(int(self._time_at(place)), int(limit_ms)) for place in range(int(self.count))]
        self.first_ms = times[0]
        self.last_ms = times[len(times) - 1]
        self._times = array("I", [one - times[0] for one in times])
        if self._is_packed:
            self._packed_times = self._times.tobytes()
            self._times = array("I")

    def append_state(self, records: list[list[bytes]], holder_id: int, wall_offset_ms: i64) -> None:
        """Add the record that tells a checkpoint all of it."""
        about = (
            bytes((STREAM_INDEX,))
            + holder_id.to_bytes(4, "little")
            + int(self.base).to_bytes(8, "little")
            + int(self.count).to_bytes(4, "little")
            + int(self.first_ms + wall_offset_ms).to_bytes(8, "little")
            + int(self.size_bytes).to_bytes(8, "little")
            + int(self.body_bytes).to_bytes(8, "little")
        )
        if self._is_packed:
            packed = [self._packed_times, self._packed_places, self._packed_marks]
        else:
            packed = [self._times.tobytes(), self._places.tobytes(), bytes(self._marks)]

        records.append([about, *packed])

    def restore(self, buffer: bytes, start: i64, end: i64, wall_offset_ms: i64) -> None:
        """Become what a checkpoint tells from there on."""
        count: i64 = u32_at(buffer, start + 8)
        self.count = count
        self.cold_count = count
        self.placed_count = count
        self.first_ms = u64_at(buffer, start + 12) - wall_offset_ms
        self.size_bytes = u64_at(buffer, start + 20)
        self.body_bytes = u64_at(buffer, start + 28)
        times_end: i64 = start + HEAD_BYTES + TIME_BYTES * count
        places_end: i64 = times_end + PLACE_BYTES * count
        self._is_packed = True
        self._packed_times = buffer[start + HEAD_BYTES : times_end]
        self._packed_places = buffer[times_end:places_end]
        self._packed_marks = buffer[places_end:end]
        self.last_ms = self._time_at(count - 1)
        known: list[int] = list(set(memoryview(self._packed_marks).cast("H")))
        self._known_marks = set(known[: MARKS_KNOWN_MAX + 1])
        places = self.all_places()
        self._low_number = min(places) >> OFFSET_BITS
        self._high_number = max(places) >> OFFSET_BITS


def segment_from(buffer: bytes, start: i64, end: i64, wall_offset_ms: i64) -> StreamSegment:
    """A segment as a checkpoint tells it, behind the identity of its stream."""
    segment = StreamSegment(u64_at(buffer, start))
    segment.restore(buffer, start, end, wall_offset_ms)
    return segment


def _with_offset(content: bytes, offset: i64) -> bytes:
    size = int.from_bytes(content[3:7], "big")
    raw = content[19 : 7 + size]
    if raw[0] & HAS_HEADERS:
        raw = set_headers(raw, {OFFSET_HEADER: Field("l", int(offset))})
    else:
        raw = with_headers(raw, OFFSET_ENTRY + int(offset).to_bytes(8, "big"))

    return content_with_properties(content, raw)
