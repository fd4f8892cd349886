"""JSON in and out (management layer).

Invariant: names and texts that are no UTF-8 come out as lone surrogate escapes, which every reader
of JSON takes, and go back in as the same bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from broker.management.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["JSON", "parse_object", "render", "render_list"]

JSON = dict[str, object]


def _default(value: object) -> object:
    """What JSON has no type for: binaries of argument tables, decimals."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")

    return str(value)


_ENCODER = json.JSONEncoder(
    ensure_ascii=True, separators=(",", ":"), default=_default, check_circular=False
)


def render(value: object) -> bytes:
    """Write a value."""
    return _ENCODER.encode(value).encode("ascii")


def render_list(rows: Iterable[object]) -> bytes:
    """Write the inside of a list: rows with commas between them."""
    return b",".join([render(row) for row in rows])


def parse_object(raw: bytes) -> JSON:
    """Read the body of a request: an object, or nothing at all.

    Raises:
        BadRequest: it is something else, in the words of RabbitMQ.

    """
    text = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if text in (b"", b"null", b"undefined"):
        return {}

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest("not_json") from None

    if isinstance(value, str):
        raise BadRequest(
            "invalid payload: the request body JSON-decoded to a string. Is the input "
            "doubly-JSON-encoded?"
        )

    if not isinstance(value, dict):
        raise BadRequest("not_json")

    return value
