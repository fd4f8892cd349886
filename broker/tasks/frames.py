"""Toolkit, tasks: the few frames that are sent once per task, written by hand.

aiormq encodes a publish in some forty microseconds and writes each frame to the socket by itself.
Everything that is not sent per task goes through aiormq as usual.

Invariant: what these return is whole frames, ready to be joined and written.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

__all__ = ["Template", "ack_frame", "nack_frame", "publish_frames", "template"]

FRAME_END: Final = b"\xce"
SHORT_TEXT_BYTES_MAX: Final = 255
FRAME_OVERHEAD_BYTES: Final = 8

METHOD_HEAD: Final = struct.Struct(">BHI")
SETTLE: Final = struct.Struct(">BHIHHQBB")
CONTENT_HEAD: Final = struct.Struct(">BHIHHQ")
BASIC: Final = 60
ACK: Final = 80
NACK: Final = 120

CONTENT_TYPE: Final = 1 << 15
DELIVERY_MODE: Final = 1 << 12
PRIORITY: Final = 1 << 11
REPLY_TO: Final = 1 << 9
EXPIRATION: Final = 1 << 8
MESSAGE_ID: Final = 1 << 7
TYPE: Final = 1 << 5


def ack_frame(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """Return basic.ack."""
    return SETTLE.pack(1, channel, 13, BASIC, ACK, tag, multiple, 0xCE)


def nack_frame(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Return basic.nack of one delivery."""
    return SETTLE.pack(1, channel, 13, BASIC, NACK, tag, requeue << 1, 0xCE)


class Template:
    """The properties of messages that differ in their ids alone."""

    __slots__ = ("_end", "_start")

    def __init__(self, start: bytes, end: bytes) -> None:
        self._start = start
        self._end = end

    def with_id(self, message_id: str) -> bytes:
        """Return the flags and the properties of a content header."""
        return b"".join((self._start, _short_text(message_id), self._end))


@lru_cache(maxsize=1024)
def template(
    content_type: str,
    type_name: str,
    *,
    is_persistent: bool = True,
    priority: int | None = None,
    reply_to: str = "",
    expiration_ms: int | None = None,
) -> Template:
    """Return a template; what is empty or None is left out."""
    flags = DELIVERY_MODE | MESSAGE_ID
    start = []
    if content_type:
        flags |= CONTENT_TYPE
        start.append(_short_text(content_type))

    start.append(b"\x02" if is_persistent else b"\x01")
    if priority is not None:
        flags |= PRIORITY
        start.append(bytes((priority,)))

    if reply_to:
        flags |= REPLY_TO
        start.append(_short_text(reply_to))

    if expiration_ms is not None:
        flags |= EXPIRATION
        start.append(_short_text(str(expiration_ms)))

    end = b""
    if type_name:
        flags |= TYPE
        end = _short_text(type_name)

    return Template(flags.to_bytes(2, "big") + b"".join(start), end)


def publish_frames(
    channel: int, target: tuple[str, str, bool], props: bytes, body: bytes, frame_max: int
) -> bytes:
    """Return basic.publish, its content header and its body.

    Args:
        channel: the number of the channel.
        target: exchange, routing key, and whether it is mandatory.
        props: what a :class:`Template` gives.
        body: the body.
        frame_max: the size of the largest frame that was agreed upon; 0 for no limit.

    """
    size = len(body)
    head = CONTENT_HEAD.pack(2, channel, 12 + len(props), BASIC, 0, size)
    start = _publish_frame(channel, target)
    room = frame_max - FRAME_OVERHEAD_BYTES if frame_max else size
    if size <= room:
        if not size:
            return b"".join((start, head, props, FRAME_END))

        frame = METHOD_HEAD.pack(3, channel, size)
        return b"".join((start, head, props, FRAME_END, frame, body, FRAME_END))

    parts = [start, head, props, FRAME_END]
    for position in range(0, size, room):
        piece = body[position : position + room]
        parts += (METHOD_HEAD.pack(3, channel, len(piece)), piece, FRAME_END)

    return b"".join(parts)


@lru_cache(maxsize=256)
def _publish_frame(channel: int, target: tuple[str, str, bool]) -> bytes:
    exchange, routing_key, is_mandatory = target
    payload = b"".join(
        (
            b"\x00\x3c\x00\x28\x00\x00",
            _short_text(exchange),
            _short_text(routing_key),
            b"\x01" if is_mandatory else b"\x00",
        )
    )
    return METHOD_HEAD.pack(1, channel, len(payload)) + payload + FRAME_END


def _short_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > SHORT_TEXT_BYTES_MAX:
        raise ValueError(f"longer than {SHORT_TEXT_BYTES_MAX} bytes: {text[:40]!r}...")

    return bytes((len(data),)) + data
