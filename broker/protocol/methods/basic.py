"""basic.* but for publish, which has its own way (sections QS, CO, G, A)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.consumer import ConsumerOptions
from broker.core.queue.argument_rules import STREAM
from broker.core.queue.arguments import consumer_priority_of
from broker.core.queue_commands import queue_named
from broker.core.reply_to import is_reply_name
from broker.errors import NotAllowed, NotImplementedByBroker
from broker.protocol.methods import replies
from broker.protocol.methods.names import named_or_last_queue
from broker.wire import codec
from broker.wire.hot import encode_get_ok

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue
    from broker.protocol.channel import Channel
    from broker.wire.methods import (
        BasicAck,
        BasicCancel,
        BasicConsume,
        BasicGet,
        BasicNack,
        BasicQos,
        BasicRecover,
        BasicRecoverAsync,
        BasicReject,
    )

__all__ = ["ack", "cancel", "consume", "get", "nack", "qos", "recover", "recover_async", "reject"]


def qos(channel: Channel, method: BasicQos) -> None:
    """basic.qos: for consumers to come, or for the channel as a whole (rules QS-01..QS-03)."""
    if method.prefetch_size:
        raise NotImplementedByBroker(f"prefetch_size!=0 ({method.prefetch_size})")

    # RabbitMQ: the answer comes before what a wider limit lets through.
    channel.send(codec.BASIC_QOS_OK)
    if method.global_ and channel.vhost.release.has_channel_limit:
        channel.deliveries.set_prefetch_limit(method.prefetch_count)
    else:
        channel.prefetch_count = method.prefetch_count
        channel.deliveries.set_prefetch_limit(0)


def consume(channel: Channel, method: BasicConsume) -> None:
    """basic.consume; the checks in the order of rule CO-01."""
    tag = method.consumer_tag
    if tag == "":
        tag = channel.vhost.generate_name("amq.ctag")
    elif tag in channel.consumers and not replies.is_asked_again(channel, method):
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")

    limit = channel.connection.node.settings.consumers_per_channel_max
    if len(channel.consumers) >= limit:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")

    if is_reply_name(method.queue):
        replies.consume(channel, method, tag)
        return

    queue = _readable_queue(channel, method.queue)
    priority = consumer_priority_of(queue.type, queue.name, channel.vhost.name, method.arguments)
    options = ConsumerOptions(
        method.no_ack,
        method.exclusive,
        priority,
        int(channel.prefetch_count),
        method.arguments,
    )
    queue.check_consume(options, has_channel_limit=channel.deliveries.prefetch_limit > 0)
    consumer = queue.new_consumer(channel.deliveries, tag, options)
    queue.add_consumer(consumer)
    channel.consumers[tag] = consumer
    channel.connection.ages.watch()
    if not method.nowait:
        channel.send(codec.encode_basic_consume_ok(tag))

    queue.pump()


def _readable_queue(channel: Channel, name: str) -> Queue:
    """The queue, if it may be read and is nobody else's (rules CO-01, G-01)."""
    name = named_or_last_queue(channel, name)
    channel.actor.check("read", "queue", name)
    queue = queue_named(channel.vhost, name)
    channel.actor.check_unlocked(queue)
    return queue


def cancel(channel: Channel, method: BasicCancel) -> None:
    """basic.cancel; an unknown tag is no error (rule CO-12)."""
    consumer = channel.consumers.get(method.consumer_tag)
    if not method.nowait:
        channel.send(codec.encode_basic_cancel_ok(method.consumer_tag))

    if consumer is not None:
        channel.remove_consumer(consumer)


def get(channel: Channel, method: BasicGet) -> None:
    """basic.get (section G)."""
    if is_reply_name(method.queue):
        raise replies.get_refused(channel, method.queue)

    queue = _readable_queue(channel, method.queue)
    queue.check_get()
    message = queue.take(method.no_ack)
    deliveries = channel.deliveries
    if message is None:
        queue.get_empty_count += 1
        deliveries.get_empty_count += 1
        channel.send(codec.BASIC_GET_EMPTY)
        return

    if message.redelivered:
        deliveries.redeliver_count += 1

    tag = deliveries.next_tag
    deliveries.next_tag = tag + 1
    if method.no_ack:
        deliveries.get_no_ack_count += 1
    else:
        deliveries.get_count += 1
        message.delivery_tag = tag
        message.consumer = deliveries.getter_for(queue)
        deliveries.unacked.add(message)
        channel.connection.ages.watch()

    watcher = channel.vhost.watcher
    if watcher is not None:
        watcher.delivered(message, deliveries.getter_for(queue), method.no_ack)

    payload = encode_get_ok(
        int(tag), message.redelivered, message.address.wire, int(queue.ready_count)
    )
    deliveries.send_content(payload, message.content)


def ack(channel: Channel, method: BasicAck) -> None:
    """basic.ack."""
    tag = _signed(method.delivery_tag)
    _tell(channel, tag, method.multiple, "ack")
    channel.ack(tag, method.multiple)


def nack(channel: Channel, method: BasicNack) -> None:
    """basic.nack."""
    tag = _signed(method.delivery_tag)
    _check_streams(channel, tag, method.multiple)
    _tell(channel, tag, method.multiple, "nack-requeue" if method.requeue else "nack")
    channel.nack(tag, method.multiple, method.requeue)


def reject(channel: Channel, method: BasicReject) -> None:
    """basic.reject."""
    tag = _signed(method.delivery_tag)
    _check_streams(channel, tag, False)
    _tell(channel, tag, False, "reject-requeue" if method.requeue else "reject")
    channel.nack(tag, False, method.requeue)


def _check_streams(channel: Channel, tag: int, multiple: bool) -> None:
    """Rule ST-06, where a release is followed that has it so."""
    release = channel.vhost.release
    if not release.takes_stream_nacks:
        for message in channel.deliveries.unacked.peek(tag, multiple):
            consumer = message.consumer
            if consumer is not None and consumer.queue.type == STREAM:
                release.check_stream_nack(consumer.queue.resource)


def _tell(channel: Channel, tag: int, multiple: bool, how: str) -> None:
    """Tell a witness what is going to be settled; in a transaction that is for the commit."""
    witness = channel.vhost.witness
    if witness is not None and channel.transaction is None:
        messages = channel.deliveries.unacked.peek(tag, multiple)
        if messages:
            witness.settling(messages, how)


def _signed(tag: int) -> int:
    """A tag in 64 bits with a sign: what is beyond them was never given out."""
    return tag - (1 << 64) if tag >= 1 << 63 else tag


def recover(channel: Channel, method: BasicRecover) -> None:
    """basic.recover: everything unacked goes back to its queue (rules A-10, A-11).

    RabbitMQ: the answer comes first, before anything that is delivered again.

    """
    _check_requeue(method.requeue)
    channel.send(codec.BASIC_RECOVER_OK)
    _recover(channel)


def recover_async(channel: Channel, method: BasicRecoverAsync) -> None:
    """basic.recover-async: the same without an answer."""
    _check_requeue(method.requeue)
    _recover(channel)


def _check_requeue(requeue: bool) -> None:
    if not requeue:
        raise NotImplementedByBroker("requeue=false")


def _recover(channel: Channel) -> None:
    messages = channel.deliveries.unacked.take_all()
    witness = channel.vhost.witness
    if witness is not None and messages:
        witness.settling(messages, "recover")

    channel.deliveries.give_back(messages)
