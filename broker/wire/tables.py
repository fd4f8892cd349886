"""Field tables: the typed maps of AMQP 0-9-1, decoded and encoded without losing a type letter.

Layer 0 (wire), compiled. Invariant: ``encode_table(decode_table(body))`` has the letters and values
that came (rule F-20); of a key given twice the first value is the one that is kept (rule F-21).
Nesting and size are bounded by ``limits``.
"""

from __future__ import annotations

import math
from decimal import Decimal
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from broker.errors import FrameError
from broker.limits import SHORT_STRING_BYTES_MAX, TABLE_BYTES_MAX, TABLE_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_extensions import i64

__all__ = [
    "TYPE_NAMES",
    "Arguments",
    "Field",
    "TableError",
    "decode_table",
    "encode_field",
    "encode_table",
    "fields_equal_for_headers",
    "fields_equivalent",
    "table_from_plain",
    "table_to_plain",
]


class TableError(FrameError):
    """A field table that does not decode; the text says what was wrong with it.

    RabbitMQ drops the connection without a word here (rule F-08); a 501 that says why is kinder
    and no client can tell them apart but by its log.
    """


class Field(NamedTuple):
    """One typed value of a field table.

    Attributes:
        kind: the letter on the wire, one of ``tbBsuIilLfdDSxTFAV``.
        value: bool for t; int for b B s u I i l L and T (seconds); float for f and d; Decimal
            for D; str for S (undecodable bytes as surrogate escapes); bytes for x;
            ``dict[str, Field]`` for F; ``list[Field]`` for A; None for V.

    """

    kind: str
    # Not plain ``object``: mypyc looks that name up where it is not.
    value: object | None


Arguments = dict[str, Field]

TYPE_NAMES: Final[dict[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "T": "timestamp",
    "F": "table",
    "A": "array",
    "V": "void",
}
"""Type letter to the name RabbitMQ gives the type in its texts (section 0 of the rules)."""

_INTEGER_WIDTHS: Final[dict[str, tuple[int, bool]]] = {
    "b": (1, True),
    "B": (1, False),
    "s": (2, True),
    "u": (2, False),
    "I": (4, True),
    "i": (4, False),
    "l": (8, True),
    "L": (8, True),
    "T": (8, False),
}
"""Letter to octets and whether signed. ``s`` is an integer and not a short string (rule F-20)."""

_NUMBER_FAMILIES: Final[dict[str, str]] = {
    **dict.fromkeys("bBsuIilL", "l"),
    **dict.fromkeys("fd", "d"),
}

_HEADER_FAMILIES: Final[dict[str, str]] = {
    **_NUMBER_FAMILIES,
    "T": "l",
    **dict.fromkeys("Sx", "S"),
    **dict.fromkeys("FA", "A"),
}
"""Letters whose values may be equal, by a letter that stands for them all."""

_FLOAT: Final = Struct(">f")
_DOUBLE: Final = Struct(">d")
_new_tuple: Final = tuple.__new__
_VOID: Final = Field("V", None)
_TRUE: Final = Field("t", True)
_FALSE: Final = Field("t", False)

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


def _field(kind: str, value: object) -> Field:
    # Half the cost of the constructor, which is a Python function; decoding makes many.
    return _new_tuple(Field, (kind, value))


class _Reader:
    """A position in a buffer; every method moves it past what it returns."""

    __slots__ = ("buf", "pos")

    def __init__(self, buf: bytes, pos: i64) -> None:
        self.buf = buf
        self.pos: i64 = pos

    def claim(self, count: i64, end: i64) -> i64:
        """Move past ``count`` octets that must lie before ``end``; return where they begin."""
        start: i64 = self.pos
        if count > end - start:
            raise TableError("cannot decode field table: a value is cut short")

        self.pos = start + count
        return start

    def unsigned(self, octets: i64, end: i64) -> i64:
        """Read an unsigned number of at most four octets."""
        pos: i64 = self.claim(octets, end)
        buf = self.buf
        value: i64 = 0
        stop: i64 = pos + octets
        while pos < stop:
            value = (value << 8) | buf[pos]
            pos += 1

        return value

    def signed(self, octets: i64, end: i64) -> i64:
        """Read a two's complement number of at most eight octets."""
        pos: i64 = self.claim(octets, end)
        buf = self.buf
        value: i64 = buf[pos]
        if value >= 0x80:
            value -= 0x100

        stop: i64 = pos + octets
        pos += 1
        while pos < stop:
            value = value * 256 + buf[pos]
            pos += 1

        return value

    def text(self, size: i64, end: i64) -> str:
        """Read ``size`` octets of text."""
        pos: i64 = self.claim(size, end)
        return self.buf[pos : pos + size].decode("utf-8", "surrogateescape")

    def table(self, end: i64, depth: i64) -> Arguments:
        """Read the entries up to ``end``."""
        if depth > TABLE_DEPTH_MAX:
            raise TableError(f"field table nested deeper than {TABLE_DEPTH_MAX} levels")

        table: Arguments = {}
        while self.pos < end:
            size: i64 = self.unsigned(1, end)
            key = self.text(size, end)
            field = self.field(end, depth)
            # Rule F-21: the first of duplicate keys is the one that counts.
            if key not in table:
                table[key] = field

        return table

    def array(self, end: i64, depth: i64) -> list[Field]:
        """Read the values up to ``end``."""
        if depth > TABLE_DEPTH_MAX:
            raise TableError(f"field table nested deeper than {TABLE_DEPTH_MAX} levels")

        values: list[Field] = []
        while self.pos < end:
            values.append(self.field(end, depth))

        return values

    def field(self, end: i64, depth: i64) -> Field:
        """Read one letter and its value; the frequent letters first."""
        letter: i64 = self.unsigned(1, end)
        if letter == 0x53:  # S
            return _field("S", self.text(self.unsigned(4, end), end))
        if letter == 0x49:  # I
            return _field("I", self.signed(4, end))
        if letter == 0x6C:  # l
            return _field("l", self.signed(8, end))
        if letter == 0x74:  # t, any nonzero octet is true
            return _TRUE if self.unsigned(1, end) != 0 else _FALSE
        if letter == 0x46 or letter == 0x41:  # F A
            size: i64 = self.unsigned(4, end)
            start: i64 = self.claim(size, end)
            self.pos = start
            if letter == 0x46:
                return _field("F", self.table(start + size, depth + 1))
            return _field("A", self.array(start + size, depth + 1))
        if letter == 0x56:  # V
            return _VOID

        return self._rare_field(chr(letter), end)

    def _rare_field(self, kind: str, end: i64) -> Field:
        width = _INTEGER_WIDTHS.get(kind)
        if width is not None:
            octets: i64 = width[0]
            if width[1]:
                return _field(kind, self.signed(octets, end))
            if kind == "T":
                # Sixty-four unsigned bits do not fit an i64.
                start: i64 = self.claim(8, end)
                return _field("T", int.from_bytes(self.buf[start : start + 8], "big"))
            return _field(kind, self.unsigned(octets, end))
        if kind == "d" or kind == "f":
            return _field(kind, self._float(kind == "d", end))
        if kind == "x":
            size: i64 = self.unsigned(4, end)
            begin: i64 = self.claim(size, end)
            return _field("x", self.buf[begin : begin + size])
        if kind == "D":
            scale: i64 = self.unsigned(1, end)
            digits: i64 = self.unsigned(4, end)
            return _field("D", Decimal(f"{digits}E-{scale}"))

        raise TableError(f"cannot decode field table: unknown type letter {kind!r}")

    def _float(self, is_double: bool, end: i64) -> float:
        octets: i64 = 8 if is_double else 4
        start: i64 = self.claim(octets, end)
        raw = self.buf[start : start + octets]
        value = cast("float", _DOUBLE.unpack(raw)[0] if is_double else _FLOAT.unpack(raw)[0])
        # RabbitMQ: Erlang has no NaN and no infinity, so a table with one does not decode.
        if not math.isfinite(value):
            raise TableError("cannot decode field table: a float is not a finite number")

        return value


def decode_table(buf: bytes, start: int, end: int) -> Arguments:
    """Decode a table's entries.

    Args:
        buf: the buffer the table lies in.
        start: where the first entry begins, behind the four octets of the length.
        end: where the last entry ends.

    Raises:
        TableError: an entry is cut, of an unknown type, not a finite float, too deep or too large.

    """
    if end - start > TABLE_BYTES_MAX:
        raise TableError(f"field table larger than {TABLE_BYTES_MAX} bytes")

    return _Reader(buf, start).table(end, 1)


def encode_table(arguments: Arguments) -> bytes:
    """Encode a table with its four octets of length, each value under its own letter.

    Raises:
        ValueError: a value does not fit its letter, which cannot come from ``decode_table``.

    """
    parts: list[bytes] = []
    _append_table(parts, arguments)
    return b"".join(parts)


def encode_field(field: Field) -> bytes:
    """Encode the letter and the value of one field.

    Raises:
        ValueError: the value does not fit the letter.

    """
    parts: list[bytes] = []
    _append_field(parts, field)
    return b"".join(parts)


def _append_table(parts: list[bytes], arguments: Arguments) -> None:
    mark = len(parts)
    parts.append(b"")
    for key, field in arguments.items():
        raw = key.encode("utf-8", "surrogateescape")
        if len(raw) > SHORT_STRING_BYTES_MAX:
            raise ValueError(f"field name longer than {SHORT_STRING_BYTES_MAX} bytes: {key!r}")

        parts.append(len(raw).to_bytes(1, "big"))
        parts.append(raw)
        _append_field(parts, field)

    parts[mark] = _length_since(parts, mark)


def _length_since(parts: list[bytes], mark: int) -> bytes:
    size = 0
    for index in range(mark, len(parts)):
        size += len(parts[index])

    return size.to_bytes(4, "big")


def _append_field(parts: list[bytes], field: Field) -> None:
    kind = field.kind
    value = field.value
    parts.append(kind.encode("ascii"))
    if kind == "S" and isinstance(value, str):
        _append_long(parts, value.encode("utf-8", "surrogateescape"))
    elif kind == "F" and isinstance(value, dict):
        _append_table(parts, value)
    elif kind == "A" and isinstance(value, list):
        mark = len(parts)
        parts.append(b"")
        for item in value:
            _append_field(parts, item)

        parts[mark] = _length_since(parts, mark)
    elif kind == "x" and isinstance(value, bytes):
        _append_long(parts, value)
    else:
        parts.append(_encode_scalar(kind, value))


def _append_long(parts: list[bytes], raw: bytes) -> None:
    parts.append(len(raw).to_bytes(4, "big"))
    parts.append(raw)


def _encode_scalar(kind: str, value: object) -> bytes:
    if kind == "V" and value is None:
        return b""
    if kind == "t" and isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if kind == "D" and isinstance(value, Decimal):
        return _encode_decimal(value)
    if (kind == "d" or kind == "f") and isinstance(value, float):
        return _DOUBLE.pack(value) if kind == "d" else _FLOAT.pack(value)

    width = _INTEGER_WIDTHS.get(kind)
    if width is None or not isinstance(value, int):
        raise ValueError(f"no field of type {kind!r} can hold {value!r}")

    try:
        return value.to_bytes(width[0], "big", signed=width[1])
    except OverflowError:
        raise ValueError(f"{value} does not fit a field of type {kind!r}") from None


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if sign == 0 and isinstance(exponent, int) and -255 <= exponent <= 0:
        number = 0
        for digit in digits:
            number = number * 10 + digit

        if number <= 0xFFFFFFFF:
            return (-exponent).to_bytes(1, "big") + number.to_bytes(4, "big")

    raise ValueError(f"{value} does not fit a field of type 'D'")


def table_from_plain(value: Mapping[str, object]) -> Arguments:
    """Give plain values the types that definitions in JSON get (rule DE-11).

    int becomes l, float d, str S, bool t, a mapping F, a list A, and bytes x.

    Raises:
        ValueError: a null, or another value no field can hold; the text names its key.

    """
    return _table_from(value, "", 1)


def _table_from(value: Mapping[str, object], path: str, depth: int) -> Arguments:
    if depth > TABLE_DEPTH_MAX:
        raise ValueError(f"{path!r}: nested deeper than {TABLE_DEPTH_MAX} levels")

    table: Arguments = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if len(key.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES_MAX:
            raise ValueError(f"{where!r}: the name is longer than {SHORT_STRING_BYTES_MAX} bytes")

        table[key] = _field_from(item, where, depth)

    return table


def _field_from(value: object, where: str, depth: int) -> Field:
    if isinstance(value, bool):
        return Field("t", value)
    if isinstance(value, int):
        if not _INT64_MIN <= value <= _INT64_MAX:
            raise ValueError(f"{where!r}: {value} does not fit 64 bits")
        return Field("l", value)
    if isinstance(value, str):
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"{where!r}: {value!r} is no text that can be written") from None

        return Field("S", value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where!r}: {value} is not a finite number")
        return Field("d", value)
    if isinstance(value, bytes):
        return Field("x", value)
    if isinstance(value, dict):
        return Field("F", _table_from(value, where, depth + 1))
    if isinstance(value, list):
        return Field("A", _array_from(value, where, depth + 1))

    found = "null" if value is None else f"a {type(value).__name__}"
    raise ValueError(f"{where!r}: {found} is not a value an argument can have")


def _array_from(value: list[object], path: str, depth: int) -> list[Field]:
    if depth > TABLE_DEPTH_MAX:
        raise ValueError(f"{path!r}: nested deeper than {TABLE_DEPTH_MAX} levels")

    return [_field_from(item, f"{path}[{index}]", depth) for index, item in enumerate(value)]


def table_to_plain(arguments: Arguments) -> dict[str, object]:
    """Drop the types: the values alone, tables as dicts and arrays as lists."""
    plain: dict[str, object] = {}
    for key, field in arguments.items():
        plain[key] = _field_to_plain(field)

    return plain


def _field_to_plain(field: Field) -> object:
    value = field.value
    if isinstance(value, dict):
        return table_to_plain(value)
    if isinstance(value, list):
        return [_field_to_plain(item) for item in value]

    return value


def fields_equal_for_headers(a: Field, b: Field) -> bool:
    """Compare a binding argument with a header as the headers exchange does (rule E-93).

    The letter does not count: integers and timestamps of any width are equal by value, so are f
    and d, a long string equals a binary of the same bytes and an empty table an empty array. But
    an integer never equals a float. Inside tables and arrays the types count too.

    That a void argument tests for presence is the matcher's business.
    """
    if a.kind == b.kind:
        return _typed_equal(a, b)

    kind = _HEADER_FAMILIES.get(a.kind, "")
    if kind != _HEADER_FAMILIES.get(b.kind):
        return False
    if kind == "S":
        return _bytes_of(a.value) == _bytes_of(b.value)
    if kind == "A":
        return not a.value and not b.value

    return a.value == b.value


def fields_equivalent(a: Field, b: Field) -> bool:
    """Compare two declared arguments (rule Q-12).

    Integers of different widths are equal by value and so are f and d; everything else compares
    type and value. A decimal is its scale and its digits, so it never equals an integer.
    """
    if a.kind == b.kind:
        return _typed_equal(a, b)

    kind = _NUMBER_FAMILIES.get(a.kind, "")
    return kind == _NUMBER_FAMILIES.get(b.kind) and a.value == b.value


def _bytes_of(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")

    return cast("bytes", value)


def _typed_equal(a: Field, b: Field) -> bool:
    """Compare type and value; l and L are one type."""
    kind = a.kind
    if kind != b.kind and TYPE_NAMES[kind] != TYPE_NAMES[b.kind]:
        return False
    if kind == "F":
        return _tables_equal(cast("Arguments", a.value), cast("Arguments", b.value))
    if kind == "A":
        return _arrays_equal(cast("list[Field]", a.value), cast("list[Field]", b.value))
    if kind == "D":
        # RabbitMQ: 1.0 is not 1.00.
        return _encode_scalar(kind, a.value) == _encode_scalar(kind, b.value)

    return a.value == b.value


def _tables_equal(a: Arguments, b: Arguments) -> bool:
    # RabbitMQ compares the order of the entries too; clients send maps, which have none.
    if len(a) != len(b):
        return False

    for key, field in a.items():
        other = b.get(key)
        if other is None or not _typed_equal(field, other):
            return False

    return True


def _arrays_equal(a: list[Field], b: list[Field]) -> bool:
    if len(a) != len(b):
        return False

    return all(_typed_equal(left, right) for left, right in zip(a, b, strict=True))
