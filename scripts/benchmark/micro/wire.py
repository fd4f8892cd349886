"""Micro-benchmarks of what turns bytes into values and back."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from broker.wire import codec
from broker.wire.constants import QUEUE_DECLARE
from broker.wire.framing import FrameDecoder
from broker.wire.properties import parse_properties
from broker.wire.tables import decode_table, encode_table
from scripts.benchmark.frames import frame, method, publish, short_string, table
from scripts.benchmark.micro.knob import Act, Micro

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MICROS"]

FRAME_BYTES_MAX: Final = 131_072
HEADERS_FLAG: Final = 0x2000


def _fields(count: int) -> bytes:
    return table({f"x-field-{place:03}": place if place % 2 else "text" for place in range(count)})


def _call(function: Callable[[], object], operations: int) -> Act:
    def act() -> int:
        for _ in range(operations):
            function()

        return operations

    return act


def _decode_declare(arguments: int, operations: int) -> Act:
    flags = b"\0"
    declare = method(1, 50, 10, b"\0\0" + short_string("orders") + flags + _fields(arguments))
    payload = declare[7:-1]
    return _call(lambda: codec.decode_method(QUEUE_DECLARE, payload), operations)


def _encode_declare_ok(length: int, operations: int) -> Act:
    name = "q" * length
    return _call(lambda: codec.encode_queue_declare_ok(name, 10, 1), operations)


def _decode_table(fields: int, operations: int) -> Act:
    body = _fields(fields)[4:]
    return _call(lambda: decode_table(body, 0, len(body)), operations)


def _encode_table(fields: int, operations: int) -> Act:
    body = _fields(fields)[4:]
    arguments = decode_table(body, 0, len(body))
    return _call(lambda: encode_table(arguments), operations)


def _parse_properties(headers: int, operations: int) -> Act:
    raw = struct.pack(">H", HEADERS_FLAG) + _fields(headers) if headers else b"\0\0"
    return _call(lambda: parse_properties(raw), operations)


def _decode_frames(payload_bytes: int, operations: int) -> Act:
    """Frames of that payload, as many in one read as fit into 64 KiB."""
    one = frame(3, 1, bytes(payload_bytes))
    each = max(1, 65_536 // len(one))
    read = one * each
    decoder = FrameDecoder(FRAME_BYTES_MAX)

    def act() -> int:
        left = operations
        while left > 0:
            decoder.feed(read)
            while decoder.next_frame():
                left -= 1

        return operations - left

    return act


def _decode_split(pieces: int, operations: int) -> Act:
    """Publishes of 1 KB that come in so many reads each."""
    message = publish("", "key", bytes(1024), is_persistent=False, frame_bytes_max=FRAME_BYTES_MAX)
    step = -(-len(message) // pieces)
    reads = [message[start : start + step] for start in range(0, len(message), step)]
    decoder = FrameDecoder(FRAME_BYTES_MAX)

    def act() -> int:
        for _ in range(operations):
            for read in reads:
                decoder.feed(read)
                while decoder.next_frame():
                    pass

        return operations

    return act


MICROS: Final = (
    Micro("decode-queue-declare", "arguments", (0, 4, 16), 2_000, _decode_declare),
    Micro("encode-queue-declare-ok", "name bytes", (1, 16, 255), 5_000, _encode_declare_ok),
    Micro("decode-table", "fields", (1, 10, 100), 2_000, _decode_table),
    Micro("encode-table", "fields", (1, 10, 100), 2_000, _encode_table),
    Micro("parse-properties", "headers", (0, 4, 16), 10_000, _parse_properties),
    Micro("decode-frame", "payload bytes", (16, 256, 4_096), 50_000, _decode_frames),
    Micro("decode-split-publish", "reads", (1, 2, 8), 5_000, _decode_split),
)
