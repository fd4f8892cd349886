"""AMQP 0-9-1 frames as the load generator needs them: encoded once, counted by size.

Nothing here is called per message while a clock is running, except the few bytes of an ack.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACK_FRAME_BYTES",
    "CHANNEL",
    "FRAME_BODY",
    "FRAME_HEADER",
    "FRAME_METHOD",
    "Frame",
    "ack",
    "frame",
    "long_string",
    "measure_delivery",
    "method",
    "publish",
    "short_string",
    "table",
]

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_END: Final = b"\xce"
FRAME_OVERHEAD_BYTES: Final = 8
ACK_FRAME_BYTES: Final = 21
CHANNEL: Final = 1
"""Every connection of the load generator uses one channel."""

_DELIVERY_MODE_FLAG: Final = 0x1000


class Frame(NamedTuple):
    """One frame as it was read."""

    kind: int
    channel: int
    payload: bytes


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode one frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """Encode a method frame from arguments that are encoded already."""
    return frame(FRAME_METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def short_string(text: str) -> bytes:
    """Encode a short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def long_string(data: bytes) -> bytes:
    """Encode a long string (or a table whose body is encoded already)."""
    return struct.pack(">I", len(data)) + data


def table(fields: Mapping[str, str | int]) -> bytes:
    """Encode a field table with its length; integers are signed and of four octets."""
    body = b""
    for key, value in fields.items():
        if isinstance(value, int):
            body += short_string(key) + struct.pack(">ci", b"I", value)
        else:
            body += short_string(key) + b"S" + long_string(value.encode())

    return long_string(body)


def publish(
    exchange: str, routing_key: str, body: bytes, *, is_persistent: bool, frame_bytes_max: int
) -> bytes:
    """Encode a whole publish: method, content header and as many body frames as needed."""
    arguments = b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0"
    header = struct.pack(">HHQ", 60, 0, len(body))
    header += struct.pack(">HB", _DELIVERY_MODE_FLAG, 2) if is_persistent else b"\0\0"
    step = frame_bytes_max - FRAME_OVERHEAD_BYTES
    pieces = [method(CHANNEL, 60, 40, arguments), frame(FRAME_HEADER, CHANNEL, header)]
    pieces += [
        frame(FRAME_BODY, CHANNEL, body[start : start + step])
        for start in range(0, len(body), step)
    ]
    return b"".join(pieces)


def ack(delivery_tag: int) -> bytes:
    """Encode basic.ack with multiple set."""
    return method(CHANNEL, 60, 80, struct.pack(">QB", delivery_tag, 1))


def measure_delivery(data: bytes | bytearray) -> int:
    """Return the size of the delivery that ``data`` begins with, or 0 when it is not whole yet.

    Only the first delivery of a consumer is taken apart; the rest are as long, for the delivery
    tag is eight bytes whatever its value.
    """
    position = 0
    body_left = -1
    while body_left != 0:
        if position + FRAME_OVERHEAD_BYTES > len(data):
            return 0

        kind, _, size = struct.unpack_from(">BHI", data, position)
        end = position + FRAME_OVERHEAD_BYTES + size
        if end > len(data):
            return 0

        if kind == FRAME_HEADER:
            (body_left,) = struct.unpack_from(">Q", data, position + 7 + 4)
        elif kind == FRAME_BODY:
            body_left -= size

        position = end

    return position
