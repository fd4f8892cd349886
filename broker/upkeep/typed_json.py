"""AMQP values as JSON, and back without losing a type letter. Layer: rim.

A value whose JSON form gets its own type back (rule DE-11: integer ``l``, float ``d``, text ``S``,
boolean ``t``, object ``F``, array ``A``) stands as it is. Any other says which it has::

    {"$type": "I", "value": 5}

"""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal, InvalidOperation
from typing import Final

from broker.wire.properties import parse_properties
from broker.wire.tables import Arguments, Field, encode_field, encode_table

__all__ = [
    "decode_base64",
    "encode_base64",
    "properties_from_json",
    "properties_to_json",
    "table_from_json",
    "table_to_json",
]

TYPE_KEY: Final = "$type"
VALUE_KEY: Final = "value"
TYPED_KEYS: Final = {TYPE_KEY, VALUE_KEY}
PLAIN_KINDS: Final = frozenset("ldSt")
INTEGER_KINDS: Final = frozenset("bBsuIilLT")

# Of basic's properties, the highest flag first (rule X-02).
PROPERTIES: Final = (
    ("content_type", "text"),
    ("content_encoding", "text"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "text"),
    ("reply_to", "text"),
    ("expiration", "text"),
    ("message_id", "text"),
    ("timestamp", "time"),
    ("type", "text"),
    ("user_id", "text"),
    ("app_id", "text"),
    ("cluster_id", "text"),
)
FIRST_FLAG: Final = 15
TEXT_BYTES_MAX: Final = 255


# -- tables


def table_to_json(table: Arguments) -> dict[str, object]:
    """Values by their names; what JSON cannot tell apart says its type."""
    return {name: _field_to_json(field) for name, field in table.items()}


def _field_to_json(field: Field) -> object:
    kind, value = field
    if kind in PLAIN_KINDS:
        return value

    if kind == "F":
        assert isinstance(value, dict)
        inner = table_to_json(value)
        return _typed("F", inner) if set(inner) == TYPED_KEYS else inner

    if kind == "A":
        assert isinstance(value, list)
        return [_field_to_json(item) for item in value]

    if isinstance(value, bytes):
        return _typed(kind, encode_base64(value))

    return _typed(kind, str(value) if isinstance(value, Decimal) else value)


def _typed(kind: str, value: object) -> dict[str, object]:
    return {TYPE_KEY: kind, VALUE_KEY: value}


def table_from_json(value: object, where: str) -> Arguments:
    """Make a table of an object as `table_to_json` gives it.

    Args:
        value: the object.
        where: what it is, for the error.

    Raises:
        ValueError: it is none, or a value fits no field.

    """
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object")

    table = {str(key): _field_from_json(item, f"{where}.{key}") for key, item in value.items()}
    # Whatever does not fit its type shows here.
    encode_table(table)
    return table


def _field_from_json(value: object, where: str) -> Field:
    field = _plain_field(value)
    if field is not None:
        return field

    if isinstance(value, list):
        items = enumerate(value)
        return Field("A", [_field_from_json(item, f"{where}[{index}]") for index, item in items])

    if isinstance(value, dict):
        if set(value) == TYPED_KEYS:
            return _typed_field(value[TYPE_KEY], value[VALUE_KEY], where)

        return Field(
            "F", {key: _field_from_json(one, f"{where}.{key}") for key, one in value.items()}
        )

    raise ValueError(f"{where}: null is no value; say {{'$type': 'V', 'value': null}} for a void")


def _plain_field(value: object) -> Field | None:
    for its_type, kind in ((bool, "t"), (int, "l"), (float, "d"), (str, "S")):
        if isinstance(value, its_type):
            return Field(kind, value)

    return None


def _typed_field(kind: object, value: object, where: str) -> Field:
    if not isinstance(kind, str):
        raise ValueError(f"{where}: the type must be a letter")

    try:
        field = Field(kind, _typed_value(kind, value, where))
        encode_field(field)
    except (ValueError, InvalidOperation) as problem:
        raise ValueError(f"{where}: {problem}") from None

    return field


def _typed_value(kind: str, value: object, where: str) -> object:
    if kind == "F":
        if not isinstance(value, dict):
            raise ValueError("a field of type 'F' is an object")

        return {key: _field_from_json(one, f"{where}.{key}") for key, one in value.items()}

    if kind == "D":
        return Decimal(str(value))

    if kind == "x":
        return decode_base64(value)

    if kind in INTEGER_KINDS and isinstance(value, bool):
        raise ValueError(f"no field of type {kind!r} can hold {value!r}")

    return value


# -- properties


def properties_to_json(raw: bytes) -> dict[str, object]:
    """The properties that are present by their names."""
    properties = parse_properties(raw)
    plain = properties.to_plain()
    if "headers" in plain:
        plain["headers"] = table_to_json(properties.headers())

    return plain


def properties_from_json(value: object) -> bytes:
    """Make a property list of properties by their names.

    Raises:
        ValueError: one is not known, or not what it should be.

    """
    if not isinstance(value, dict):
        raise ValueError("properties: expected an object")

    known = {name for name, _ in PROPERTIES}
    for name in value:
        if name not in known:
            raise ValueError(f"properties: there is no '{name}'")

    flags = 0
    pieces: list[bytes] = []
    for place, (name, kind) in enumerate(PROPERTIES):
        if name in value:
            flags |= 1 << (FIRST_FLAG - place)
            pieces.append(_encode_property(value[name], kind, f"properties.{name}"))

    return flags.to_bytes(2, "big") + b"".join(pieces)


def _encode_property(value: object, kind: str, where: str) -> bytes:
    if kind == "table":
        return encode_table(table_from_json(value, where))

    if kind == "text":
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else None
        if raw is None or len(raw) > TEXT_BYTES_MAX:
            raise ValueError(f"{where}: expected a text of {TEXT_BYTES_MAX} bytes at most")

        return bytes((len(raw),)) + raw

    size = 1 if kind == "octet" else 8
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 8 * size:
        raise ValueError(f"{where}: expected a number of {size} bytes at most")

    return value.to_bytes(size, "big")


# -- bytes


def encode_base64(raw: bytes) -> str:
    """Bytes as a text."""
    return base64.b64encode(raw).decode("ascii")


def decode_base64(text: object) -> bytes:
    """The bytes again.

    Raises:
        ValueError: it is no base64.

    """
    if not isinstance(text, str):
        raise ValueError("expected a text in base64")

    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("this is no base64") from None
