"""JSON in and out (management layer).

Invariant: names and texts that are no UTF-8 come out as lone surrogate escapes, which every reader
of JSON takes, and go back in as the same bytes.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from broker.management.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["JSON", "parse_object", "read_json", "render", "render_list", "rfc3339"]

JSON = dict[str, object]


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)


def _plain(value: object) -> str:
    """What JSON has no type for, as msgspec does it."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def render(value: object) -> bytes:
    """Write a value."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        # A name that is no UTF-8: seldom, and several times slower.
        text = json.dumps(value, separators=(",", ":"), default=_plain)
        return text.encode("ascii")


def render_list(rows: Sequence[object]) -> bytes:
    """Write the inside of a list: rows with commas between them."""
    return render(rows)[1:-1]


def read_json(text: bytes) -> object:
    """Read any value.

    Raises:
        ValueError: it is no JSON, says NaN or Infinity, or has half of a pair of surrogates that
            is no escape of an octet: nothing could be written of it.
        RecursionError: it is nested too deeply.

    """
    value: object = json.loads(text, parse_constant=_refuse_constant)
    if b"\\u" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")

    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def parse_object(raw: bytes) -> JSON:
    """Read the body of a request: an object, or nothing at all.

    Raises:
        BadRequest: it is something else, in the words of RabbitMQ.

    """
    text = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if text in (b"", b"null", b"undefined"):
        return {}

    try:
        value = read_json(text)
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


@lru_cache(maxsize=1024)
def rfc3339(wall_ms: int) -> str:
    """A time as RabbitMQ 4 writes it."""
    moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds")
