"""Values as rabbitmqctl writes them: in cells of tables, in JSON, as Erlang terms (cli layer).

Values are those of JSON, and besides :class:`Atoms`, a list of words that stand without quotes,
tuples, and :class:`Table`, the arguments of something, which have AMQP's types. Those are guessed
from the values: the HTTP API does not tell them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from broker.logs import UNSAFE_ON_TERMINALS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Atoms",
    "Table",
    "as_cell",
    "as_erlang",
    "as_json",
    "compact_json",
    "harmless",
    "printable",
]

SIGNED_MAX: Final = 2**31
TYPES: Final = ((bool, "bool"), (str, "longstr"), (float, "double"), (dict, "table"))

_UNSAFE: Final = re.compile(f"[{UNSAFE_ON_TERMINALS}]")
# What this program writes itself: line ends, tabs, and bold.
_UNSAFE_IN_LINES: Final = re.compile(rf"(?!\n|\t|\x1b\[[01]m)[{UNSAFE_ON_TERMINALS}]")
_SHORT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


class Atoms(list[str]):
    """Words, such as the tags of a user."""


class Table(dict[str, object]):
    """Arguments, such as those of a queue."""


def compact_json(value: object) -> str:
    """JSON as rabbitmqctl writes it: no spaces, and characters as they are but for unsafe ones."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """Lines that any stream takes, and that do nothing to a terminal.

    Octets that are no UTF-8 are shown as escapes, and so is what would move the cursor.
    """
    safe = _UNSAFE_IN_LINES.sub(_escaped, text)
    return safe.encode("utf-8", "backslashreplace").decode("utf-8")


def harmless(text: str) -> str:
    """A name from anybody as a part of a line; patterns keep their backslashes."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")


# -- cells


def as_cell(value: object) -> str:
    """A value in a table: one line, and no tab."""
    return harmless(_cell(value))


def _cell(value: object) -> str:
    if isinstance(value, Table):
        return _proplist(value)

    if isinstance(value, Atoms):
        return f"[{', '.join(value)}]"

    return value if isinstance(value, str) else _word(value)


def _word(value: object) -> str:
    if value is None:
        return ""

    if isinstance(value, bool):
        return "true" if value else "false"

    if isinstance(value, dict):
        return _proplist(value)

    if isinstance(value, tuple):
        return f"{{{','.join(map(_cell, value))}}}"

    if isinstance(value, list):
        return f"[{', '.join(map(_cell, value))}]"

    return str(value)


def _proplist(table: Mapping[str, object]) -> str:
    pairs = (f'{{"{name}",{_inner(value)}}}' for name, value in table.items())
    return f"[{','.join(pairs)}]"


def _inner(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'

    if isinstance(value, list):
        return f"[{','.join(map(_inner, value))}]"

    return "undefined" if value is None else _word(value)


# -- JSON


def as_json(value: object) -> object:
    """A value for JSON: what is not there is an empty text, arguments tell their types."""
    if value is None:
        return ""

    return _typed_pairs(value) if isinstance(value, Table) else value


def _type_of(value: object) -> str:
    for kind, name in TYPES:
        if isinstance(value, kind):
            return name

    if isinstance(value, list):
        return "array"

    if isinstance(value, int):
        return "signedint" if -SIGNED_MAX <= value < SIGNED_MAX else "long"

    return "void"


def _typed(value: object) -> object:
    if isinstance(value, dict):
        return _typed_pairs(value)

    return [[_type_of(item), _typed(item)] for item in value] if isinstance(value, list) else value


def _typed_pairs(table: Mapping[str, object]) -> list[object]:
    return [[name, _type_of(value), _typed(value)] for name, value in table.items()]


# -- Erlang


def as_erlang(value: object) -> str:
    """A value as an Erlang term."""
    if isinstance(value, Atoms):
        return f"[{','.join(map(_atom, value))}]"

    if isinstance(value, Table):
        return _erlang_table(value)

    if isinstance(value, str):
        return _binary(value)

    if isinstance(value, dict):
        pairs = (f"{_binary(name)} => {as_erlang(item)}" for name, item in value.items())
        return f"#{{{','.join(pairs)}}}"

    if isinstance(value, list):
        return f"[{','.join(map(as_erlang, value))}]"

    return "undefined" if value is None else _word(value)


def _erlang_table(table: Mapping[str, object]) -> str:
    parts = (
        f"{{{_binary(name)},{_type_of(value)},{_erlang_typed(value)}}}"
        for name, value in table.items()
    )
    return f"[{','.join(parts)}]"


def _erlang_typed(value: object) -> str:
    if isinstance(value, dict):
        return _erlang_table(value)

    if isinstance(value, list):
        items = (f"{{{_type_of(item)},{_erlang_typed(item)}}}" for item in value)
        return f"[{','.join(items)}]"

    return as_erlang(value)


def _binary(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{_erlang_safe(escaped)}"{"" if text.isascii() else "/utf8"}>>'


def _erlang_safe(text: str) -> str:
    return _UNSAFE.sub(lambda match: _SHORT.get(match[0]) or f"\\x{{{ord(match[0]):x}}}", text)


def _atom(word: str) -> str:
    is_plain = word[:1].islower() and word.replace("_", "").isalnum() and word.isascii()
    if is_plain:
        return word

    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{_erlang_safe(escaped)}'"
