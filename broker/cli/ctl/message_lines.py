"""Lines that import_messages reads, and what they may be instead (cli layer)."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_DATA, CtlError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fields_in", "is_of_messages", "line_fault", "payload_in"]

Fact = dict[str, object]

WANTED: Final = 'it is no {"message": {...}}'
COMPRESSED: Final = {
    b"\x1f\x8b": "gzip -d",
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"BZh": "bzip2 -d",
    b"\xfd7zXZ": "xz -d",
    b"PK\x03\x04": "unzip",
}
UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
STORE_KINDS: Final = frozenset(
    (
        "binding",
        "exchange",
        "global_parameter",
        "operator_policy",
        "parameter",
        "permission",
        "policy",
        "queue",
        "topic_permission",
        "user",
        "vhost",
    )
)
"""What else `leveret store export` has lines about."""

DEFINITIONS: Final = frozenset(("bindings", "exchanges", "permissions", "queues", "users"))
"""A document with some of these lists is one of definitions."""


def fields_in(number: int, line: bytes) -> Fact:
    """What a line says of a message.

    Raises:
        CtlError: it is something else; what it may be is told.

    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise line_fault(number, _about_text(number, line)) from None

    fields = value.get("message") if isinstance(value, dict) else None
    if not isinstance(fields, dict):
        raise line_fault(number, _about(value))

    return fields


def is_of_messages(text: bytes) -> bool:
    """Whether a file holds such lines, for those who want a file of another kind."""
    try:
        fields_in(1, text.lstrip().partition(b"\n")[0])
    except CtlError:
        return False

    return True


def _about_text(number: int, line: bytes) -> str:
    if number > 1:
        return "it is no JSON"

    for start, command in COMPRESSED.items():
        if line.startswith(start):
            return f"the file is compressed: `{command}` it first"

    if line.startswith(UTF16):
        return "the file is UTF-16: it has to be UTF-8"

    if line.strip() in (b"{", b"["):
        return (
            "each line has to be a message, and here JSON goes on over more lines: if these are"
            " definitions, import_definitions takes them"
        )

    return "it is no JSON"


def _about(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"{WANTED}, but a list: each message is a line of its own"

    if not isinstance(value, dict):
        return WANTED

    if len(value) == 1 and STORE_KINDS.issuperset(value):
        return (
            f"it is about a {next(iter(value))}, as `leveret store export` writes it: take what is"
            " about messages alone, with `grep '^{\"message\"'`; `leveret store import` takes all"
        )

    if any(isinstance(value.get(key), list) for key in DEFINITIONS):
        return "it holds definitions: import_definitions takes them"

    if "payload" in value or "body" in value or "body_base64" in value:
        return f"{WANTED}: the message itself has to stand within"

    return WANTED


def payload_in(number: int, fields: Mapping[str, object]) -> Fact:
    """The body that a line has, as the API takes it.

    Raises:
        CtlError: there is none, or it is no text.

    """
    key = "body_base64" if "body_base64" in fields else "body"
    if key not in fields:
        raise line_fault(number, "it has no body_base64, and no body")

    text = fields[key]
    if not isinstance(text, str):
        raise line_fault(number, f"{key} is no text")

    if key == "body":
        return {"payload": text, "payload_encoding": "string"}

    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise line_fault(number, "body_base64 is no base64") from None

    return {"payload": text, "payload_encoding": "base64"}


def line_fault(number: int, text: str) -> CtlError:
    """The end of an import, and how to go on."""
    how = f"the lines before it are in, go on with `tail -n +{number}`"
    return CtlError(f"line {number}: {text} - {how if number > 1 else 'nothing is in'}", EXIT_DATA)
