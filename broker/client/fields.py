"""Toolkit: tables of headers as AMQP writes them.

The library has an encoder, too: it makes single precision of every float, cuts names short, and
fails in the middle of a publish, which puts its count of confirms out of step.

Invariant: what cannot be sent is an :class:`InvalidValue` that names it, before anything was sent.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from broker.client.checks import check_text, shown
from broker.client.errors import InvalidValue

__all__ = ["DEPTH_MAX", "entries_of", "entry", "joined"]

DEPTH_MAX: Final = 32
"""Tables in tables. Leveret reads 64 of them, and a table that contains itself has no end."""

PATH_MAX: Final = 100

DECIMAL_DIGITS_MAX: Final = 10
"""Those of 32 bits."""

LONG: Final = struct.Struct(">cq")
INT: Final = struct.Struct(">ci")
DOUBLE: Final = struct.Struct(">cd")
SIZE: Final = struct.Struct(">I")
SIZED: Final = struct.Struct(">cI")
DECIMAL: Final = struct.Struct(">cBI")
MOMENT: Final = struct.Struct(">cQ")


def entries_of(what: str, values: object) -> dict[str, bytes]:
    """Return each entry of a table as it is written, by its name.

    Args:
        what: what an entry is called in errors: ``header``.
        values: the table.

    Raises:
        InvalidValue: an entry cannot be sent.

    """
    if not isinstance(values, Mapping):
        raise InvalidValue(f"{what}s are to be a mapping of names to values, not {shown(values)}")

    return {name: entry(what, name, value) for name, value in values.items()}


def entry(what: str, name: object, value: object) -> bytes:
    """Return one entry of a table as it is written: its name, the letter of its type, its value."""
    return _entry(name, value, f"the {what} {shown(name)}", 0)


def joined(entries: Mapping[str, bytes]) -> bytes:
    """Return a table as it is written."""
    body = b"".join(entries.values())
    return SIZE.pack(len(body)) + body


def _entry(name: object, value: object, where: str, depth: int) -> bytes:
    text = check_text(f"the name of {where}", name, is_empty_ok=True).encode()
    return bytes((len(text),)) + text + _field(value, where, depth)


def _field(value: object, where: str, depth: int) -> bytes:
    if isinstance(value, str):
        return _sized(b"S", _utf8(value, where))

    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"

    if isinstance(value, int):
        return _whole(value, where)

    if value is None:
        return b"V"

    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(f"{where} cannot be sent: AMQP has no number {value!r}")

        return DOUBLE.pack(b"d", value)

    if isinstance(value, bytes | bytearray | memoryview):
        return _sized(b"x", bytes(value))

    if isinstance(value, datetime):
        return _moment(value, where)

    if isinstance(value, Decimal):
        return _decimal(value, where)

    return _nested(value, where, depth + 1)


def _nested(value: object, where: str, depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise InvalidValue(f"{where} cannot be sent: more than {DEPTH_MAX} tables in each other")

    if isinstance(value, Mapping):
        # How to get there matters as long as it can be read.
        path = f"{where}, " if len(where) < PATH_MAX else "..., "
        parts = [_entry(name, one, f"{path}{shown(name)}", depth) for name, one in value.items()]
        return _sized(b"F", b"".join(parts))

    if isinstance(value, list | tuple):
        return _sized(b"A", b"".join([_field(one, where, depth) for one in value]))

    raise InvalidValue(f"{where} cannot be sent: AMQP has no type for {type(value).__name__}")


def _sized(letter: bytes, data: bytes) -> bytes:
    return SIZED.pack(letter, len(data)) + data


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        raise InvalidValue(f"{where} cannot be sent: it cannot be written as UTF-8") from problem


def _whole(value: int, where: str) -> bytes:
    try:
        return INT.pack(b"I", value) if -(2**31) <= value < 2**31 else LONG.pack(b"l", value)
    except struct.error as problem:
        raise InvalidValue(f"{where} cannot be sent: a number has 64 bits") from problem


def _moment(value: datetime, where: str) -> bytes:
    # AMQP's are seconds since 1970; one without a time zone is taken for UTC, as by the library.
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    try:
        return MOMENT.pack(b"T", int(aware.timestamp()))
    except (struct.error, OverflowError) as problem:
        raise InvalidValue(f"{where} cannot be sent: no moment before 1970") from problem


def _decimal(value: Decimal, where: str) -> bytes:
    sign, digits, exponent = value.as_tuple()
    try:
        if not isinstance(exponent, int) or exponent > DECIMAL_DIGITS_MAX:
            raise OverflowError

        scale = max(0, -exponent)
        whole = int("".join(map(str, digits))) * 10 ** (exponent + scale)
        return DECIMAL.pack(b"D", scale, -whole if sign else whole)
    except (struct.error, OverflowError) as problem:
        raise InvalidValue(
            f"{where} cannot be sent: a decimal has 32 bits and no sign; send {value!s:.40} as text"
        ) from problem
