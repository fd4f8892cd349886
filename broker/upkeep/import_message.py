"""A message out of a JSON line into its queue. Layer: rim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.dead_letter import Death, DeathHistory
from broker.core.exchange.delayed import DelayedExchange, delay_of
from broker.core.exchange_commands import exchange_named
from broker.core.message import NO_TTL, Address, Message, build_content
from broker.core.queue.quorum import QuorumQueue
from broker.core.queue.stream import StreamQueue
from broker.core.queue_commands import queue_named
from broker.errors import PreconditionFailed
from broker.limits import SHORT_STRING_BYTES_MAX
from broker.upkeep.typed_json import decode_base64, properties_from_json
from broker.wire.properties import parse_properties
from broker.wire.tables import encode_field

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.upkeep.fields import Fields

__all__ = ["import_message"]


class _Stored:
    """A message as its line tells it.

    Attributes:
        message: itself.
        deadline_ms: when its time is over, in milliseconds since 1970; None is never.
        returns: how often it was given back.
        ready_at_ms: when it is ready again; 0 is at once.
        offset: in a stream.
        came_ms: to the stream.

    """

    def __init__(self, fields: Fields) -> None:
        address = Address(
            _short(fields, "exchange"),
            _short(fields, "routing_key"),
            fields.texts("cc"),
            fields.texts("bcc"),
            _history(fields),
        )
        raw = _raw_properties(fields)
        properties = parse_properties(raw)
        body = _body(fields)
        self.message = Message(
            address,
            build_content(raw, body),
            len(body),
            properties.is_persistent,
            properties.priority,
        )
        self.delay_ms = delay_of(properties)
        self.message.redelivered = fields.flag("redelivered", default=False)
        self.deadline_ms = fields.number("deadline_ms")
        self.returns = fields.number("delivery_count") or 0
        self.ready_at_ms = fields.number("ready_at_ms") or 0
        self.offset = fields.number("offset")
        self.came_ms = fields.number("came_ms")


def import_message(vhost: VirtualHost, fields: Fields) -> None:
    """Put a message where it was.

    Raises:
        AMQPError: its queue is not there, or refuses it.
        ValueError: a field is wrong.

    """
    stored = _Stored(fields)
    if fields.has("delayed_by"):
        exchange = exchange_named(vhost, fields.text("delayed_by"))
        fields.finish()
        if not isinstance(exchange, DelayedExchange) or not stored.delay_ms:
            raise ValueError(f"message.delayed_by: '{exchange.name}' does not delay this message")

        _delay(vhost, exchange, stored)
        return

    queue = queue_named(vhost, fields.text("queue"))
    fields.finish()
    if not (stored.message.is_persistent or queue.keeps_all):
        raise ValueError(f"the message is not persistent: it could not stay in '{queue.name}'")

    if isinstance(queue, StreamQueue):
        _append(vhost, queue, stored)
    elif isinstance(queue, QuorumQueue) and (stored.returns or stored.ready_at_ms):
        stored.message.deadline_ms = stored.deadline_ms or 0
        queue.take_returned(stored.message, stored.returns, stored.ready_at_ms)
    else:
        _enqueue(vhost, queue, stored)


def _enqueue(vhost: VirtualHost, queue: Queue, stored: _Stored) -> None:
    ttl_ms = NO_TTL
    if stored.deadline_ms is not None:
        ttl_ms = max(0, stored.deadline_ms - int(vhost.deadlines.wall_ms))

    if not queue.enqueue(stored.message, ttl_ms):
        raise PreconditionFailed(f"queue '{queue.name}' is full, and refuses the message")


def _append(vhost: VirtualHost, stream: StreamQueue, stored: _Stored) -> None:
    """To a stream: with the time when it came, and the offset, if it is the first."""
    deadlines = vhost.deadlines
    if stream.log.next_offset == 0 and stored.offset:
        stream.log.begin_at(stored.offset)

    now_ms = deadlines.now_ms
    if stored.came_ms is not None:
        deadlines.now_ms = min(int(now_ms), stored.came_ms - int(deadlines.wall_offset_ms))

    try:
        stream.enqueue(stored.message, NO_TTL)
    finally:
        deadlines.now_ms = now_ms


def _delay(vhost: VirtualHost, exchange: DelayedExchange, stored: _Stored) -> None:
    """To an exchange that delays: at the time when it came, it is due when it was."""
    deadlines = vhost.deadlines
    now_ms = deadlines.now_ms
    if stored.deadline_ms is not None:
        came_ms = stored.deadline_ms - stored.delay_ms
        deadlines.now_ms = max(0, came_ms - int(deadlines.wall_offset_ms))

    try:
        exchange.keep(stored.message, is_returned=False)
    finally:
        deadlines.now_ms = now_ms


def _short(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if len(text.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"message.{name}: longer than {SHORT_STRING_BYTES_MAX} bytes")

    return text


def _raw_properties(fields: Fields) -> bytes:
    """The properties as they were, or else as they are told by name."""
    if fields.has("properties_base64"):
        fields.ignore("properties")
        return _bytes(fields, "properties_base64")

    return properties_from_json(fields.raw("properties") if fields.has("properties") else {})


def _body(fields: Fields) -> bytes:
    if fields.has("body_base64"):
        return _bytes(fields, "body_base64")

    return fields.text("body").encode("utf-8", "surrogateescape")


def _bytes(fields: Fields, name: str) -> bytes:
    try:
        return decode_base64(fields.raw(name))
    except ValueError as problem:
        raise ValueError(f"message.{name}: {problem}") from None


def _history(fields: Fields) -> DeathHistory | None:
    if not fields.has("deaths"):
        return None

    deaths = fields.inner("deaths")
    entries = [_death(one) for one in deaths.items("all")]
    first = _death(deaths.inner("first"))
    deaths.finish()
    if not entries:
        raise ValueError("message.deaths.all: expected one death at least")

    for entry in entries:
        if (entry.queue, entry.reason) == (first.queue, first.reason):
            first = entry

    return DeathHistory(entries, [encode_field(one.to_field()) for one in entries], first)


def _death(fields: Fields) -> Death:
    expiration = fields.text("original_expiration") if fields.has("original_expiration") else None
    death = Death(
        fields.text("queue"),
        fields.text("reason"),
        exchange=fields.text("exchange"),
        routing_keys=fields.texts("routing_keys") or [],
        time_s=fields.number("time_s") or 0,
        original_expiration=expiration,
        times=fields.number("times") or 1,
    )
    fields.finish()
    return death
