"""A message in a queue, and the address it was published to.

The content stays what the publisher sent: one run of bytes, the header frame followed by the body
frames. Only the channel number (two bytes a frame) differs on the way out. What the broker needs
of the properties is taken from them once, at publish; the rest is read again by the few who ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.wire.properties import Properties, parse_own_properties

if TYPE_CHECKING:
    from mypy_extensions import i16, i64

    from broker.core.binding import Destination
    from broker.core.consumer import Consumer
    from broker.core.dead_letter import DeathHistory

__all__ = [
    "GONE",
    "GONE_RECORD",
    "NO_DEADLINE",
    "NO_TTL",
    "PENDING",
    "Address",
    "Message",
    "build_content",
    "content_body",
    "content_on_channel",
    "content_with_properties",
]

NO_DEADLINE: Final = 0
"""A deadline that never comes; every real one is greater, in milliseconds of the node's clock."""

NO_TTL: Final = -1
"""The time to live of a message that has none, in place of milliseconds."""

PENDING: Final = -1
"""The record of a message that is to be written with the next batch."""

GONE_RECORD: Final = -2
"""The record of a message that was, and is gone before that: it is not written."""

GONE: Final = -1
"""The deadline of a message that has expired and left, but whose place is not cleared yet."""

FRAME_HEADER_TYPE: Final = 2
FRAME_BODY_TYPE: Final = 3
FRAME_OVERHEAD: Final = 8


def _short_string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return bytes((len(raw),)) + raw


class Address:
    """Where a message was published: exchange and routing key, with their wire form.

    Shared by all messages of one publisher to one address; one with further keys in its CC and BCC
    headers (rule P-40), or with a history of deaths (DL-06), belongs to its message.

    """

    __slots__ = (
        "bcc_keys",
        "cc_keys",
        "exchange",
        "history",
        "log_crc",
        "log_head",
        "log_holder",
        "log_is_persistent",
        "log_priority",
        "routing_key",
        "tail",
        "tail_redelivered",
        "tail_size",
        "wire",
    )

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        cc_keys: list[str] | None = None,
        bcc_keys: list[str] | None = None,
        history: DeathHistory | None = None,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.cc_keys = cc_keys
        self.bcc_keys = bcc_keys
        self.history = history
        self.wire: bytes = _short_string(exchange) + _short_string(routing_key)
        # What follows the delivery tag in basic.deliver: redelivered, exchange, key, end octet.
        self.tail: bytes = b"\x00" + self.wire + b"\xce"
        self.tail_redelivered: bytes = b"\x01" + self.wire + b"\xce"
        self.tail_size: i64 = len(self.tail)
        # What stands in front of a message's content in the log, for the holder it had last.
        self.log_holder: Destination | None = None
        self.log_is_persistent = False
        self.log_priority: i16 = 0
        self.log_head: bytes = b""
        self.log_crc = 0


class Message:
    """One message in one queue; fan-out makes one of these for each queue, sharing the content.

    ``position`` orders the messages of a queue (requeue goes back to it, rule A-05),
    ``deadline_ms`` is fixed when the queue takes the message (rule TTL-01). ``delivery_tag`` and
    ``consumer`` have a meaning only while the message is unacked. ``record`` is where the log has
    it (core/journal.py).

    """

    __slots__ = (
        "address",
        "body_size",
        "consumer",
        "content",
        "deadline_ms",
        "delivery_tag",
        "is_persistent",
        "position",
        "priority",
        "record",
        "redelivered",
    )

    def __init__(
        self, address: Address, content: bytes, body_size: i64, is_persistent: bool, priority: i16
    ) -> None:
        self.address = address
        self.content = content
        self.body_size = body_size
        # The small ones side by side: compiled, the three take eight bytes of each message.
        self.priority = priority
        self.is_persistent = is_persistent
        self.redelivered = False
        self.position: i64 = 0
        self.deadline_ms: i64 = NO_DEADLINE
        self.delivery_tag: i64 = 0
        self.consumer: Consumer | None = None
        self.record: i64 = 0

    @property
    def history(self) -> DeathHistory | None:
        """Its deaths, if it has died; they came with the address it has now."""
        return self.address.history

    def logged_content(self) -> bytes:
        """The content as the log keeps it."""
        return self.content

    def return_count_logged(self) -> i64:
        """How often it was given back, where that is counted."""
        return 0

    def copy(self) -> Message:
        """The same message for another queue: content, address and history are shared."""
        return Message(
            self.address, self.content, self.body_size, self.is_persistent, self.priority
        )

    def twin(self) -> Message:
        """The same message of the same queue, as another object."""
        twin = self.copy()
        twin.redelivered = self.redelivered
        twin.position = self.position
        twin.deadline_ms = self.deadline_ms
        twin.take_record(self)
        return twin

    def take_record(self, other: Message) -> None:
        """Stand for another object of the same message from now on.

        One that is pending is not written: its twin has to be told to the journal anew, unless it
        is on its way out.

        """
        if other.record > 0:
            self.record = other.record
            other.record = 0
        elif other.record == PENDING:
            other.record = GONE_RECORD

    def properties(self) -> Properties:
        """The properties, parsed anew: for the few who need more than the publish path kept."""
        content = self.content
        return parse_own_properties(content[19 : 7 + _frame_size(content, 0)])


def _frame_size(content: bytes, start: i64) -> i64:
    """The payload size of the frame that starts at ``start``."""
    return (
        (content[start + 3] << 24)
        | (content[start + 4] << 16)
        | (content[start + 5] << 8)
        | content[start + 6]
    )


def build_content(properties: bytes, body: bytes, frame_payload_max: i64 = 131064) -> bytes:
    """Frame a content anew, on channel 0: header frame, then body frames of at most that payload.

    Args:
        properties: property flags and values, as in a content header after the body size.
        body: the whole body; an empty one has no body frame (rule F-03).
        frame_payload_max: bytes; 0 means one frame however large (rule F-03).

    """
    body_size = len(body)
    header = b"\x00\x3c\x00\x00" + body_size.to_bytes(8, "big") + properties
    pieces = [b"\x02\x00\x00", len(header).to_bytes(4, "big"), header, b"\xce"]
    step: i64 = frame_payload_max if frame_payload_max else body_size
    position: i64 = 0
    while position < body_size:
        part = body[position : position + step]
        pieces += [b"\x03\x00\x00", len(part).to_bytes(4, "big"), part, b"\xce"]
        position += step

    return b"".join(pieces)


def content_body(content: bytes) -> bytes:
    """The body alone, joined from its frames."""
    pieces: list[bytes] = []
    position: i64 = FRAME_OVERHEAD + _frame_size(content, 0)
    end: i64 = len(content)
    while position < end:
        size: i64 = _frame_size(content, position)
        pieces.append(content[position + 7 : position + 7 + size])
        position += FRAME_OVERHEAD + size

    return b"".join(pieces)


def content_with_properties(content: bytes, properties: bytes) -> bytes:
    """The same body frames behind a header with other properties (rules P-41, DL-05)."""
    old_end: i64 = FRAME_OVERHEAD + _frame_size(content, 0)
    size: i64 = 12 + len(properties)
    return (
        content[:3]
        + int(size).to_bytes(4, "big")
        + content[7:19]
        + properties
        + b"\xce"
        + content[old_end:]
    )


def content_on_channel(content: bytes, channel: bytes, frame_payload_max: i64) -> bytes:
    """The content with every frame on ``channel`` and no body frame over ``frame_payload_max``.

    Args:
        content: header frame and body frames, on any channel.
        channel: the channel number as two bytes.
        frame_payload_max: bytes, the receiver's frame-max less 8; 0 is unlimited (rule F-03).

    """
    header_end: i64 = FRAME_OVERHEAD + _frame_size(content, 0)
    end: i64 = len(content)
    if header_end == end:
        return b"\x02" + channel + content[3:]

    size: i64 = _frame_size(content, header_end)
    is_small = frame_payload_max == 0 or size <= frame_payload_max
    if is_small and header_end + FRAME_OVERHEAD + size == end:
        # Nearly always: one body frame.
        return (
            b"\x02"
            + channel
            + content[3:header_end]
            + b"\x03"
            + channel
            + content[header_end + 3 :]
        )

    return _reframe(content, channel, frame_payload_max)


def _reframe(content: bytes, channel: bytes, frame_payload_max: i64) -> bytes:
    header_end: i64 = FRAME_OVERHEAD + _frame_size(content, 0)
    pieces = [b"\x02", channel, content[3:header_end]]
    position: i64 = header_end
    end: i64 = len(content)
    while position < end:
        size: i64 = _frame_size(content, position)
        start: i64 = position + 7
        stop: i64 = start + size
        step: i64 = frame_payload_max if 0 < frame_payload_max < size else size
        while start < stop:
            part = content[start : min(start + step, stop)]
            pieces += [b"\x03", channel, len(part).to_bytes(4, "big"), part, b"\xce"]
            start += step

        position = stop + 1

    return b"".join(pieces)
