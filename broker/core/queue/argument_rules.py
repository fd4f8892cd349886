"""Which arguments of queue.declare and basic.consume there are, for which type of queue, and what
each may hold (layer: core; rules Q-20..Q-25, CO-08).

One table, :data:`ARGUMENT_RULES`, says it all, in the order in which RabbitMQ looks at the
arguments, so that of several bad ones the same is reported. A new type of queue joins by being
named in the rows it knows, in :data:`QUEUE_TYPE_MODULES` and in :data:`SUPPORTED_QUEUE_TYPES`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.erlterm import erl_string, erl_tuple, raw_text
from broker.core.names import fits_short_string
from broker.limits import SHORT_STRING_BYTES_MAX
from broker.wire.tables import TYPE_NAMES, Arguments, Field

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARGUMENT_RULES",
    "CLASSIC",
    "CONSUME_TYPES_BY_KEY",
    "OVERFLOWS",
    "QUEUE_TYPE_MODULES",
    "QUORUM",
    "STRATEGIES",
    "STREAM",
    "STREAM_FILTER_BYTES_MAX",
    "STREAM_FILTER_BYTES_MIN",
    "STREAM_SEGMENT_BYTES_MAX",
    "SUPPORTED_QUEUE_TYPES",
    "TYPES_BY_KEY",
    "ArgumentRule",
    "check_not_negative",
    "integer_value",
    "is_max_age",
    "max_age_ms",
    "not_integer",
    "text_value",
]

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"

SUPPORTED_QUEUE_TYPES: Final = frozenset({CLASSIC, QUORUM, STREAM})
"""The types that can be declared."""

QUEUE_TYPE_MODULES: Final[dict[str, str]] = {
    CLASSIC: "rabbit_classic_queue",
    QUORUM: "rabbit_quorum_queue",
    STREAM: "rabbit_stream_queue",
}
"""What RabbitMQ calls each type in its texts (rule Q-23)."""

EXPIRY_MS_MAX: Final = 315_360_000_000
"""Ten years of 365 days: the longest x-expires and x-message-ttl (rule Q-25)."""

PRIORITY_MAX: Final = 255
STREAM_SEGMENT_BYTES_MAX: Final = 3_000_000_000
STREAM_FILTER_BYTES_MIN: Final = 16
STREAM_FILTER_BYTES_MAX: Final = 255

OVERFLOWS: Final = frozenset({"drop-head", "reject-publish", "reject-publish-dlx"})
STRATEGIES: Final = frozenset({"at-most-once", "at-least-once"})

_INTEGER_KINDS: Final = frozenset("bBsuIilL")
_LOCATORS: Final = frozenset(
    {"client-local", "balanced", "random", "least-leaders", "min-masters"},
)
_DAY_MS: Final = 86_400_000
_UNITS_MS: Final[dict[str, int]] = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
}
AGE_DIGITS_MAX: Final = 18
_MAX_AGE: Final = re.compile(r"0*[1-9][0-9]*[YMDhms]", re.ASCII)


class ArgumentRule(NamedTuple):
    """One row: an argument, the types of queue that know it, and what it may hold.

    ``check`` gets the value and all arguments; it returns the fault as an Erlang term, or "".
    """

    key: str
    queue_types: frozenset[str]
    check: Callable[[Field, Arguments], str]


def integer_value(field: Field | None) -> int | None:
    """The number in a field of any integer type; None for other types and for no field."""
    if field is not None and field.kind in _INTEGER_KINDS and isinstance(field.value, int):
        return field.value

    return None


def text_value(field: Field | None) -> str | None:
    """The text in a long string; None for other types and for no field."""
    if field is not None and field.kind == "S" and isinstance(field.value, str):
        return field.value

    return None


def not_integer(field: Field) -> str:
    """The fault of a value that is no integer, with the name of its type."""
    return erl_string(f"expected integer, got {TYPE_NAMES[field.kind]}")


def _unacceptable_type(field: Field) -> str:
    return erl_tuple("unacceptable_type", TYPE_NAMES[field.kind])


def _accept_any(_field: Field, _arguments: Arguments) -> str:
    return ""


def check_not_negative(field: Field, _arguments: Arguments) -> str:
    """The fault of a value that is no integer, or a negative one."""
    value = integer_value(field)
    if value is None:
        return not_integer(field)

    return erl_tuple("value_negative", str(value)) if value < 0 else ""


def _check_positive(field: Field, arguments: Arguments) -> str:
    if integer_value(field) == 0:
        return erl_tuple("value_zero", "0")

    return check_not_negative(field, arguments)


def _check_message_ttl(field: Field, arguments: Arguments) -> str:
    value = integer_value(field)
    if value is not None and value > EXPIRY_MS_MAX:
        return erl_tuple("value_too_large", str(value))

    return check_not_negative(field, arguments)


def _check_expires(field: Field, arguments: Arguments) -> str:
    return _check_message_ttl(field, arguments) or _check_positive(field, arguments)


def _check_priority(field: Field, arguments: Arguments) -> str:
    value = integer_value(field)
    if value is not None and value > PRIORITY_MAX:
        return erl_tuple("max_value_exceeded", str(value))

    return check_not_negative(field, arguments)


def _check_queue_version(field: Field, arguments: Arguments) -> str:
    # RabbitMQ 4.3 refuses 1, every release before it takes both; so do we.
    value = integer_value(field)
    if value is None or value < 0:
        return check_not_negative(field, arguments)

    return "" if value in (1, 2) else erl_string(f"unsupported queue version '{value}'")


def _check_text(field: Field, _arguments: Arguments) -> str:
    return "" if field.kind == "S" else _unacceptable_type(field)


def _check_dead_letter_routing_key(field: Field, arguments: Arguments) -> str:
    fault = _check_text(field, arguments)
    if not fault and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"

    # RabbitMQ takes it, and ends the connections of those who get a dead letter of it with 541.
    key = text_value(field)
    if key is not None and not fits_short_string(key):
        return erl_string(f"longer than {SHORT_STRING_BYTES_MAX} bytes")

    return fault


def _check_boolean(field: Field, _arguments: Arguments) -> str:
    return "" if field.kind == "t" else _unacceptable_type(field)


def _check_queue_type(field: Field, arguments: Arguments) -> str:
    value = text_value(field)
    if value is None:
        return _check_text(field, arguments)

    # RabbitMQ [4.3]: an empty name is no type at all.
    if value == "" or value in SUPPORTED_QUEUE_TYPES:
        return ""

    return erl_string(f"unsupported queue type '{raw_text(field)}'")


def _check_overflow(field: Field, _arguments: Arguments) -> str:
    return _one_of(field, OVERFLOWS, "invalid_overflow")


def _check_strategy(field: Field, _arguments: Arguments) -> str:
    return _one_of(field, STRATEGIES, "invalid_dlx_strategy")


def _check_locator(field: Field, _arguments: Arguments) -> str:
    return _one_of(field, _LOCATORS, "invalid_queue_locator_arg")


def _one_of(field: Field, choices: frozenset[str], fault: str) -> str:
    value = text_value(field)
    if value is None:
        return _unacceptable_type(field)

    return "" if value in choices else fault


def is_max_age(text: str) -> bool:
    """Whether this is a length of time as streams take it: ``7D``, ``12h``, ``30s``, never zero."""
    return _MAX_AGE.fullmatch(text) is not None


def max_age_ms(text: str) -> int:
    """The milliseconds of what `is_max_age` has let pass."""
    digits = text[:-1].lstrip("0")
    # Of thousands of digits int() makes an error; so many years are for ever anyhow.
    return int(digits[:AGE_DIGITS_MAX]) * _UNITS_MS[text[-1]]


def _check_max_age(field: Field, _arguments: Arguments) -> str:
    value = text_value(field)
    if value is None:
        return _unacceptable_type(field)

    return "" if is_max_age(value) else "invalid_max_age"


_OF_CLASSIC: Final = frozenset({CLASSIC})
_OF_QUORUM: Final = frozenset({QUORUM})
_OF_STREAM: Final = frozenset({STREAM})
_OF_BOTH: Final = frozenset({CLASSIC, QUORUM})
_OF_LOGS: Final = frozenset({QUORUM, STREAM})
_OF_ALL: Final = frozenset({CLASSIC, QUORUM, STREAM})

# In the order of rule Q-26. x-delivery-limit and x-delayed-retry-* hold anything (rules QQ-02,
# QQ-09), as does x-queue-master-locator (rule Q-29a). The last one is not RabbitMQ's.
ARGUMENT_RULES: Final[tuple[ArgumentRule, ...]] = (
    ArgumentRule("x-queue-type", _OF_ALL, _check_queue_type),
    ArgumentRule("x-expires", _OF_BOTH, _check_expires),
    ArgumentRule("x-message-ttl", _OF_BOTH, _check_message_ttl),
    ArgumentRule("x-dead-letter-exchange", _OF_BOTH, _check_text),
    ArgumentRule("x-dead-letter-routing-key", _OF_BOTH, _check_dead_letter_routing_key),
    ArgumentRule("x-dead-letter-strategy", _OF_QUORUM, _check_strategy),
    ArgumentRule("x-max-length", _OF_BOTH, check_not_negative),
    ArgumentRule("x-max-length-bytes", _OF_ALL, check_not_negative),
    ArgumentRule("x-max-in-memory-length", _OF_QUORUM, check_not_negative),
    ArgumentRule("x-max-in-memory-bytes", _OF_QUORUM, check_not_negative),
    ArgumentRule("x-max-priority", _OF_CLASSIC, _check_priority),
    ArgumentRule("x-overflow", _OF_BOTH, _check_overflow),
    # RabbitMQ [4.3]: x-queue-mode holds anything and means nothing.
    ArgumentRule("x-queue-mode", _OF_CLASSIC, _accept_any),
    ArgumentRule("x-queue-version", _OF_CLASSIC, _check_queue_version),
    ArgumentRule("x-single-active-consumer", _OF_BOTH, _check_boolean),
    # RabbitMQ [3.12..4.2] times the consumers of classic queues too; 4.3 refuses it there.
    ArgumentRule("x-consumer-timeout", _OF_BOTH, check_not_negative),
    ArgumentRule("x-consumer-disconnected-timeout", _OF_QUORUM, check_not_negative),
    ArgumentRule("x-quorum-initial-group-size", _OF_QUORUM, _check_positive),
    ArgumentRule("x-max-age", _OF_STREAM, _check_max_age),
    ArgumentRule("x-stream-max-segment-size-bytes", _OF_STREAM, check_not_negative),
    ArgumentRule("x-stream-filter-size-bytes", _OF_STREAM, check_not_negative),
    ArgumentRule("x-initial-cluster-size", _OF_STREAM, _check_positive),
    ArgumentRule("x-queue-leader-locator", _OF_ALL, _check_locator),
    ArgumentRule("x-queue-master-locator", _OF_CLASSIC, _accept_any),
    ArgumentRule("x-delivery-limit", _OF_QUORUM, _accept_any),
    ArgumentRule("x-delayed-retry-type", _OF_QUORUM, _accept_any),
    ArgumentRule("x-delayed-retry-min", _OF_QUORUM, _accept_any),
    ArgumentRule("x-delayed-retry-max", _OF_QUORUM, _accept_any),
    ArgumentRule("x-ttl-anywhere", _OF_BOTH, _check_boolean),
)

TYPES_BY_KEY: Final[dict[str, frozenset[str]]] = {
    rule.key: rule.queue_types for rule in ARGUMENT_RULES
}

CONSUME_TYPES_BY_KEY: Final[dict[str, frozenset[str]]] = {
    "x-priority": _OF_BOTH,
    "x-consumer-timeout": _OF_QUORUM,
    "x-stream-offset": _OF_STREAM,
    "x-stream-filter": _OF_STREAM,
    "x-stream-match-unfiltered": _OF_STREAM,
}
"""Rule CO-08; what is not here is ignored."""
