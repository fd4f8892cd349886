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
from broker.limits import (
    STREAM_HOT_BYTES_MAX,
    STREAM_HOT_ENTRIES_MAX,
    STREAM_SEGMENT_ENTRIES_MAX,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal
    from broker.core.message import Message
    from broker.store.api import Segment

__all__ = ["SEGMENT_START", "StreamLog"]

SEGMENT_BYTES_DEFAULT: Final = 8 * 1024 * 1024
SEGMENT_BYTES_LEAST: Final = 1024 * 1024
SEGMENTS_WANTED: Final = 8
"""RabbitMQ's segments are of 500 MB where nothing else is asked for, and their files are its
limits' grain. Here they are a grain and no more: as small as it takes to keep to a limit within an
eighth, but for limits so low that they cannot be meant."""

NO_LIMIT: Final = 1 << 60
"""More bytes and milliseconds than there will ever be; greater limits are the same as this one."""

SEGMENT_START: Final = 1 << 62
"""In the time of an entry as the journal has it: a segment began with it."""

DROPPED_MIN: Final = 64
"""Places of dropped segments below this number are not worth a sweep."""


class StreamLog:
    """The entries of one stream.

    Attributes:
        next_offset: of the message that comes next.
        count: entries that are kept.
        body_bytes: of their bodies.

    """

    __slots__ = (
        "_age_ms_max",
        "_bytes_max",
        "_first_segment",
        "_segment_bytes_max",
        "_segment_ms_max",
        "_segments",
        "_size_bytes",
        "body_bytes",
        "count",
        "next_offset",
    )

    def __init__(self) -> None:
        # The places before the first segment are of dropped ones: swept out when there are many.
        self._segments: list[_Segment | None] = []
        self._first_segment: i64 = 0
        self._size_bytes: i64 = 0
        self._bytes_max: i64 = NO_LIMIT
        self._age_ms_max: i64 = NO_LIMIT
        self._segment_bytes_max: i64 = SEGMENT_BYTES_DEFAULT
        self._segment_ms_max: i64 = NO_LIMIT
        self.next_offset: i64 = 0
        self.count: i64 = 0
        self.body_bytes: i64 = 0

    @property
    def first_offset(self) -> i64:
        """The offset of the oldest entry; with none, that of the one to come."""
        return self.next_offset - self.count

    def limit(
        self, *, bytes_max: int | None, age_ms_max: int | None, segment_bytes_max: int | None
    ) -> None:
        """Set what is kept; afterwards you must call `retain`.

        Args:
            bytes_max: of all segments but for the last; None is no limit.
            age_ms_max: of the newest entry of a segment; None is no limit.
            segment_bytes_max: a segment that has as much takes no more; None lets it follow from
                the limits, and lets segments end by their age too.

        """
        self._bytes_max = _limit_of(bytes_max)
        self._age_ms_max = _limit_of(age_ms_max)
        if segment_bytes_max is not None:
            self._segment_bytes_max = _limit_of(segment_bytes_max)
            self._segment_ms_max = NO_LIMIT
            return

        size: i64 = self._bytes_max // SEGMENTS_WANTED
        self._segment_bytes_max = max(min(size, SEGMENT_BYTES_DEFAULT), SEGMENT_BYTES_LEAST)
        self._segment_ms_max = self._age_ms_max // SEGMENTS_WANTED

    # -- writing

    def append(self, message: Message, filter_value: str, now_ms: i64) -> None:
        """Add a message at the end; what is beyond the limits then goes."""
        segment = self._last()
        if segment is None or self._is_full(segment, now_ms):
            segment = _Segment(self.next_offset)
            self._segments.append(segment)
            self.retain(now_ms)

        segment.add(_Entry(message, filter_value, now_ms))
        size: i64 = len(message.content) + message.address.tail_size + ENTRY_OVERHEAD_BYTES
        segment.size_bytes += size
        segment.body_bytes += message.body_size
        self._size_bytes += size
        self.body_bytes += message.body_size
        self.next_offset += 1
        self.count += 1

    def _last(self) -> _Segment | None:
        segments = self._segments
        return segments[len(segments) - 1] if segments else None

    def _is_full(self, segment: _Segment, now_ms: i64) -> bool:
        if segment.size_bytes >= self._segment_bytes_max:
            return True

        if len(segment.entries) >= STREAM_SEGMENT_ENTRIES_MAX:
            return True

        return now_ms - segment.entries[0].time_ms >= self._segment_ms_max

    def retain(self, now_ms: i64) -> None:
        """Drop the oldest segments while they are beyond the limits (rule ST-07)."""
        while len(self._segments) - self._first_segment > 1:
            segment = self._segments[self._first_segment]
            assert segment is not None
            if not self._is_beyond(segment, now_ms):
                break

            self._segments[self._first_segment] = None
            self._first_segment += 1
            self._size_bytes -= segment.size_bytes
            self.body_bytes -= segment.body_bytes
            self.count -= len(segment.entries)

        first: i64 = self._first_segment
        if first > DROPPED_MIN and first * 2 > len(self._segments):
            del self._segments[:first]
            self._first_segment = 0

    def _is_beyond(self, segment: _Segment, now_ms: i64) -> bool:
        return self._size_bytes > self._bytes_max or segment.is_older(now_ms - self._age_ms_max)

    def next_retention(self) -> i64:
        """When `retain` drops something next, because of its age; NOTHING where nothing waits."""
        age_ms_max: i64 = self._age_ms_max
        if age_ms_max == NO_LIMIT or len(self._segments) - self._first_segment < 2:
            return NOTHING

        segment = self._segments[self._first_segment]
        assert segment is not None
        return segment.entries[len(segment.entries) - 1].time_ms + age_ms_max + 1

    def clear(self) -> None:
        """Forget everything but the offset that comes next."""
        self._segments = []
        self._first_segment = 0
        self._size_bytes = 0
        self.body_bytes = 0
        self.count = 0

    # -- reading

    def find(self, offset: i64, wanted: frozenset[str] | None) -> i64:
        """The first offset from there on that is kept and wanted, or NOTHING.

        Args:
            offset: where to begin.
            wanted: the filter values that will do, UNFILTERED among them; None is all of them.

        """
        start: i64 = max(offset, self.first_offset)
        if start >= self.next_offset:
            return NOTHING

        if wanted is None:
            return start

        place: i64 = self._place_of(start)
        while place < len(self._segments):
            segment = self._segments[place]
            assert segment is not None
            found: i64 = segment.find(start, wanted)
            if found != NOTHING:
                return found

            place += 1

        return NOTHING

    def message_at(self, offset: i64) -> Message:
        """The message at an offset that `find` has found: a new object, with shared content."""
        segment = self._segments[self._place_of(offset)]
        assert segment is not None
        entry = segment.entries[offset - segment.base]
        if not entry.has_offset:
            entry.content = _with_offset(entry.content, offset)
            entry.has_offset = True

        message = Message(entry.address, entry.content, entry.body_size, False, -1)
        message.position = offset
        return message

    def offset_at(self, time_ms: int) -> i64:
        """The offset of the first entry that came at that time or later."""
        # It may be any number, and no time that something came at is negative.
        since: i64 = max(min(time_ms, NO_LIMIT), 0)
        segments = self._segments
        low: i64 = self._first_segment
        high: i64 = len(segments)
        while low < high:
            middle: i64 = (low + high) // 2
            segment = segments[middle]
            assert segment is not None
            if segment.is_older(since):
                low = middle + 1
            else:
                high = middle

        if low == len(segments):
            return self.next_offset

        found = segments[low]
        assert found is not None
        return found.base + found.place_at(since)

    def _place_of(self, offset: i64) -> i64:
        """The place of the segment that has an offset which is kept."""
        segments = self._segments
        high: i64 = len(segments) - 1
        last = segments[high]
        assert last is not None
        if offset >= last.base:
            return high

        low: i64 = self._first_segment
        while low < high:
            middle: i64 = (low + high + 1) // 2
            segment = segments[middle]
            assert segment is not None
            if segment.base <= offset:
                low = middle
            else:
                high = middle - 1

        return low


def _limit_of(value: int | None) -> i64:
    return NO_LIMIT if value is None else min(value, NO_LIMIT)


def _with_offset(content: bytes, offset: i64) -> bytes:
    """The content with its offset in its headers (rule ST-05)."""
    size = int.from_bytes(content[3:7], "big")
    raw = content[19 : 7 + size]
    if raw[0] & HAS_HEADERS:
        raw = set_headers(raw, {OFFSET_HEADER: Field("l", int(offset))})
    else:
        raw = with_headers(raw, OFFSET_ENTRY + int(offset).to_bytes(8, "big"))

    return content_with_properties(content, raw)
