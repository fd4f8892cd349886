"""Properties of messages between JSON and the wire (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.management.errors import BadRequest
from broker.wire.tables import encode_table, table_from_plain

if TYPE_CHECKING:
    from broker.management.json_text import JSON

__all__ = ["encode_properties"]

SHORT: Final = "short"
TABLE: Final = "table"

# As they lie on the wire: flag, name, and a text, a table or so many octets.
LAYOUT: Final = (
    (0x8000, "content_type", SHORT),
    (0x4000, "content_encoding", SHORT),
    (0x2000, "headers", TABLE),
    (0x1000, "delivery_mode", 1),
    (0x0800, "priority", 1),
    (0x0400, "correlation_id", SHORT),
    (0x0200, "reply_to", SHORT),
    (0x0100, "expiration", SHORT),
    (0x0080, "message_id", SHORT),
    (0x0040, "timestamp", 8),
    (0x0020, "type", SHORT),
    (0x0010, "user_id", SHORT),
    (0x0008, "app_id", SHORT),
    (0x0004, "cluster_id", SHORT),
)
SHORT_BYTES_MAX: Final = 255


def encode_properties(plain: JSON) -> bytes:
    """Property flags and values, as in a content header. Names that AMQP does not know are ignored.

    Raises:
        BadRequest: a value has the wrong type, or is too large.

    """
    flags = 0
    parts: list[bytes] = []
    for flag, name, kind in LAYOUT:
        value = plain.get(name)
        if value is None:
            continue

        flags |= flag
        if kind == SHORT:
            parts.append(_short(name, value))
        elif kind == TABLE:
            parts.append(_table(name, value))
        else:
            assert isinstance(kind, int)
            parts.append(_number(name, value, kind))

    return flags.to_bytes(2, "big") + b"".join(parts)


def _short(name: str, value: object) -> bytes:
    if isinstance(value, int) and name == "expiration" and not isinstance(value, bool):
        value = str(value)

    if not isinstance(value, str):
        raise BadRequest(["not_a_string", name])

    raw = value.encode("utf-8", "surrogateescape")
    if len(raw) > SHORT_BYTES_MAX:
        raise BadRequest(f"{name} is longer than {SHORT_BYTES_MAX} bytes")

    return bytes((len(raw),)) + raw


def _table(name: str, value: object) -> bytes:
    if value == []:
        value = {}

    if not isinstance(value, dict):
        raise BadRequest(["not_an_object", name])

    try:
        return encode_table(table_from_plain(value))
    except (ValueError, OverflowError) as problem:
        raise BadRequest(f"{name}: {problem}") from None


def _number(name: str, value: object, size: int) -> bytes:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)

    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest(["not_int", name])

    try:
        return value.to_bytes(size, "big")
    except OverflowError:
        raise BadRequest(["not_int", name]) from None
