"""Whether a second declaration of a queue or an exchange means the same as the first (layer: core;
rules Q-10..Q-16, E-22, E-23, T-13, T-14).

Only what matters to the type is compared; other arguments are neither compared nor changed. Values
are never validated here: a value that a new queue could not have is just an unequal one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.core.erlterm import erl_atom, raw_text, resource_text
from broker.core.queue.argument_rules import is_max_age, max_age_ms, text_value
from broker.core.queue.arguments import CLASSIC, QUORUM, STREAM, exchange_name_argument
from broker.errors import PreconditionFailed
from broker.wire.tables import TYPE_NAMES, Arguments, Field, fields_equal_for_headers

__all__ = [
    "EQUIVALENCE_KEYS",
    "ExchangeTraits",
    "QueueTraits",
    "alternate_exchange_of",
    "check_exchange_equivalence",
    "check_queue_equivalence",
]

EQUIVALENCE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    # Rule Q-20; x-queue-leader-locator counts in 4.3 only.
    CLASSIC: (
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-ttl-anywhere",
    ),
    # Rule Q-21.
    QUORUM: (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
        "x-consumer-timeout",
        "x-consumer-disconnected-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
        "x-ttl-anywhere",
    ),
    # Rule Q-22.
    STREAM: (
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
}
"""The arguments that are compared for each type of queue, in the order they are."""


class QueueTraits(NamedTuple):
    """What of a queue declaration is compared.

    Attributes:
        durable: False for exclusive queues whatever was asked for (rule Q-07).
        auto_delete: as declared.
        arguments: all of them, as declared.
        queue_type: of the queue that exists; it selects the arguments to compare.

    """

    durable: bool
    auto_delete: bool
    arguments: Arguments
    queue_type: str = CLASSIC


class ExchangeTraits(NamedTuple):
    """What of an exchange declaration is compared."""

    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments


def check_queue_equivalence(
    name: str, vhost_name: str, current: QueueTraits, received: QueueTraits
) -> None:
    """Compare a declaration with the queue that exists (rules Q-10..Q-14).

    The owner of an exclusive queue has to be checked before (rule Q-31).

    Raises:
        PreconditionFailed: naming the first difference (rule Q-11).

    """
    owner = resource_text("queue", name, vhost_name)
    _check_flag("durable", owner, current.durable, received.durable)
    _check_flag("auto_delete", owner, current.auto_delete, received.auto_delete)
    if not current.arguments and not received.arguments:
        return

    for key in EQUIVALENCE_KEYS.get(current.queue_type, ()):
        old = current.arguments.get(key)
        new = received.arguments.get(key)
        if key == "x-queue-type":
            # Rule Q-13 [4.3]: absent is classic, on both sides and in the text.
            old = _queue_type_field(old)
            new = _queue_type_field(new)
        elif key == "x-max-age":
            old = _max_age_field(old)
            new = _max_age_field(new)

        _check_argument(key, owner, old, new)


def check_exchange_equivalence(
    name: str, vhost_name: str, current: ExchangeTraits, received: ExchangeTraits
) -> None:
    """Compare a declaration with the exchange that exists (rules E-22, E-23).

    Raises:
        PreconditionFailed: naming the first difference.

    """
    owner = resource_text("exchange", name, vhost_name)
    if current.type != received.type:
        # RabbitMQ: types are atoms, so x-local-random comes in quotes within the quotes.
        old_type = f"'{erl_atom(current.type)}'"
        new_type = f"'{erl_atom(received.type)}'"
        raise _inequivalent("type", owner, old_type, new_type)

    _check_flag("durable", owner, current.durable, received.durable)
    _check_flag("auto_delete", owner, current.auto_delete, received.auto_delete)
    _check_flag("internal", owner, current.internal, received.internal)
    _check_argument(
        "alternate-exchange",
        owner,
        current.arguments.get("alternate-exchange"),
        received.arguments.get("alternate-exchange"),
    )


def alternate_exchange_of(name: str, vhost_name: str, arguments: Arguments) -> str | None:
    """The alternate exchange that a new exchange's arguments name (rules E-24, E-25).

    Raises:
        PreconditionFailed: it is no long string.

    """
    owner = resource_text("exchange", name, vhost_name)
    return exchange_name_argument("alternate-exchange", owner, arguments)


def _queue_type_field(field: Field | None) -> Field:
    # RabbitMQ takes "" for no type when it makes a queue but for another one afterwards; here it
    # is no type both times.
    if field is None or field.value == "":
        return Field("S", CLASSIC)

    return field


def _max_age_field(field: Field | None) -> Field | None:
    """RabbitMQ [4.3]: milliseconds, in the text too; what is no age is left as it is (Q-13)."""
    text = text_value(field)
    if text is None or not is_max_age(text):
        return field

    return Field("S", str(max_age_ms(text)))


def _check_flag(key: str, owner: str, current: bool, received: bool) -> None:
    if current != received:
        raise _inequivalent(
            key, owner, "'true'" if current else "'false'", "'true'" if received else "'false'"
        )


def _check_argument(key: str, owner: str, current: Field | None, received: Field | None) -> None:
    if current is None and received is None:
        return

    if current is not None and received is not None:
        # Rule Q-12. RabbitMQ compares bare values: what a headers exchange takes for equal is
        # equal here, timestamps and integers or binaries and long strings among it.
        if fields_equal_for_headers(current, received):
            return

        raise _inequivalent(key, owner, _value_text(current), _value_text(received))

    raise _inequivalent(key, owner, _typed_text(current), _typed_text(received))


def _value_text(field: Field) -> str:
    """Rule T-13. RabbitMQ: a void value reads like an absent one."""
    return "none" if field.value is None else f"'{raw_text(field)}'"


def _typed_text(field: Field | None) -> str:
    """Rule T-14: the one side that is there is shown with its type."""
    if field is None:
        return "none"

    return f"the value '{raw_text(field)}' of type '{TYPE_NAMES[field.kind]}'"


def _inequivalent(key: str, owner: str, current: str, received: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"inequivalent arg '{key}' for {owner}: received {received} but current is {current}"
    )
