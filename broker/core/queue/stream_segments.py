"""Core: the segments of a stream that are kept, in order, and how big they may get (rule ST-07).

A segment's place is a number that it keeps as long as it is there, like the offsets in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.limits import STREAM_SEGMENT_ENTRIES_MAX

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.queue.stream_segment import StreamSegment

__all__ = ["NO_LIMIT", "StreamLimits", "StreamSegments"]

SEGMENT_BYTES_DEFAULT: Final = 8 * 1024 * 1024
SEGMENT_BYTES_LEAST: Final = 1024 * 1024
SEGMENTS_WANTED: Final = 8
"""RabbitMQ's segments are of 500 MB where nothing else is asked for, and their files are its
limits' grain. Here they are a grain and no more: as small as it takes to keep to a limit within an
eighth, but for limits so low that they cannot be meant."""

NO_LIMIT: Final = 1 << 60
"""More bytes and milliseconds than there will ever be; greater limits are the same as this one."""

DROPPED_MIN: Final = 64
"""So few places of dropped segments are not worth a sweep."""


class StreamLimits:
    """What is kept, and when a segment ends.

    Args:
        bytes_max: of all segments but for the last; None is no limit.
        age_ms_max: of the newest entry of a segment; None is no limit.
        segment_bytes_max: a segment that has as much takes no more; None lets it follow from the
            limits, and lets segments end by their age too.

    """

    __slots__ = ("_segment_bytes_max", "_segment_ms_max", "age_ms_max", "bytes_max")

    def __init__(
        self, bytes_max: int | None, age_ms_max: int | None, segment_bytes_max: int | None
    ) -> None:
        self.bytes_max: i64 = _limit_of(bytes_max)
        self.age_ms_max: i64 = _limit_of(age_ms_max)
        if segment_bytes_max is not None:
            self._segment_bytes_max: i64 = _limit_of(segment_bytes_max)
            self._segment_ms_max: i64 = NO_LIMIT
            return

        size: i64 = self.bytes_max // SEGMENTS_WANTED
        self._segment_bytes_max = max(min(size, SEGMENT_BYTES_DEFAULT), SEGMENT_BYTES_LEAST)
        self._segment_ms_max = self.age_ms_max // SEGMENTS_WANTED

    def is_full(self, segment: StreamSegment, now_ms: i64) -> bool:
        """Whether the next entry begins another segment."""
        if segment.size_bytes >= self._segment_bytes_max:
            return True

        if segment.count >= STREAM_SEGMENT_ENTRIES_MAX or not segment.can_take(now_ms):
            return True

        return now_ms - segment.first_ms >= self._segment_ms_max


def _limit_of(value: int | None) -> i64:
    return NO_LIMIT if value is None else min(value, NO_LIMIT)


class StreamSegments:
    """The segments that are kept.

    Attributes:
        first: the place of the oldest, or of the one to come.
        end: the place behind the newest.

    """

    __slots__ = ("_all", "_shift", "end", "first")

    def __init__(self) -> None:
        # The first few may be of dropped ones: swept out when there are many.
        self._all: list[StreamSegment | None] = []
        self._shift: i64 = 0
        self.first: i64 = 0
        self.end: i64 = 0

    def append(self, segment: StreamSegment) -> None:
        """Add the newest."""
        self._all.append(segment)
        self.end += 1

    def drop_first(self) -> None:
        """Forget the oldest."""
        self._all[self.first - self._shift] = None
        self.first += 1
        dropped: i64 = self.first - self._shift
        if dropped > DROPPED_MIN and dropped * 2 > len(self._all):
            del self._all[:dropped]
            self._shift = self.first

    def clear(self) -> None:
        """Forget all."""
        self._all = []
        self._shift = self.end
        self.first = self.end

    def at(self, place: i64) -> StreamSegment:
        """One that is kept."""
        segment = self._all[place - self._shift]
        assert segment is not None
        return segment

    def last(self) -> StreamSegment | None:
        """The newest, if there is one."""
        return self.at(self.end - 1) if self.end > self.first else None

    def kept(self) -> list[StreamSegment]:
        """All of them."""
        return [one for one in self._all if one is not None]

    def place_of(self, offset: i64) -> i64:
        """The place of the segment that has an offset which is kept."""
        high: i64 = self.end - 1
        if offset >= self.at(high).base:
            return high

        low: i64 = self.first
        while low < high:
            middle: i64 = (low + high + 1) // 2
            if self.at(middle).base <= offset:
                low = middle
            else:
                high = middle - 1

        return low

    def place_since(self, time_ms: i64) -> i64:
        """The place of the first segment with an entry of that time or later; the end if none."""
        low: i64 = self.first
        high: i64 = self.end
        while low < high:
            middle: i64 = (low + high) // 2
            if self.at(middle).last_ms < time_ms:
                low = middle + 1
            else:
                high = middle

        return low

    def place_unplaced(self) -> i64:
        """The place of the first segment that the log does not have all of, or of the newest."""
        place: i64 = self.end - 1
        while place > self.first:
            before = self.at(place - 1)
            if before.placed_count == before.count:
                break

            place -= 1

        return place
