"""The arguments of queue.declare and basic.consume: which there are, for which type of queue, and
what each may hold (layer: core; rules Q-20..Q-28, CO-08).

One table, :data:`ARGUMENT_RULES`, says it all, in the order in which RabbitMQ looks at the
arguments, so that of several bad ones the same is reported. A new type of queue joins by being
named in the rows it knows, in :data:`QUEUE_TYPE_MODULES` and in :data:`SUPPORTED_QUEUE_TYPES`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.erlterm import erl_string, erl_tuple, raw_text, resource_text
from broker.errors import PreconditionFailed
from broker.wire.tables import TYPE_NAMES, Arguments, Field

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARGUMENT_RULES",
    "CLASSIC",
    "QUEUE_TYPE_MODULES",
    "QUORUM",
    "STREAM",
    "SUPPORTED_QUEUE_TYPES",
    "ArgumentRule",
    "QueueSettings",
    "check_queue_properties",
    "check_server_named",
    "consumer_priority_of",
    "dead_letter_exchange_of",
    "exchange_name_argument",
    "integer_value",
    "requested_queue_type",
    "validate_arguments",
]

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"

SUPPORTED_QUEUE_TYPES: Final = frozenset({CLASSIC})
"""The types that can be declared; the others are known only to the tables below."""

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

_INTEGER_KINDS: Final = frozenset("bBsuIilL")
_OVERFLOWS: Final = frozenset({"drop-head", "reject-publish", "reject-publish-dlx"})
_STRATEGIES: Final = frozenset({"at-most-once", "at-least-once"})
_LOCATORS: Final = frozenset(
    {"client-local", "balanced", "random", "least-leaders", "min-masters"},
)
_MAX_AGE: Final = re.compile(r"0*[1-9][0-9]*[YMDhms]", re.ASCII)


class QueueSettings:
    """What a queue does beyond holding messages; None (or False) where nothing was asked for.

    Attributes:
        message_ttl_ms: time to live of each message from its enqueuing on.
        expires_ms: how long the queue lives unused.
        length_max: most ready messages.
        length_bytes_max: most bytes in the bodies of ready messages.
        overflow: ``drop-head``, ``reject-publish`` or ``reject-publish-dlx``; None is drop-head.
        dead_letter_exchange: ``""`` is the default exchange, None no dead-lettering.
        dead_letter_routing_key: replaces a dead message's own keys.
        priority_max: highest priority level; 0 is asked for and not the same as None (rule Q-90).
        single_active_consumer: one consumer at a time gets messages.
        consumer_timeout_ms: longest time a delivery may stay unsettled.

    """

    __slots__ = (
        "consumer_timeout_ms",
        "dead_letter_exchange",
        "dead_letter_routing_key",
        "expires_ms",
        "length_bytes_max",
        "length_max",
        "message_ttl_ms",
        "overflow",
        "priority_max",
        "single_active_consumer",
    )

    def __init__(self) -> None:
        self.message_ttl_ms: int | None = None
        self.expires_ms: int | None = None
        self.length_max: int | None = None
        self.length_bytes_max: int | None = None
        self.overflow: str | None = None
        self.dead_letter_exchange: str | None = None
        self.dead_letter_routing_key: str | None = None
        self.priority_max: int | None = None
        self.single_active_consumer: bool = False
        self.consumer_timeout_ms: int | None = None

    def copy(self) -> QueueSettings:
        """An independent settings object with the same values."""
        twin = QueueSettings()
        twin.message_ttl_ms = self.message_ttl_ms
        twin.expires_ms = self.expires_ms
        twin.length_max = self.length_max
        twin.length_bytes_max = self.length_bytes_max
        twin.overflow = self.overflow
        twin.dead_letter_exchange = self.dead_letter_exchange
        twin.dead_letter_routing_key = self.dead_letter_routing_key
        twin.priority_max = self.priority_max
        twin.single_active_consumer = self.single_active_consumer
        twin.consumer_timeout_ms = self.consumer_timeout_ms
        return twin


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


def _text_value(field: Field | None) -> str | None:
    if field is not None and field.kind == "S" and isinstance(field.value, str):
        return field.value

    return None


def _not_integer(field: Field) -> str:
    return erl_string(f"expected integer, got {TYPE_NAMES[field.kind]}")


def _unacceptable_type(field: Field) -> str:
    return erl_tuple("unacceptable_type", TYPE_NAMES[field.kind])


def _accept_any(_field: Field, _arguments: Arguments) -> str:
    return ""


def _check_not_negative(field: Field, _arguments: Arguments) -> str:
    value = integer_value(field)
    if value is None:
        return _not_integer(field)

    return erl_tuple("value_negative", str(value)) if value < 0 else ""


def _check_positive(field: Field, arguments: Arguments) -> str:
    if integer_value(field) == 0:
        return erl_tuple("value_zero", "0")

    return _check_not_negative(field, arguments)


def _check_message_ttl(field: Field, arguments: Arguments) -> str:
    value = integer_value(field)
    if value is not None and value > EXPIRY_MS_MAX:
        return erl_tuple("value_too_large", str(value))

    return _check_not_negative(field, arguments)


def _check_expires(field: Field, arguments: Arguments) -> str:
    return _check_message_ttl(field, arguments) or _check_positive(field, arguments)


def _check_priority(field: Field, arguments: Arguments) -> str:
    value = integer_value(field)
    if value is not None and value > PRIORITY_MAX:
        return erl_tuple("max_value_exceeded", str(value))

    return _check_not_negative(field, arguments)


def _check_queue_version(field: Field, arguments: Arguments) -> str:
    # RabbitMQ 4.3 refuses 1, every release before it takes both; so do we.
    value = integer_value(field)
    if value is None or value < 0:
        return _check_not_negative(field, arguments)

    return "" if value in (1, 2) else erl_string(f"unsupported queue version '{value}'")


def _check_text(field: Field, _arguments: Arguments) -> str:
    return "" if field.kind == "S" else _unacceptable_type(field)


def _check_dead_letter_routing_key(field: Field, arguments: Arguments) -> str:
    fault = _check_text(field, arguments)
    if not fault and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"

    return fault


def _check_boolean(field: Field, _arguments: Arguments) -> str:
    return "" if field.kind == "t" else _unacceptable_type(field)


def _check_queue_type(field: Field, arguments: Arguments) -> str:
    value = _text_value(field)
    if value is None:
        return _check_text(field, arguments)

    # RabbitMQ [4.3]: an empty name is no type at all.
    if value == "" or value in SUPPORTED_QUEUE_TYPES:
        return ""

    return erl_string(f"unsupported queue type '{raw_text(field)}'")


def _check_overflow(field: Field, _arguments: Arguments) -> str:
    return _one_of(field, _OVERFLOWS, "invalid_overflow")


def _check_strategy(field: Field, _arguments: Arguments) -> str:
    return _one_of(field, _STRATEGIES, "invalid_dlx_strategy")


def _check_locator(field: Field, _arguments: Arguments) -> str:
    return _one_of(field, _LOCATORS, "invalid_queue_locator_arg")


def _one_of(field: Field, choices: frozenset[str], fault: str) -> str:
    value = _text_value(field)
    if value is None:
        return _unacceptable_type(field)

    return "" if value in choices else fault


def _check_max_age(field: Field, _arguments: Arguments) -> str:
    value = _text_value(field)
    if value is None:
        return _unacceptable_type(field)

    return "" if _MAX_AGE.fullmatch(value) else "invalid_max_age"


_OF_CLASSIC: Final = frozenset({CLASSIC})
_OF_QUORUM: Final = frozenset({QUORUM})
_OF_STREAM: Final = frozenset({STREAM})
_OF_BOTH: Final = frozenset({CLASSIC, QUORUM})
_OF_LOGS: Final = frozenset({QUORUM, STREAM})
_OF_ALL: Final = frozenset({CLASSIC, QUORUM, STREAM})

# In the order of rule Q-26. The last ones hold anything (rules QQ-02, QQ-09, Q-29a).
ARGUMENT_RULES: Final[tuple[ArgumentRule, ...]] = (
    ArgumentRule("x-queue-type", _OF_ALL, _check_queue_type),
    ArgumentRule("x-expires", _OF_BOTH, _check_expires),
    ArgumentRule("x-message-ttl", _OF_BOTH, _check_message_ttl),
    ArgumentRule("x-dead-letter-exchange", _OF_BOTH, _check_text),
    ArgumentRule("x-dead-letter-routing-key", _OF_BOTH, _check_dead_letter_routing_key),
    ArgumentRule("x-dead-letter-strategy", _OF_QUORUM, _check_strategy),
    ArgumentRule("x-max-length", _OF_BOTH, _check_not_negative),
    ArgumentRule("x-max-length-bytes", _OF_ALL, _check_not_negative),
    ArgumentRule("x-max-in-memory-length", _OF_QUORUM, _check_not_negative),
    ArgumentRule("x-max-in-memory-bytes", _OF_QUORUM, _check_not_negative),
    ArgumentRule("x-max-priority", _OF_CLASSIC, _check_priority),
    ArgumentRule("x-overflow", _OF_BOTH, _check_overflow),
    # RabbitMQ [4.3]: x-queue-mode holds anything and means nothing.
    ArgumentRule("x-queue-mode", _OF_CLASSIC, _accept_any),
    ArgumentRule("x-queue-version", _OF_CLASSIC, _check_queue_version),
    ArgumentRule("x-single-active-consumer", _OF_BOTH, _check_boolean),
    # RabbitMQ [3.12..4.2] times the consumers of classic queues too; 4.3 refuses it there.
    ArgumentRule("x-consumer-timeout", _OF_BOTH, _check_not_negative),
    ArgumentRule("x-consumer-disconnected-timeout", _OF_QUORUM, _check_not_negative),
    ArgumentRule("x-quorum-initial-group-size", _OF_QUORUM, _check_positive),
    ArgumentRule("x-max-age", _OF_STREAM, _check_max_age),
    ArgumentRule("x-stream-max-segment-size-bytes", _OF_STREAM, _check_not_negative),
    ArgumentRule("x-stream-filter-size-bytes", _OF_STREAM, _check_not_negative),
    ArgumentRule("x-initial-cluster-size", _OF_STREAM, _check_positive),
    ArgumentRule("x-queue-leader-locator", _OF_ALL, _check_locator),
    ArgumentRule("x-queue-master-locator", _OF_CLASSIC, _accept_any),
    ArgumentRule("x-delivery-limit", _OF_QUORUM, _accept_any),
    ArgumentRule("x-delayed-retry-type", _OF_QUORUM, _accept_any),
    ArgumentRule("x-delayed-retry-min", _OF_QUORUM, _accept_any),
    ArgumentRule("x-delayed-retry-max", _OF_QUORUM, _accept_any),
)

_TYPES_BY_KEY: Final[dict[str, frozenset[str]]] = {
    rule.key: rule.queue_types for rule in ARGUMENT_RULES
}

_CONSUME_TYPES_BY_KEY: Final[dict[str, frozenset[str]]] = {
    "x-priority": _OF_BOTH,
    "x-consumer-timeout": _OF_QUORUM,
    "x-stream-offset": _OF_STREAM,
    "x-stream-filter": _OF_STREAM,
    "x-stream-match-unfiltered": _OF_STREAM,
}
"""Rule CO-08; what is not here is ignored."""


def requested_queue_type(arguments: Arguments) -> str:
    """The type a declaration asks for, valid or not: classic when it names none (rule Q-13)."""
    return _text_value(arguments.get("x-queue-type")) or CLASSIC


def validate_arguments(
    queue_type: str, name: str, vhost_name: str, arguments: Arguments
) -> QueueSettings:
    """Check the arguments of a queue that is about to be made, and say what they ask for.

    Only for new queues: for an existing one the arguments are compared and nothing else
    (rule Q-11). The type of x-dead-letter-exchange is checked here once more, but permission on
    that exchange comes before everything else: see :func:`dead_letter_exchange_of`.

    Raises:
        PreconditionFailed: the first fault in RabbitMQ's order (rules Q-23..Q-27).

    """
    dead_letter_exchange_of(name, vhost_name, arguments)
    if arguments:
        _check_values(queue_type, name, vhost_name, arguments)
        _check_types(queue_type, name, vhost_name, arguments, _TYPES_BY_KEY)

    if queue_type == STREAM:
        _check_stream_sizes(arguments)

    return _settings_of(arguments)


def dead_letter_exchange_of(name: str, vhost_name: str, arguments: Arguments) -> str | None:
    """The dead letter exchange a queue's arguments name, checked before all else (rule Q-26)."""
    return exchange_name_argument(
        "x-dead-letter-exchange", resource_text("queue", name, vhost_name), arguments
    )


def exchange_name_argument(key: str, owner_text: str, arguments: Arguments) -> str | None:
    """The name of an exchange that an argument holds; ``owner_text`` says whose argument it is.

    Raises:
        PreconditionFailed: it is no long string (rules Q-25, E-24).

    """
    field = arguments.get(key)
    if field is None:
        return None

    value = _text_value(field)
    if value is None:
        kind = TYPE_NAMES[field.kind]
        raise PreconditionFailed(f"invalid type '{kind}' for arg '{key}' in {owner_text}")

    return value


def _check_values(queue_type: str, name: str, vhost_name: str, arguments: Arguments) -> None:
    for rule in ARGUMENT_RULES:
        field = arguments.get(rule.key)
        if field is None or queue_type not in rule.queue_types:
            continue

        fault = rule.check(field, arguments)
        if fault:
            raise _invalid_value(rule.key, name, vhost_name, fault)


def _check_types(
    queue_type: str,
    name: str,
    vhost_name: str,
    arguments: Arguments,
    types_by_key: dict[str, frozenset[str]],
) -> None:
    # RabbitMQ: the client's own order decides which of several is reported.
    for key in arguments:
        queue_types = types_by_key.get(key)
        if queue_types is not None and queue_type not in queue_types:
            owner = resource_text("queue", name, vhost_name)
            module = QUEUE_TYPE_MODULES.get(queue_type, queue_type)
            raise PreconditionFailed(f"invalid arg '{key}' for {owner} of queue type {module}")


def _invalid_value(key: str, name: str, vhost_name: str, fault: str) -> PreconditionFailed:
    owner = resource_text("queue", name, vhost_name)
    return PreconditionFailed(f"invalid arg '{key}' for {owner}: {fault}")


def _check_stream_sizes(arguments: Arguments) -> None:
    """Rule Q-27: the two limits of streams with texts of their own."""
    segment = integer_value(arguments.get("x-stream-max-segment-size-bytes"))
    if segment is not None and segment > STREAM_SEGMENT_BYTES_MAX:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")

    size = integer_value(arguments.get("x-stream-filter-size-bytes"))
    if size is not None and not STREAM_FILTER_BYTES_MIN <= size <= STREAM_FILTER_BYTES_MAX:
        raise PreconditionFailed("Invalid value for x-stream-filter-size-bytes")


def _settings_of(arguments: Arguments) -> QueueSettings:
    settings = QueueSettings()
    if not arguments:
        return settings

    settings.message_ttl_ms = integer_value(arguments.get("x-message-ttl"))
    settings.expires_ms = integer_value(arguments.get("x-expires"))
    settings.length_max = integer_value(arguments.get("x-max-length"))
    settings.length_bytes_max = integer_value(arguments.get("x-max-length-bytes"))
    settings.overflow = _text_value(arguments.get("x-overflow"))
    settings.dead_letter_exchange = _text_value(arguments.get("x-dead-letter-exchange"))
    settings.dead_letter_routing_key = _text_value(arguments.get("x-dead-letter-routing-key"))
    settings.priority_max = integer_value(arguments.get("x-max-priority"))
    settings.consumer_timeout_ms = integer_value(arguments.get("x-consumer-timeout"))
    active = arguments.get("x-single-active-consumer")
    settings.single_active_consumer = active is not None and active.value is True
    return settings


def check_server_named(queue_type: str) -> None:
    """Refuse to make up a name for a queue of a type that must have one (rule Q-02)."""
    if queue_type != CLASSIC and queue_type in QUEUE_TYPE_MODULES:
        module = QUEUE_TYPE_MODULES[queue_type]
        raise PreconditionFailed(f"Cannot declare a server-named queue for type {module}")


def check_queue_properties(
    queue_type: str,
    name: str,
    vhost_name: str,
    *,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
) -> None:
    """Refuse flags that quorum queues and streams do not have; after the arguments (rule Q-28)."""
    if queue_type == CLASSIC:
        return

    if auto_delete:
        wrong = "auto-delete"
    elif exclusive:
        wrong = "exclusive-owner"
    elif not durable:
        wrong = "non-durable"
    else:
        return

    owner = resource_text("queue", name, vhost_name)
    raise PreconditionFailed(f"invalid property '{wrong}' for {owner}")


def consumer_priority_of(queue_type: str, name: str, vhost_name: str, arguments: Arguments) -> int:
    """Check the arguments of basic.consume and return the consumer's priority (rule CO-08).

    Raises:
        PreconditionFailed: x-priority is no integer, or an argument is for another type of queue.

    """
    if not arguments:
        return 0

    field = arguments.get("x-priority")
    priority = 0
    if field is not None and queue_type != STREAM:
        value = integer_value(field)
        if value is None:
            raise _invalid_value("x-priority", name, vhost_name, _not_integer(field))

        priority = value

    _check_types(queue_type, name, vhost_name, arguments, _CONSUME_TYPES_BY_KEY)
    return priority
