"""The log of a stream: messages in the order in which they came, in segments (rules ST-01, ST-07).

Nothing is ever taken out of the middle. What is too old, or too much, goes a whole segment at a
time, and the last segment always stays. An offset is a message's number since the stream began; it
never changes and is never given again. Whoever reads keeps an offset, and nothing is kept of them.

Where the virtual host has a journal, an entry is read by nobody, and not dropped, before the
journal has it safe: no reader ever sees an offset that a crash could give to another message. Only
the newest entries stay in memory then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.durable import STREAM_TRUNCATED
from broker.core.queue.stream_cells import StreamCells
from broker.core.queue.stream_filter import NOTHING, StreamFilter, mark_of
from broker.core.queue.stream_segment import ENTRY_OVERHEAD_BYTES, Entry, StreamSegment
from broker.core.queue.stream_segments import NO_LIMIT, StreamLimits, StreamSegments
from broker.limits import STREAM_HOT_BYTES_MAX, STREAM_HOT_ENTRIES_MAX
from broker.store.api import OFFSET_BITS

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal
    from broker.core.message import Message

__all__ = ["SEGMENT_START", "StreamLog"]

SEGMENT_START: Final = 1 << 62
"""In the time of an entry as the journal has it: a segment began with it."""


class StreamLog:
    """The entries of one stream.

    Attributes:
        next_offset: of the message that comes next.
        safe_offset: entries before it can be read.
        count: entries that are kept.
        body_bytes: of their bodies.
        is_held_up: something is beyond the limits, and has to be safe before it goes.
        hot_entries_max: of the newest entries, how many stay in memory although they are safe.
        hot_bytes_max: bytes of these.

    """

    __slots__ = (
        "_cells",
        "_cooling",
        "_holder",
        "_hot_bytes",
        "_hot_count",
        "_journal",
        "_limits",
        "_segments",
        "_size_bytes",
        "body_bytes",
        "count",
        "hot_bytes_max",
        "hot_entries_max",
        "is_held_up",
        "next_offset",
        "safe_offset",
    )

    def __init__(self) -> None:
        self._segments = StreamSegments()
        self._limits = StreamLimits(None, None, None)
        self._size_bytes: i64 = 0
        self.next_offset: i64 = 0
        self.safe_offset: i64 = 0
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        self.is_held_up = False
        self.hot_entries_max: i64 = STREAM_HOT_ENTRIES_MAX
        self.hot_bytes_max: i64 = STREAM_HOT_BYTES_MAX
        # With a journal only: what it is for, the first segment that has entries in memory, and
        # what those of all segments come to.
        self._journal: Journal | None = None
        self._holder: Destination | None = None
        self._cells: StreamCells | None = None
        self._cooling: i64 = 0
        self._hot_count: i64 = 0
        self._hot_bytes: i64 = 0

    @property
    def first_offset(self) -> i64:
        """The offset of the oldest entry; with none, that of the one to come."""
        return self.next_offset - self.count

    @property
    def segment_count(self) -> int:
        """In how many segments the entries are."""
        return int(self._segments.end - self._segments.first)

    @property
    def first_ms(self) -> int:
        """When the first of what is kept came, in milliseconds of the node; 0 where nothing is."""
        if not self.count:
            return 0

        return int(self._segments.at(self._segments.first).first_ms)

    def keep_in(self, journal: Journal, holder: Destination) -> None:
        """Have the entries outlive the broker; call it before anything is appended.

        Args:
            journal: of the virtual host.
            holder: the stream.

        """
        self._journal = journal
        self._holder = holder
        self._cells = StreamCells(journal, holder)

    def limit(
        self, *, bytes_max: int | None, age_ms_max: int | None, segment_bytes_max: int | None
    ) -> None:
        """Set what is kept (see `StreamLimits`); afterwards you must call `retain`."""
        self._limits = StreamLimits(bytes_max, age_ms_max, segment_bytes_max)

    # -- writing

    def begin_at(self, offset: i64) -> None:
        """Give the first message an offset; call it while nothing has ever been here."""
        assert self.next_offset == 0
        self.next_offset = offset
        self.safe_offset = offset
        journal = self._journal
        holder = self._holder
        if journal is not None and holder is not None:
            journal.stream_truncated(holder, int(offset))

    def append(self, message: Message, filter_value: str, now_ms: i64) -> None:
        """Add a message at the end; what is beyond the limits then goes."""
        segment = self._segments.last()
        is_start = segment is None or self._limits.is_full(segment, now_ms)
        if segment is None or is_start:
            segment = self._begin_segment(segment)
            self.retain(now_ms)

        entry = Entry(message, filter_value)
        size: i64 = len(message.content) + message.address.tail_size + ENTRY_OVERHEAD_BYTES
        segment.add(entry, mark_of(filter_value), size, now_ms)
        self._count(size, message.body_size)
        journal = self._journal
        holder = self._holder
        if journal is None or holder is None:
            self.safe_offset = self.next_offset
            return

        entry.pending = message
        self._hot_count += 1
        self._hot_bytes += entry.size_bytes
        message.deadline_ms = now_ms | SEGMENT_START if is_start else now_ms
        journal.add(holder, message)

    def _count(self, size_bytes: i64, body_size: i64) -> None:
        self._size_bytes += size_bytes
        self.body_bytes += body_size
        self.next_offset += 1
        self.count += 1

    def _begin_segment(self, last: StreamSegment | None) -> StreamSegment:
        if last is not None:
            last.pack()

        segment = StreamSegment(self.next_offset)
        self._segments.append(segment)
        return segment

    def written(self) -> None:
        """What the journal was given is safe: it can be read, and read back."""
        self._take_places()
        self.safe_offset = self._placed_end()
        self._cool()

    def _take_places(self) -> None:
        """Learn the positions of what the journal has taken."""
        if not self.count:
            return

        segments = self._segments
        place: i64 = segments.place_unplaced()
        while place < segments.end:
            segment = segments.at(place)
            segment.take_places()
            place += 1
            if place < segments.end:
                segment.pack()

            if segment.placed_count < segment.count:
                return

    def _placed_end(self) -> i64:
        if not self.count:
            return self.next_offset

        segment = self._segments.at(self._segments.place_unplaced())
        return segment.base + segment.placed_count

    def _cool(self) -> None:
        """Leave all but the newest entries to the disk."""
        segments = self._segments
        while True:
            excess_count: i64 = self._hot_count - self.hot_entries_max
            excess_bytes: i64 = self._hot_bytes - self.hot_bytes_max
            if excess_count <= 0 and excess_bytes <= 0:
                return

            segment = segments.at(self._cooling)
            self._forget_hot(segment.cool(self.safe_offset, excess_count, excess_bytes))
            if segment.entries or self._cooling == segments.end - 1:
                return

            self._cooling += 1

    def _forget_hot(self, entries: list[Entry]) -> None:
        self._hot_count -= len(entries)
        for entry in entries:
            self._hot_bytes -= entry.size_bytes

    # -- dropping

    def retain(self, now_ms: i64) -> None:
        """Drop the oldest segments while they are beyond the limits (rule ST-07)."""
        journal = self._journal
        before: i64 = self._segments.first
        self.is_held_up = False
        while self._is_beyond_limits(now_ms):
            segment = self._segments.at(self._segments.first)
            if segment.end > self.safe_offset:
                self.is_held_up = True
                break

            if journal is not None:
                journal.forget_positions(segment.all_places())

            self._drop_first(segment)

        if self._segments.first == before:
            return

        holder = self._holder
        if journal is not None and holder is not None:
            journal.stream_truncated(holder, int(self.first_offset))

    def _is_beyond_limits(self, now_ms: i64) -> bool:
        """Whether there is a segment before the last, and it is too old, or there is too much."""
        segments = self._segments
        if segments.end - segments.first < 2:
            return False

        if self._size_bytes > self._limits.bytes_max:
            return True

        return segments.at(segments.first).last_ms < now_ms - self._limits.age_ms_max

    def _drop_first(self, segment: StreamSegment) -> None:
        if self._journal is not None:
            self._forget_hot(segment.entries)

        self._segments.drop_first()
        self._cooling = max(self._cooling, self._segments.first)
        self._size_bytes -= segment.size_bytes
        self.body_bytes -= segment.body_bytes
        self.count -= segment.count

    def next_retention(self) -> i64:
        """When `retain` drops something next, because of its age; NOTHING where nothing waits."""
        segments = self._segments
        age_ms_max: i64 = self._limits.age_ms_max
        if age_ms_max == NO_LIMIT or segments.end - segments.first < 2:
            return NOTHING

        segment = segments.at(segments.first)
        if segment.end > self.safe_offset:
            return NOTHING

        return segment.last_ms + age_ms_max + 1

    def clear(self) -> None:
        """Forget everything but the offset that comes next."""
        if self._journal is not None:
            self._let_go(self._journal)

        self._segments.clear()
        self._size_bytes = 0
        self.body_bytes = 0
        self.count = 0
        self.safe_offset = self.next_offset
        self._cooling = self._segments.end
        self._hot_count = 0
        self._hot_bytes = 0

    def _let_go(self, journal: Journal) -> None:
        """Nothing of what the journal has, or was given, is of use any more."""
        for segment in self._segments.kept():
            journal.forget_positions(segment.all_places())
            for entry in segment.entries:
                pending = entry.pending
                if pending is not None:
                    journal.forget([pending])

        self.forget_read()

    # -- reading

    def find(self, offset: i64, wanted: StreamFilter | None) -> i64:
        """The first offset from there on that can be read and is wanted, or NOTHING.

        Args:
            offset: where to begin.
            wanted: None is everything.

        Raises:
            StoreError: an entry has to be looked at, and cannot be read.

        """
        start: i64 = max(offset, self.first_offset)
        if start >= self.safe_offset:
            return NOTHING

        if wanted is None:
            return start

        segments = self._segments
        place: i64 = segments.place_of(start)
        while place < segments.end:
            segment = segments.at(place)
            found: i64 = segment.find(start, self.safe_offset, wanted)
            if found == NOTHING:
                place += 1
            elif self._entry(segment, found).is_wanted(wanted):
                return found
            else:
                # Another value with the same mark.
                start = found + 1

        return NOTHING

    def message_at(self, offset: i64) -> Message:
        """The message at an offset that `find` has found: a new object, with shared content.

        Raises:
            StoreError: it cannot be read.

        """
        segment = self._segments.at(self._segments.place_of(offset))
        return self._entry(segment, offset).message_at(offset)

    def _entry(self, segment: StreamSegment, offset: i64) -> Entry:
        place: i64 = offset - segment.base - segment.cold_count
        if place >= 0:
            return segment.entries[place]

        cells = self._cells
        assert cells is not None
        return cells.entry_at(segment, offset)

    def has_read(self) -> bool:
        """Whether something that was read back is in memory."""
        return self._cells is not None and self._cells.size_bytes > 0

    def forget_read(self) -> None:
        """Nobody needs what was read back."""
        if self._cells is not None:
            self._cells.clear()

    @property
    def hot_offset(self) -> i64:
        """The offset of the first entry in memory; with none, of the one to come."""
        return self.next_offset - self._hot_count

    def offset_at(self, time_ms: int) -> i64:
        """The offset of the first entry that came at that time or later."""
        # It may be any number. A time before the broker's clock began is negative.
        since: i64 = max(min(time_ms, NO_LIMIT), -NO_LIMIT)
        place: i64 = self._segments.place_since(since)
        if place == self._segments.end:
            return self.next_offset

        found = self._segments.at(place)
        return found.base + found.place_at(since)

    # -- the books of the journal

    def restore(self, segments: list[StreamSegment], next_offset: i64) -> None:
        """Begin with what recovery has found."""
        self.next_offset = next_offset
        self.safe_offset = next_offset
        for segment in segments:
            self._segments.append(segment)
            self._size_bytes += segment.size_bytes
            self.body_bytes += segment.body_bytes
            self.count += segment.count

        last = self._segments.last()
        if last is not None:
            last.unpack()
            self._cooling = self._segments.end - 1

    def places_in(self, numbers: set[int]) -> list[int]:
        """Where entries are that lie in those segments of the journal's log."""
        found: list[int] = []
        for segment in self._segments.kept():
            found += segment.places_in(numbers)

        return found

    def move(self, moved: dict[int, int]) -> list[int]:
        """Entries have another place now: old ones to new ones. Returns the old ones found."""
        numbers = {old >> OFFSET_BITS for old in moved}
        found: list[int] = []
        for segment in self._segments.kept():
            if segment.is_in(numbers):
                found += segment.move(moved)

        return found

    def append_state(self, records: list[list[bytes]], wall_offset_ms: i64) -> None:
        """Add what a checkpoint has to tell, at a time when the journal has taken everything."""
        holder = self._holder
        assert holder is not None
        self._take_places()
        assert self._placed_end() == self.next_offset
        holder_id = int(holder.log_id)
        first = int(self.first_offset).to_bytes(8, "little")
        records.append([bytes((STREAM_TRUNCATED,)) + holder_id.to_bytes(4, "little") + first])
        for segment in self._segments.kept():
            segment.append_state(records, holder_id, wall_offset_ms)
