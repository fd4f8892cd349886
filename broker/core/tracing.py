"""Core: the firehose: a copy of every message that passes a virtual host (rule E-135).

While a virtual host is traced, each publish and each delivery goes, with headers that describe it,
to the exchange ``amq.rabbitmq.trace``. What concerns that exchange itself is not traced.

Off, it costs nothing (:mod:`broker.core.watcher`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.forwarding import keys_of
from broker.core.message import Address, Message, content_with_properties
from broker.core.outbox import Outbox, short_key
from broker.core.watcher import Watcher
from broker.wire.properties import parse_properties, set_headers
from broker.wire.tables import Arguments, Field, TableError

if TYPE_CHECKING:
    from broker.core.consumer import Consumer, Deliveries
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.wire.properties import Properties

__all__ = ["TRACE_EXCHANGE", "Tracer"]

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
NO_PROPERTIES: Final = b"\x00\x00"
INT_MAX: Final = (1 << 31) - 1


class Tracer(Watcher):
    """Traces one virtual host.

    Args:
        vhost: which.
        node_name: as the headers name the node.

    """

    __slots__ = ("_node_name", "_outbox", "_vhost")

    def __init__(self, vhost: VirtualHost, node_name: str) -> None:
        self._vhost = vhost
        self._node_name = node_name
        self._outbox = Outbox(vhost, TRACE_EXCHANGE)

    def published(
        self, message: Message, queues: list[Queue], deliveries: Deliveries, is_returned: bool
    ) -> None:
        """Tell of a publish that was routed, whether it reached anything or not."""
        routed = [Field("S", queue.name) for queue in queues]
        more: Arguments = {"routed_queues": Field("A", routed)}
        self._tell(f"publish.{message.address.exchange}", message, deliveries, more)

    def delivered(self, message: Message, consumer: Consumer, no_ack: bool) -> None:
        """Tell of a delivery, to a consumer or in answer to basic.get."""
        more: Arguments = {"redelivered": Field("I", int(message.redelivered))}
        self._tell(f"deliver.{consumer.queue.name}", message, consumer.deliveries, more)

    def _tell(self, key: str, message: Message, deliveries: Deliveries, more: Arguments) -> None:
        if message.address.exchange == TRACE_EXCHANGE or not self._outbox.is_heard():
            return

        headers = self._headers(message, deliveries)
        headers.update(more)
        raw = set_headers(NO_PROPERTIES, headers)
        if not _is_within_bounds(raw):
            # The headers of the message fill the room there is, or are nested as deep as may be.
            headers["properties"] = Field("F", _table_of(message.properties(), is_whole=False))
            raw = set_headers(NO_PROPERTIES, headers)

        content = content_with_properties(message.content, raw)
        address = Address(TRACE_EXCHANGE, short_key(key))
        self._outbox.post(Message(address, content, message.body_size, False, -1))

    def _headers(self, message: Message, deliveries: Deliveries) -> Arguments:
        actor = deliveries.actor
        user = actor.user if actor is not None else None
        connection_name = actor.connection_name if actor is not None else ""
        return {
            "exchange_name": Field("S", message.address.exchange),
            "routing_keys": Field("A", [Field("S", key) for key in keys_of(message)]),
            "properties": Field("F", _table_of(message.properties())),
            "node": Field("S", self._node_name),
            "vhost": Field("S", self._vhost.name),
            "connection": Field("S", connection_name),
            "channel": Field("I", int(deliveries.channel_id)),
            "user": Field("S", user.name if user is not None else ""),
        }


def _is_within_bounds(raw: bytes) -> bool:
    """Whether headers were set, and can be read again."""
    if raw == NO_PROPERTIES:
        return False

    try:
        parse_properties(raw)
    except TableError:
        return False

    return True


def _table_of(properties: Properties, *, is_whole: bool = True) -> Arguments:
    """Properties as a table; RabbitMQ: whole numbers are signed integers, whatever they were."""
    table: Arguments = {}
    for name, value in properties.to_plain().items():
        if name == "headers":
            if is_whole:
                table[name] = Field("F", properties.headers())
        elif isinstance(value, int):
            table[name] = _signed(value)
        else:
            table[name] = Field("S", value)

    return table


def _signed(value: int) -> Field:
    """The same bits with a sign: a timestamp has no other bound than its 64 bits."""
    if value <= INT_MAX:
        return Field("I", value)

    return Field("l", value - (1 << 64) if value >= 1 << 63 else value)
