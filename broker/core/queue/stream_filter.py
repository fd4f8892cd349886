"""Core: what a reader of a stream wants, and how that is found without reading it all (ST-08).

Every entry of a stream that has filter values has a mark, two bytes made of its value. A search
goes over the marks, and looks only at entries whose mark is one of those that are wanted: one in
65,535 others has that too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from broker.core.queue.argument_rules import text_value

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.message import Message
    from broker.wire.tables import Arguments

__all__ = [
    "FILTER_HEADER",
    "MARK_BYTES",
    "NOTHING",
    "UNFILTERED",
    "StreamFilter",
    "filter_value_of",
    "has_filter_value",
    "mark_of",
    "value_in",
]

NOTHING: Final = -1
"""In place of an offset or a time, where there is none."""

UNFILTERED: Final = ""
"""The filter value of messages that have none; RabbitMQ takes an empty one for none too."""

FILTER_HEADER: Final = "x-stream-filter-value"
FILTER_KEY: Final = FILTER_HEADER.encode()

MARK_BYTES: Final = 2
MARKS: Final = (1 << 16) - 1
PATTERNS_MAX: Final = 8
"""Marks that are looked for one by one, which is fast for each; more are looked for together."""


def mark_of(value: str) -> int:
    """The mark of a filter value: 0 for UNFILTERED alone."""
    if value == UNFILTERED:
        return 0

    return crc32(value.encode("utf-8", "surrogateescape")) % MARKS + 1


def filter_value_of(message: Message) -> str:
    """What filters of consumers are compared with, UNFILTERED where there is nothing.

    RabbitMQ: a value that is no text ends the publisher's connection; here it is none.

    """
    content = message.content
    # Nearly always it is not there, and this says so at once.
    if not has_filter_value(content, 0, 7 + int.from_bytes(content[3:7], "big")):
        return UNFILTERED

    return value_in(message.properties().headers())


def has_filter_value(buffer: bytes, start: i64, end: i64) -> bool:
    """Whether there may be one in a content header that lies there."""
    return buffer.find(FILTER_KEY, int(start), int(end)) >= 0


def value_in(headers: Arguments) -> str:
    """The filter value that headers tell."""
    value = text_value(headers.get(FILTER_HEADER))
    return UNFILTERED if value is None else value


class StreamFilter:
    """Filter values that are wanted.

    Attributes:
        values: UNFILTERED among them where messages without one are wanted.

    """

    __slots__ = ("_marks", "_patterns", "values", "wants_unfiltered")

    def __init__(self, values: frozenset[str]) -> None:
        self.values = values
        self.wants_unfiltered = UNFILTERED in values
        self._marks = frozenset([mark_of(value) for value in values])
        self._patterns = [mark.to_bytes(MARK_BYTES, "little") for mark in self._marks]

    def is_among(self, known: set[int]) -> bool:
        """Whether one of these marks may be wanted."""
        return not self._marks.isdisjoint(known)

    def find(self, marks: bytes | bytearray, start: i64, stop: i64) -> i64:
        """The first place in that range of marks which may be wanted, or NOTHING."""
        if len(self._patterns) > PATTERNS_MAX:
            return self._find_any(marks, start, stop)

        best: i64 = stop
        for pattern in self._patterns:
            place: i64 = _find_mark(marks, pattern, start, best)
            if place != NOTHING:
                best = place

        return best if best < stop else NOTHING

    def _find_any(self, marks: bytes | bytearray, start: i64, stop: i64) -> i64:
        wanted = self._marks
        place: i64 = start
        for mark in memoryview(marks)[2 * int(start) : 2 * int(stop)].cast("H"):
            if mark in wanted:
                return place

            place += 1

        return NOTHING


def _find_mark(marks: bytes | bytearray, pattern: bytes, start: i64, stop: i64) -> i64:
    end = 2 * int(stop)
    found = marks.find(pattern, 2 * int(start), end)
    while found >= 0 and found & 1:
        # The end of one mark and the beginning of the next.
        found = marks.find(pattern, found + 1, end)

    return found >> 1 if found >= 0 else NOTHING
