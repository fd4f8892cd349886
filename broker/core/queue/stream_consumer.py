"""Who reads a stream: from where, and what of it (rules ST-04, ST-08)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.consumer import Consumer
from broker.core.erlterm import erl_field, erl_string, erl_tuple
from broker.core.queue.argument_rules import integer_value, is_max_age, max_age_ms, text_value
from broker.core.queue.stream_filter import UNFILTERED, StreamFilter
from broker.errors import PreconditionFailed
from broker.limits import STREAM_FILTER_VALUES_MAX
from broker.wire.tables import TYPE_NAMES

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import ConsumerOptions, Deliveries
    from broker.core.queue.queue import Queue
    from broker.core.queue.stream_log import StreamLog
    from broker.wire.tables import Arguments, Field

__all__ = ["StreamConsumer", "StreamRequest"]

FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"
PLACES: Final = (FIRST, LAST, NEXT)

OFFSET_MAX: Final = (1 << 62) - 1
"""Beyond any that will ever be reached, and still a number to count with."""


class StreamRequest:
    """What the arguments of basic.consume ask of a stream.

    Attributes:
        wanted: what of it; None asks for everything.

    """

    __slots__ = ("_offset", "_place", "_since_ms_ago", "_since_wall_ms", "wanted")

    def __init__(self, resource: str, arguments: Arguments) -> None:
        """Read the arguments.

        Args:
            resource: the stream, as texts name it.
            arguments: of basic.consume.

        Raises:
            PreconditionFailed: one of them says nothing that can be done.

        """
        self._place: str | None = None
        self._offset: int | None = None
        self._since_wall_ms: int | None = None
        self._since_ms_ago = 0
        self._read_offset(resource, arguments.get("x-stream-offset"))
        self.wanted = _wanted_of(resource, arguments)

    def _read_offset(self, resource: str, field: Field | None) -> None:
        if field is None:
            self._place = NEXT
            return

        number = integer_value(field)
        if number is not None:
            self._offset = number
            return

        value = field.value
        if field.kind == "T" and isinstance(value, int):
            self._since_wall_ms = value * 1000
            return

        # RabbitMQ: a binary will do for a name, but not for a length of time.
        name = value.decode("latin-1") if isinstance(value, bytes) else value
        text = text_value(field)
        if isinstance(name, str) and name in PLACES:
            self._place = name
        elif text is not None and is_max_age(text):
            self._since_ms_ago = max_age_ms(text)
        else:
            shown = erl_tuple(TYPE_NAMES[field.kind], erl_field(field))
            fault = erl_tuple("invalid_stream_offset_arg", shown)
            raise PreconditionFailed(f"invalid arg 'x-stream-offset' for {resource}: {fault}")

    def start_in(self, log: StreamLog, now_ms: int, wall_ms: int) -> i64:
        """The offset to begin at; it may be one that is still to come (rule ST-04)."""
        place = self._place
        if place == FIRST:
            return log.first_offset

        if place == NEXT or (place == LAST and log.count == 0):
            return log.next_offset

        if place == LAST:
            return log.next_offset - 1

        offset = self._offset
        if offset is not None:
            # RabbitMQ: what is no longer there, or never was, begins where the stream does.
            return max(min(offset, OFFSET_MAX), int(log.first_offset))

        since_wall_ms = self._since_wall_ms
        if since_wall_ms is None:
            return log.offset_at(now_ms - self._since_ms_ago)

        return log.offset_at(since_wall_ms - (wall_ms - now_ms))


def _wanted_of(resource: str, arguments: Arguments) -> StreamFilter | None:
    """Rule ST-08. RabbitMQ: a filter that is neither text nor an array is none."""
    field = arguments.get("x-stream-filter")
    if field is None or field.kind not in ("S", "A"):
        return None

    values = [field] if field.kind == "S" else field.value
    assert isinstance(values, list)
    wanted: set[str] = set()
    for one in values:
        text = text_value(one)
        if text is None:
            raise _no_filter(resource, f"expected longstr, got {TYPE_NAMES[one.kind]}")

        wanted.add(text)

    if not wanted:
        raise _no_filter(resource, "expected at least one value")

    if len(wanted) > STREAM_FILTER_VALUES_MAX:
        raise _no_filter(resource, f"more than {STREAM_FILTER_VALUES_MAX} values")

    unfiltered = arguments.get("x-stream-match-unfiltered")
    if unfiltered is not None and unfiltered.value is True:
        wanted.add(UNFILTERED)

    return StreamFilter(frozenset(wanted))


def _no_filter(resource: str, fault: str) -> PreconditionFailed:
    # RabbitMQ answers with a bare 541 here.
    return PreconditionFailed(f"invalid arg 'x-stream-filter' for {resource}: {erl_string(fault)}")


class StreamConsumer(Consumer):
    """A consumer with a place of its own in the log.

    Attributes:
        position: the offset from which on it has not looked yet.
        wanted: see :class:`StreamRequest`.

    """

    __slots__ = ("position", "wanted")

    def __init__(
        self, queue: Queue, deliveries: Deliveries, tag: str, options: ConsumerOptions
    ) -> None:
        super().__init__(queue, deliveries, tag, options)
        self.position: i64 = 0
        self.wanted: StreamFilter | None = None
