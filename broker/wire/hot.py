"""The methods that come with every message, encoded and decoded by hand.

basic.deliver is not here: its pieces are kept by consumers and addresses (core/consumer.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["encode_get_ok", "encode_return", "long_long_at"]

RETURN_NO_ROUTE = b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE"
"""basic.return with reply code 312 and its text, up to the exchange (rule T-06)."""

GET_OK = b"\x00\x3c\x00\x47"


def encode_return(address: bytes) -> bytes:
    """basic.return for an unroutable message; ``address`` is exchange and key as short strings."""
    return RETURN_NO_ROUTE + address


def encode_get_ok(
    delivery_tag: int, redelivered: bool, address: bytes, message_count: int
) -> bytes:
    """basic.get-ok; ``message_count`` is what is ready after this message (rule G-02)."""
    return (
        GET_OK
        + delivery_tag.to_bytes(8, "big")
        + (b"\x01" if redelivered else b"\x00")
        + address
        + message_count.to_bytes(4, "big")
    )


def long_long_at(buffer: bytes, position: i64) -> i64:
    """An unsigned 64-bit number.

    One beyond 63 bits comes out negative where it is computed in machine words, as it is compiled;
    either way it is no number that a tag or a size may be.

    """
    high: i64 = buffer[position]
    low: i64 = (
        (buffer[position + 1] << 48)
        | (buffer[position + 2] << 40)
        | (buffer[position + 3] << 32)
        | (buffer[position + 4] << 24)
        | (buffer[position + 5] << 16)
        | (buffer[position + 6] << 8)
        | buffer[position + 7]
    )
    return (high << 56) | low
