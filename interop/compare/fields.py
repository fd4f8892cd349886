"""AMQP 0-9-1 field tables and content properties: written with chosen types, read with their types.

Needs nothing of the broker under comparison: what both got wrong would not be seen.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

__all__ = [
    "PROPERTY_NAMES",
    "Reader",
    "Typed",
    "encode_long",
    "encode_properties",
    "encode_short",
    "encode_table",
    "typed",
]

NUMBERS: Final = {
    "t": "?", "b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q", "L": "q",
    "f": "f", "d": "d", "T": "Q",
}  # fmt: skip

# Property, its bit in the flags, its type: octet, timestamp, table or short string.
PROPERTIES: Final = (
    ("content_type", 15, "shortstr"),
    ("content_encoding", 14, "shortstr"),
    ("headers", 13, "table"),
    ("delivery_mode", 12, "octet"),
    ("priority", 11, "octet"),
    ("correlation_id", 10, "shortstr"),
    ("reply_to", 9, "shortstr"),
    ("expiration", 8, "shortstr"),
    ("message_id", 7, "shortstr"),
    ("timestamp", 6, "longlong"),
    ("type", 5, "shortstr"),
    ("user_id", 4, "shortstr"),
    ("app_id", 3, "shortstr"),
    ("cluster_id", 2, "shortstr"),
)

PROPERTY_NAMES: Final = tuple(name for name, _, _ in PROPERTIES)


class Typed(NamedTuple):
    """One value of a table with its letter."""

    kind: str
    value: object


def typed(value: object) -> Typed:
    """Give a plain value a letter: int I, float d, str and bytes S, dict F, list A, None V."""
    if isinstance(value, Typed):
        return value

    if value is None:
        return Typed("V", None)

    if isinstance(value, bool):
        return Typed("t", value)

    letters = {int: "I", float: "d", str: "S", bytes: "S", dict: "F", list: "A"}
    return Typed(letters[type(value)], value)


def encode_short(text: str | bytes) -> bytes:
    """Write a short string; bytes go out as they are."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return bytes([len(data)]) + data


def encode_long(text: str | bytes) -> bytes:
    """Write a long string; bytes go out as they are."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return len(data).to_bytes(4, "big") + data


def encode_table(table: Mapping[str, object] | Sequence[tuple[str, object]] | bytes) -> bytes:
    """Write a table with its length.

    A list of pairs may give a key twice; bytes are the body of a table as it is.
    """
    if isinstance(table, bytes):
        return encode_long(table)

    pairs = table.items() if isinstance(table, Mapping) else table
    return encode_long(b"".join(encode_short(key) + _encode_field(value) for key, value in pairs))


def _encode_field(plain: object) -> bytes:
    kind, value = typed(plain)
    return kind.encode() + _encode_value(kind, value)


def _encode_value(kind: str, value: object) -> bytes:
    if kind in NUMBERS:
        return struct.pack(">" + NUMBERS[kind], value)

    if kind in {"S", "x"}:
        assert isinstance(value, str | bytes)
        return encode_long(value)

    if kind == "F":
        assert isinstance(value, dict | bytes)
        return encode_table(value)

    if kind == "A":
        assert isinstance(value, list)
        return encode_long(b"".join(map(_encode_field, value)))

    if kind == "D":
        assert isinstance(value, tuple)
        return struct.pack(">BI", *value)

    assert kind == "V"
    return b""


def encode_properties(properties: dict[str, object]) -> bytes:
    """Write the flags and the values of a content header."""
    flags = 0
    values = []
    for name, bit, kind in PROPERTIES:
        if name not in properties:
            continue

        flags |= 1 << bit
        values.append(encode_basic(kind, properties[name]))

    return struct.pack(">H", flags) + b"".join(values)


def encode_basic(kind: str, value: object) -> bytes:
    """Write one argument of a method, or one property."""
    if kind == "table":
        assert isinstance(value, dict | list | bytes)
        return encode_table(value)

    if kind in {"shortstr", "longstr"}:
        assert isinstance(value, str | bytes)
        return encode_short(value) if kind == "shortstr" else encode_long(value)

    sizes = {"octet": 1, "short": 2, "long": 4, "longlong": 8}
    assert isinstance(value, int)
    return value.to_bytes(sizes[kind], "big")


class Reader:
    """Reads values one after the other."""

    def __init__(self, data: bytes, place: int = 0) -> None:
        self.data = data
        self.place = place

    @property
    def is_at_end(self) -> bool:
        return self.place >= len(self.data)

    def take(self, count: int) -> bytes:
        """Read that many bytes; raise when there are fewer."""
        taken = self.data[self.place : self.place + count]
        if len(taken) != count:
            raise ValueError(f"cut after {self.place} bytes: {self.data!r}")

        self.place += count
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self, length_size: int) -> str:
        return self.take(self.number(length_size)).decode("utf-8", "surrogateescape")

    def basic(self, kind: str) -> object:
        """Read one argument of a method, or one property."""
        if kind == "table":
            return self.table()

        if kind in {"shortstr", "longstr"}:
            return self.text(1 if kind == "shortstr" else 4)

        return self.number({"octet": 1, "short": 2, "long": 4, "longlong": 8}[kind])

    def table(self) -> list[tuple[str, Typed]]:
        """Read a table: its entries in the order they came, duplicates too."""
        body = Reader(self.take(self.number(4)))
        entries = []
        while not body.is_at_end:
            key = body.text(1)
            entries.append((key, body.field()))

        return entries

    def field(self) -> Typed:
        kind = self.take(1).decode("latin-1")
        if kind in NUMBERS:
            layout = struct.Struct(">" + NUMBERS[kind])
            return Typed(kind, layout.unpack(self.take(layout.size))[0])

        if kind in {"S", "x"}:
            return Typed(kind, self.text(4))

        if kind == "F":
            return Typed(kind, self.table())

        if kind == "A":
            body = Reader(self.take(self.number(4)))
            items = []
            while not body.is_at_end:
                items.append(body.field())

            return Typed(kind, items)

        if kind == "D":
            return Typed(kind, (self.number(1), self.number(4)))

        if kind != "V":
            raise ValueError(f"no field type {kind!r}")

        return Typed(kind, None)

    def properties(self) -> dict[str, object]:
        """Read flags and values; a flag of no property is reported under the name ``flags``."""
        flags = self.number(2)
        found: dict[str, object] = {}
        for name, bit, kind in PROPERTIES:
            if flags >> bit & 1:
                found[name] = self.basic(kind)

        if flags & 3:
            found["flags"] = flags & 3

        if not self.is_at_end:
            found["left_over"] = self.data[self.place :]

        return found
