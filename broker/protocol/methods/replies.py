"""What methods do when they name the reply queue instead of a queue (section DR)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.consumer import Consumer, ConsumerOptions
from broker.core.erlterm import resource_text
from broker.core.reply_to import REPLY_ALIAS, ReplyQueue, reply_queue_named
from broker.errors import NotFound, NotImplementedByBroker, PreconditionFailed
from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.channel import Channel
    from broker.wire.methods import BasicConsume

__all__ = ["consume", "declare", "get_refused", "is_asked_again"]


def declare(channel: Channel, name: str, nowait: bool) -> None:
    """queue.declare asks whether a requester still waits; flags mean nothing (rule DR-08).

    Raises:
        NotFound: nobody waits under that name, or this very channel does.

    """
    if name != REPLY_ALIAS:
        reply_queue_named(channel.vhost, name)
        if name == channel.publisher.reply_name:
            raise NotFound(f"no {resource_text('queue', name, channel.vhost.name)}")

    channel.last_queue = name
    if not nowait:
        channel.send(codec.encode_queue_declare_ok(name, 0, 1))


def is_asked_again(channel: Channel, method: BasicConsume) -> bool:
    """Whether this is for a second reply consumer under the tag of the first.

    RabbitMQ: that there is one already is what such a client hears, not that its tag is in use.

    """
    held = channel.consumers.get(method.consumer_tag)
    return method.queue == REPLY_ALIAS and held is not None and isinstance(held.queue, ReplyQueue)


def consume(channel: Channel, method: BasicConsume, tag: str) -> None:
    """basic.consume makes the channel a requester (rules DR-01, DR-02).

    Raises:
        PreconditionFailed: with acknowledgements, twice, or from a generated name (DR-10).

    """
    name = method.queue
    publisher = channel.publisher
    if name != REPLY_ALIAS:
        reply_queue_named(channel.vhost, name)
        resource = resource_text("queue", name, channel.vhost.name)
        if name == publisher.reply_name:
            raise PreconditionFailed(f"multiple consumers are unsupported for {resource}")

        raise PreconditionFailed(f"only creator channel may consume from {resource}")

    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")

    if publisher.reply_name is not None:
        raise PreconditionFailed("reply consumer already set")

    queue = channel.vhost.add_reply_queue(channel.connection)
    options = ConsumerOptions(no_ack=True, arguments=method.arguments)
    consumer = Consumer(queue, channel.deliveries, tag, options)
    queue.add_consumer(consumer)
    channel.consumers[tag] = consumer
    publisher.reply_name = queue.name
    if not method.nowait:
        channel.send(codec.encode_basic_consume_ok(tag))


def get_refused(channel: Channel, name: str) -> NotImplementedByBroker:
    """The error of a basic.get from a reply queue (rule DR-10)."""
    resource = resource_text("queue", name, channel.vhost.name)
    return NotImplementedByBroker(f"basic.get not supported by volatile {resource}")
