"""Erlang terms as RabbitMQ prints them in reply texts (layer: core; rules T-10..T-15).

Clients match on reply texts, and some of these hold a value the way Erlang writes it. The functions
here build such text from strings and bytes; nothing parses it back.

RabbitMQ breaks a long term over several lines (rule T-15). That helps nobody who reads a log or
matches on a text, so terms stay on one line here.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from broker.wire.tables import TYPE_NAMES, Arguments, Field

__all__ = [
    "erl_atom",
    "erl_binary",
    "erl_decimal",
    "erl_field",
    "erl_float",
    "erl_list",
    "erl_plain",
    "erl_string",
    "erl_table",
    "erl_tuple",
    "raw_text",
    "resource_text",
]

_BARE_ATOM: Final = re.compile(r"[a-z][a-zA-Z0-9_@]*\Z")

_EXACT_WHOLE_MAX: Final = 2.0**53

_STRING_ESCAPES: Final[dict[str, str]] = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    "\x1b": "\\e",
    '"': '\\"',
    "\\": "\\\\",
}


def resource_text(kind: str, name: str, vhost_name: str) -> str:
    """``queue 'q' in vhost '/'``: how texts name a queue or an exchange."""
    return f"{kind} '{name}' in vhost '{vhost_name}'"


def erl_atom(name: str) -> str:
    """An atom: bare when it is a plain lower-case identifier, else in single quotes (T-12)."""
    if _BARE_ATOM.match(name):
        return name

    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def erl_string(text: str) -> str:
    """A double-quoted string, as in ``"expected integer, got longstr"`` (T-10)."""
    return '"' + "".join([_STRING_ESCAPES.get(char, char) for char in text]) + '"'


def erl_binary(data: bytes) -> str:
    """A binary: ``<<"text">>`` when printable, else ``<<1,2,255>>`` (T-11)."""
    if not data:
        return "<<>>"

    is_utf8 = True
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        # RabbitMQ [4.3]: a byte string that is not UTF-8 is looked at as latin-1.
        is_utf8 = False
        text = data.decode("latin-1")

    if not all(_is_printable(char) for char in text):
        return "<<" + ",".join([str(byte) for byte in data]) + ">>"

    marker = "/utf8" if is_utf8 and not text.isascii() else ""
    return f"<<{erl_string(text)}{marker}>>"


def _is_printable(char: str) -> bool:
    """Whether Erlang's printer shows this character inside quotes."""
    if char in _STRING_ESCAPES:
        return True

    # RabbitMQ [4.3]: all of Unicode but control characters, surrogates and two non-characters.
    point = ord(char)
    if point < 0xA0:
        return 0x20 <= point <= 0x7E

    return point not in (0xFFFE, 0xFFFF)


def erl_float(value: float) -> str:
    """A float in the shortest form that reads back the same: ``5.0``, ``1.0e5``, ``1.0e-7``."""
    plain = repr(value)
    sign, digits, exponent = Decimal(plain).as_tuple()
    text = "".join([str(digit) for digit in digits]).rstrip("0")
    if not text:
        return plain

    power = len(digits) - 1 + int(exponent)
    scientific = f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}e{power}"
    # Erlang takes the shorter one, and the exponent where whole numbers get inexact.
    if "e" in plain or abs(value) >= _EXACT_WHOLE_MAX or len(scientific) < len(plain):
        return scientific

    return plain


def erl_tuple(*parts: str) -> str:
    """A tuple of terms that are text already: ``{value_negative,-1}`` (T-12)."""
    return "{" + ",".join(parts) + "}"


def erl_list(parts: list[str]) -> str:
    """A list of terms that are text already."""
    return "[" + ",".join(parts) + "]"


def erl_field(field: Field) -> str:
    """The value of a table field as a term, without its type name."""
    value = field.value
    if isinstance(value, bool):
        return "true" if value else "false"

    if isinstance(value, (str, bytes)):
        return erl_binary(_as_bytes(value))

    if isinstance(value, Decimal):
        return erl_decimal(value)

    if isinstance(value, list):
        return erl_list([erl_tuple(TYPE_NAMES[item.kind], erl_field(item)) for item in value])

    if isinstance(value, dict):
        return erl_table(value)

    if isinstance(value, float):
        return erl_float(value)

    return "undefined" if value is None else str(value)


def erl_table(table: Arguments) -> str:
    """A field table: ``[{<<"k">>,signedint,5}]``."""
    return erl_list(
        [
            erl_tuple(erl_binary(_as_bytes(key)), TYPE_NAMES[field.kind], erl_field(field))
            for key, field in table.items()
        ]
    )


def erl_decimal(value: Decimal) -> str:
    """A decimal field: ``{scale,unscaled}``."""
    _, digits, exponent = value.as_tuple()
    return erl_tuple(str(-int(exponent)), str(int("".join([str(digit) for digit in digits]))))


def erl_plain(value: object) -> str:
    """A JSON value as a term (rule PO-09): objects as maps, text as binaries."""
    if isinstance(value, bool):
        return "true" if value else "false"

    if value is None:
        return "null"

    if isinstance(value, str):
        return erl_binary(_as_bytes(value))

    if isinstance(value, float):
        return erl_float(value)

    if isinstance(value, list):
        return erl_list([erl_plain(item) for item in value])

    if isinstance(value, dict):
        pairs = [
            f"{erl_binary(_as_bytes(str(key)))} => {erl_plain(value[key])}" for key in sorted(value)
        ]
        return "#{" + ",".join(pairs) + "}"

    return str(value)


def raw_text(field: Field) -> str:
    """A field's value as equivalence texts print it: text as it is, the rest as a term (T-13).

    Bytes that are not UTF-8 show as latin-1. RabbitMQ [4.3] does so; [3.10] sends them as they are,
    an invalid text for most clients.
    """
    value = field.value
    if isinstance(value, (str, bytes)):
        raw = _as_bytes(value)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw.decode("latin-1")

    return erl_field(field)


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
