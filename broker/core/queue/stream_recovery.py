"""Core: what recovery has found of a stream.

Its offsets are implied: they are counted from where the log says that the stream begins. The
segments are what they were, since the first entry of each says so; nothing else of the limits that
were in force when an entry came has to be known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queue.stream_filter import UNFILTERED, has_filter_value, mark_of, value_in
from broker.core.queue.stream_log import SEGMENT_START, StreamLog
from broker.core.queue.stream_segment import ENTRY_OVERHEAD_BYTES, StreamSegment, segment_from
from broker.core.recovered import Recovered, count_positions
from broker.store.api import OFFSET_BITS
from broker.wire.properties import parse_own_properties

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.deadlines import Deadlines
    from broker.core.durable import StoredMessage
    from broker.core.queue.queue import Queue
    from broker.core.recovered import Live

__all__ = ["RecoveredStream"]

TAIL_BYTES: Final = 2
"""By which `Address.tail` is longer than exchange and key."""


class RecoveredStream(Recovered):
    """The entries of a stream, as the log has told so far.

    Args:
        stream: the one.

    """

    __slots__ = ("_deadlines", "_next_offset", "_segments")

    def __init__(self, stream: Queue) -> None:
        super().__init__(stream)
        self._deadlines: Deadlines = stream.vhost.deadlines
        self._segments: list[StreamSegment] = []
        self._next_offset: i64 = 0

    def add(self, stored: StoredMessage, place: i64, position: i64) -> None:
        told: i64 = stored.deadline(place)
        is_start = told & SEGMENT_START != 0
        time_ms: i64 = (told & (SEGMENT_START - 1)) - self._deadlines.wall_offset_ms
        segment = self._segment_for(time_ms, is_start)
        size: i64 = stored.content_size() + stored.address_size() + TAIL_BYTES
        segment.add_cold(
            position,
            _mark_in(stored.header_frame()),
            size_bytes=size + ENTRY_OVERHEAD_BYTES,
            body_size=stored.body_size(),
            time_ms=time_ms,
        )
        self._next_offset += 1

    def _segment_for(self, time_ms: i64, is_start: bool) -> StreamSegment:
        segments = self._segments
        if segments:
            last = segments[len(segments) - 1]
            # The system's clock may have been set back between two runs.
            if not is_start and last.can_take(time_ms):
                last.unpack()
                return last

            last.pack()

        segment = StreamSegment(self._next_offset)
        segments.append(segment)
        return segment

    def truncate(self, first_offset: i64) -> None:
        dropped = 0
        for segment in self._segments:
            if segment.end > first_offset:
                break

            dropped += 1

        del self._segments[:dropped]
        if not self._segments:
            self._next_offset = max(self._next_offset, first_offset)

    def take_stream_index(self, buffer: bytes, start: i64, end: i64) -> None:
        segment = segment_from(buffer, start, end, self._deadlines.wall_offset_ms)
        self._segments.append(segment)
        self._next_offset = segment.end

    def finish(self) -> None:
        latest = self._latest
        if latest:
            numbers = {origin >> OFFSET_BITS for origin in latest}
            for segment in self._segments:
                if segment.is_in(numbers):
                    segment.move(latest)

        # Nothing comes from the future, nor before what came before it.
        limit_ms: i64 = self._deadlines.now_ms
        for segment in reversed(self._segments):
            if segment.last_ms > limit_ms:
                segment.move_back(limit_ms)

            limit_ms = segment.first_ms

    def count_live(self, live: Live) -> None:
        for segment in self._segments:
            count_positions(segment.all_places(), live)

    @property
    def count(self) -> int:
        return sum([int(segment.count) for segment in self._segments])

    def hand_over(self, log: StreamLog) -> None:
        """Let the stream have its entries."""
        log.restore(self._segments, self._next_offset)
        self._segments = []


def _mark_in(header: bytes) -> int:
    """The mark of a content by its header frame."""
    if not has_filter_value(header, 0, len(header)):
        return mark_of(UNFILTERED)

    return mark_of(value_in(parse_own_properties(header[19:]).headers()))
