"""Core: events of the broker as messages of the exchange ``amq.rabbitmq.event`` (rule E-134).

The exchange is there only where it was asked for, in the virtual host ``/``, and hears of all
virtual hosts. An event costs one look at an attribute where it is not there, and where nobody has
bound anything to it one more look. Only commands and logins have events: no message ever causes
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import Address, Message, build_content
from broker.core.outbox import Outbox
from broker.wire.properties import set_headers
from broker.wire.tables import Arguments, Field, table_from_plain

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.consumer import Consumer
    from broker.core.exchange.base import Exchange
    from broker.core.policy import Policy
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost

__all__ = ["ACTING_USER", "EVENT_EXCHANGE", "Events"]

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
ACTING_USER: Final = "user_who_performed_action"
"""The header that names who gave the command; absent where nobody did."""

PERSISTENT_FLAGS: Final = b"\x10\x40\x02"
"""delivery_mode 2 and a timestamp, which is still to come (rule X-02)."""

INT_MAX: Final = (1 << 31) - 1


class Events:
    """Tells of what happens, by way of an exchange.

    Args:
        home: the virtual host that has the exchange.

    """

    __slots__ = ("_deadlines", "_outbox", "by")

    def __init__(self, home: VirtualHost) -> None:
        self._deadlines = home.deadlines
        self._outbox = Outbox(home, EVENT_EXCHANGE)
        # Whose command is being carried out; empty for what the broker does by itself.
        self.by = ""

    def tell(self, key: str, **fields: object) -> None:
        """Tell of an event; text, numbers, booleans, arguments and tuples become headers."""
        if not self._outbox.is_heard():
            return

        now_ms = self._deadlines.wall_ms
        headers: Arguments = {name: _field_of(value) for name, value in fields.items()}
        if self.by and ACTING_USER not in headers:
            headers[ACTING_USER] = Field("S", self.by)

        headers["timestamp_in_ms"] = Field("l", now_ms)
        stamp = (now_ms // 1000).to_bytes(8, "big")
        content = build_content(set_headers(PERSISTENT_FLAGS + stamp, headers), b"")
        self._outbox.post(Message(Address(EVENT_EXCHANGE, key), content, 0, True, -1))

    def queue_created(self, queue: Queue) -> None:
        """A queue was declared."""
        if self._outbox.is_heard():
            self.tell(
                "queue.created",
                name=queue.name,
                vhost=queue.vhost.name,
                type=queue.type,
                durable=queue.durable,
                auto_delete=queue.auto_delete,
                exclusive=queue.exclusive_owner is not None,
                arguments=queue.arguments,
            )

    def queue_deleted(self, queue: Queue) -> None:
        """A queue is gone."""
        self.tell("queue.deleted", name=queue.name, vhost=queue.vhost.name)

    def exchange_created(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An exchange was declared."""
        if self._outbox.is_heard():
            self.tell(
                "exchange.created",
                name=exchange.name,
                vhost=vhost.name,
                type=exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=exchange.arguments,
            )

    def exchange_deleted(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An exchange is gone."""
        self.tell("exchange.deleted", name=exchange.name, vhost=vhost.name)

    def binding_created(self, vhost: VirtualHost, binding: Binding) -> None:
        """A binding was made."""
        self._tell_of_binding("binding.created", vhost, binding)

    def bindings_deleted(self, vhost: VirtualHost, bindings: list[Binding]) -> None:
        """Bindings are gone, for whatever reason."""
        for binding in bindings:
            self._tell_of_binding("binding.deleted", vhost, binding)

    def _tell_of_binding(self, key: str, vhost: VirtualHost, binding: Binding) -> None:
        if self._outbox.is_heard():
            self.tell(
                key,
                vhost=vhost.name,
                source_name=binding.source.name,
                source_kind="exchange",
                destination_name=binding.destination.name,
                destination_kind=_kind_of(binding.destination),
                routing_key=binding.routing_key,
                arguments=binding.arguments,
            )

    def consumer_created(self, queue: Queue, consumer: Consumer) -> None:
        """A consumer has begun."""
        if self._outbox.is_heard():
            self.tell(
                "consumer.created",
                vhost=queue.vhost.name,
                queue=queue.name,
                consumer_tag=consumer.tag,
                exclusive=consumer.exclusive,
                ack_required=not consumer.no_ack,
                prefetch_count=int(consumer.prefetch),
                arguments=consumer.arguments,
            )

    def consumer_deleted(self, queue: Queue, consumer: Consumer) -> None:
        """A consumer was cancelled, or its channel or queue is gone."""
        vhost_name = queue.vhost.name
        self.tell("consumer.deleted", vhost=vhost_name, queue=queue.name, consumer_tag=consumer.tag)

    def queue_policy_changed(self, queue: Queue) -> None:
        """Policies that govern a queue are others now, or none."""
        if self._outbox.is_heard():
            definition = table_from_plain(queue.policy_definition)
            self.tell(
                "queue.policy.updated" if definition else "queue.policy.cleared",
                name=queue.name,
                vhost=queue.vhost.name,
                type=queue.type,
                definition=definition,
            )

    def policy_set(self, vhost: VirtualHost, policy: Policy, *, is_operator: bool) -> None:
        """A policy was set or replaced."""
        self.tell(
            "policy.set",
            vhost=vhost.name,
            name=policy.name,
            pattern=policy.pattern,
            apply_to=policy.apply_to,
            priority=policy.priority,
            operator=is_operator,
        )

    def policy_cleared(self, vhost: VirtualHost, name: str, *, is_operator: bool) -> None:
        """A policy was removed."""
        self.tell("policy.cleared", vhost=vhost.name, name=name, operator=is_operator)


def _kind_of(destination: Destination) -> str:
    return "queue" if destination.is_queue else "exchange"


def _field_of(value: object) -> Field:
    if isinstance(value, bool):
        return Field("t", value)
    if isinstance(value, int):
        return Field("I" if abs(value) <= INT_MAX else "l", value)
    if isinstance(value, dict):
        return Field("F", value)
    if isinstance(value, tuple):
        return Field("A", [_field_of(one) for one in value])

    return Field("S", str(value))
