"""What requests say, as the core wants it (management layer)."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from broker.core.user_commands import Rights
from broker.management.errors import BadRequest, MissingKeys
from broker.management.numbers import whole_number
from broker.wire.tables import table_from_plain

if TYPE_CHECKING:
    from broker.management.json_text import JSON
    from broker.wire.tables import Arguments

__all__ = [
    "arguments_of",
    "boolean_of",
    "integer_of",
    "object_of",
    "rights_in",
    "tags_of",
    "text_of",
]


TEXT_DIGITS_MAX: Final = 1000


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
    number = whole_number(value, TEXT_DIGITS_MAX) if isinstance(value, str) else None
    if isinstance(value, float) and isfinite(value):
        # RabbitMQ: what is behind the point does not count.
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value

    if number is None:
        raise BadRequest(["not_integer", value])

    return number


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


def tags_of(value: object) -> tuple[str, ...]:
    """Tags, as a list or as words with commas between them.

    Raises:
        BadRequest: they are neither.

    """
    if isinstance(value, str):
        value = value.split(",")

    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise BadRequest(["not_a_list_of_tags", value])

    return tuple(dict.fromkeys(tag.strip() for tag in value if tag.strip()))


def rights_in(value: object) -> Rights:
    """The three patterns of a permission.

    Raises:
        BadRequest: one is missing, or no text.

    """
    if not isinstance(value, dict):
        raise BadRequest(["not_an_object", "permissions"])

    missing = [key for key in Rights._fields if key not in value]
    if missing:
        raise MissingKeys(missing)

    return Rights(*(text_of(value, key) for key in Rights._fields))
