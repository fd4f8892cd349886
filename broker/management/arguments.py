"""What requests say, as the core wants it (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.management.errors import BadRequest
from broker.wire.tables import table_from_plain

if TYPE_CHECKING:
    from broker.management.json_text import JSON
    from broker.wire.tables import Arguments

__all__ = ["arguments_of", "boolean_of", "integer_of", "object_of", "text_of"]


def boolean_of(body: JSON, key: str, *, default: bool = False) -> bool:
    """A flag, which rabbitmqadmin sends as a text.

    Raises:
        BadRequest: it is neither true nor false.

    """
    value = body.get(key, default)
    if isinstance(value, bool):
        return value

    if value in ("true", "false"):
        return value == "true"

    raise BadRequest(["not_boolean", value])


def integer_of(body: JSON, key: str, *, default: int = 0) -> int:
    """A number, which rabbitmqadmin sends as a text.

    Raises:
        BadRequest: it is none.

    """
    value = body.get(key, default)
    if isinstance(value, int) and not isinstance(value, bool):
        return value

    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass

    raise BadRequest(["not_integer", value])


def text_of(body: JSON, key: str, *, default: str = "") -> str:
    """A text.

    Raises:
        BadRequest: it is none.

    """
    value = body.get(key, default)
    if isinstance(value, str):
        return value

    raise BadRequest(["not_a_string", key])


def object_of(body: JSON, key: str) -> JSON:
    """An object; nothing, null and the empty list that old clients send are the empty one.

    Raises:
        BadRequest: it is something else.

    """
    value = body.get(key)
    if value is None or value == [] or value == "":
        return {}

    if isinstance(value, dict):
        return value

    raise BadRequest(["not_an_object", key])


def arguments_of(body: JSON, key: str = "arguments") -> Arguments:
    """An argument table (rule DE-11).

    Raises:
        BadRequest: a value has no type in AMQP.

    """
    try:
        return table_from_plain(object_of(body, key))
    except ValueError as problem:
        raise BadRequest(f"{key}: {problem}") from None
