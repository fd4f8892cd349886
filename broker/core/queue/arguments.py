"""Judging the arguments of queue.declare and basic.consume, and what they ask of a queue (layer:
core; rules Q-02, Q-23..Q-28, CO-08).

The rules themselves are data, in :mod:`broker.core.queue.argument_rules`.
"""

from __future__ import annotations

from broker.core.erlterm import erl_string, resource_text
from broker.core.queue.argument_rules import (
    ARGUMENT_RULES,
    CLASSIC,
    CONSUME_TYPES_BY_KEY,
    QUEUE_TYPE_MODULES,
    QUORUM,
    STREAM,
    STREAM_FILTER_BYTES_MAX,
    STREAM_FILTER_BYTES_MIN,
    STREAM_SEGMENT_BYTES_MAX,
    SUPPORTED_QUEUE_TYPES,
    TYPES_BY_KEY,
    check_not_negative,
    integer_value,
    max_age_ms,
    not_integer,
    text_value,
)
from broker.core.release import Release, deprecated
from broker.errors import InternalFault, PreconditionFailed
from broker.wire.tables import TYPE_NAMES, Arguments, Field

__all__ = [
    "CLASSIC",
    "QUEUE_TYPE_MODULES",
    "QUORUM",
    "STREAM",
    "SUPPORTED_QUEUE_TYPES",
    "QueueSettings",
    "check_for_release",
    "check_queue_properties",
    "check_server_named",
    "consumer_priority_of",
    "dead_letter_exchange_of",
    "exchange_name_argument",
    "requested_queue_type",
    "validate_arguments",
]


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
        ttl_anywhere: messages expire wherever they stand; None leaves it to a policy.
        delivery_limit: returns after which a quorum queue gives a message up; negative is no limit.
        dead_letter_strategy: ``at-most-once`` or ``at-least-once``.
        delayed_retry_type: ``all``, ``failed`` or ``returned`` ones wait before they are ready.
        delayed_retry_min_ms: how long, times the number of returns.
        delayed_retry_max_ms: how long at most.
        max_age_ms: how long a stream keeps a segment after its last message.
        segment_bytes_max: bytes with which a segment of a stream is full.

    """

    __slots__ = (
        "consumer_timeout_ms",
        "dead_letter_exchange",
        "dead_letter_routing_key",
        "dead_letter_strategy",
        "delayed_retry_max_ms",
        "delayed_retry_min_ms",
        "delayed_retry_type",
        "delivery_limit",
        "expires_ms",
        "length_bytes_max",
        "length_max",
        "max_age_ms",
        "message_ttl_ms",
        "overflow",
        "priority_max",
        "segment_bytes_max",
        "single_active_consumer",
        "ttl_anywhere",
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
        self.ttl_anywhere: bool | None = None
        self.delivery_limit: int | None = None
        self.dead_letter_strategy: str | None = None
        self.delayed_retry_type: str | None = None
        self.delayed_retry_min_ms: int | None = None
        self.delayed_retry_max_ms: int | None = None
        self.max_age_ms: int | None = None
        self.segment_bytes_max: int | None = None

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
        twin.ttl_anywhere = self.ttl_anywhere
        twin.delivery_limit = self.delivery_limit
        twin.dead_letter_strategy = self.dead_letter_strategy
        twin.delayed_retry_type = self.delayed_retry_type
        twin.delayed_retry_min_ms = self.delayed_retry_min_ms
        twin.delayed_retry_max_ms = self.delayed_retry_max_ms
        twin.max_age_ms = self.max_age_ms
        twin.segment_bytes_max = self.segment_bytes_max
        return twin


def requested_queue_type(arguments: Arguments) -> str:
    """The type a declaration asks for, valid or not: classic when it names none (rule Q-13)."""
    return text_value(arguments.get("x-queue-type")) or CLASSIC


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
        _check_types(queue_type, name, vhost_name, arguments, TYPES_BY_KEY)

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

    value = text_value(field)
    if value is None:
        kind = TYPE_NAMES[field.kind]
        raise PreconditionFailed(f"invalid type '{kind}' for arg '{key}' in {owner_text}")

    return value


def _check_values(queue_type: str, name: str, vhost_name: str, arguments: Arguments) -> None:
    for rule in ARGUMENT_RULES:
        field = arguments.get(rule.key)
        # A type that nobody knows is in no row, and must be told so all the same.
        if field is None or (queue_type not in rule.queue_types and rule.key != "x-queue-type"):
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


def check_for_release(
    release: Release, queue_type: str, name: str, vhost_name: str, arguments: Arguments
) -> None:
    """Refuse arguments of a classic queue that a release does not take.

    Raises:
        PreconditionFailed: rule Q-25.
        InternalFault: rule Q-29a.

    """
    if queue_type != CLASSIC or not arguments:
        return

    mode = arguments.get("x-queue-mode")
    if mode is not None and not release.takes_any_mode and mode.value not in ("default", "lazy"):
        fault = erl_string(f"unsupported queue mode '{mode.value}'")
        raise _invalid_value("x-queue-mode", name, vhost_name, fault)

    version = arguments.get("x-queue-version")
    if version is not None and not release.takes_first_version and version.value == 1:
        fault = erl_string("unsupported queue version '1'")
        raise _invalid_value("x-queue-version", name, vhost_name, fault)

    if "x-queue-master-locator" in arguments and not release.takes_master_locator:
        raise InternalFault(deprecated("queue_master_locator"))


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
    settings.overflow = text_value(arguments.get("x-overflow"))
    settings.dead_letter_exchange = text_value(arguments.get("x-dead-letter-exchange"))
    settings.dead_letter_routing_key = text_value(arguments.get("x-dead-letter-routing-key"))
    settings.priority_max = integer_value(arguments.get("x-max-priority"))
    settings.consumer_timeout_ms = integer_value(arguments.get("x-consumer-timeout"))
    settings.delivery_limit = integer_value(arguments.get("x-delivery-limit"))
    settings.dead_letter_strategy = text_value(arguments.get("x-dead-letter-strategy"))
    settings.delayed_retry_type = text_value(arguments.get("x-delayed-retry-type"))
    settings.delayed_retry_min_ms = integer_value(arguments.get("x-delayed-retry-min"))
    settings.delayed_retry_max_ms = integer_value(arguments.get("x-delayed-retry-max"))
    settings.single_active_consumer = _flag_value(arguments.get("x-single-active-consumer")) is True
    settings.ttl_anywhere = _flag_value(arguments.get("x-ttl-anywhere"))
    max_age = text_value(arguments.get("x-max-age"))
    settings.max_age_ms = None if max_age is None else max_age_ms(max_age)
    settings.segment_bytes_max = integer_value(arguments.get("x-stream-max-segment-size-bytes"))
    return settings


def _flag_value(field: Field | None) -> bool | None:
    """The boolean in a field; None for other types and for no field."""
    if field is not None and isinstance(field.value, bool):
        return field.value

    return None


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
        PreconditionFailed: x-priority or x-consumer-timeout cannot be that, or an argument is for
            another type of queue.

    """
    if not arguments:
        return 0

    field = arguments.get("x-priority")
    priority = 0
    if field is not None and queue_type != STREAM:
        value = integer_value(field)
        if value is None:
            raise _invalid_value("x-priority", name, vhost_name, not_integer(field))

        priority = value

    field = arguments.get("x-consumer-timeout")
    if field is not None and queue_type == QUORUM:
        fault = check_not_negative(field, arguments)
        if fault:
            raise _invalid_value("x-consumer-timeout", name, vhost_name, fault)

    _check_types(queue_type, name, vhost_name, arguments, CONSUME_TYPES_BY_KEY)
    return priority
