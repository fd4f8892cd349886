"""Tells what somebody speaks who does not speak AMQP 0-9-1. Layer: protocol; pure.

For the log alone: whoever has set a client up wrongly is to see how (rules C-03, C-05).
"""

from __future__ import annotations

from typing import Final

__all__ = ["PROXY_V1", "PROXY_V2", "TLS_HANDSHAKE", "describe_stranger"]

PROXY_V1: Final = b"PROXY "
PROXY_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
"""How the two versions of the PROXY header begin."""

TLS_HANDSHAKE: Final = 0x16
"""The first octet of a TLS connection (RFC 8446 §5.1)."""

HTTP_METHODS: Final = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"CONNECT ")


def describe_stranger(data: bytes) -> str:
    """Say what begins like that.

    Args:
        data: the first octets, eight or so.

    """
    if not data:
        return "nothing"

    if data[0] == TLS_HANDSHAKE:
        return "a TLS handshake"

    if data.startswith(PROXY_V1) or PROXY_V2.startswith(data[: len(PROXY_V2)]):
        return "a PROXY header"

    if data.startswith(HTTP_METHODS):
        return "an HTTP request"

    if data.startswith(b"AMQP\x00\x00\x09\x01"):
        return "AMQP 0-9-1"

    if data.startswith(b"AMQP"):
        return f"another AMQP: {data[:8]!r}"

    return f"no AMQP 0-9-1: {data[:8]!r}"
