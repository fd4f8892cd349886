"""queue.* (sections Q, B)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core import exchange_commands, queue_commands
from broker.core.exchange_commands import BindingRequest
from broker.core.queue_commands import QueueRequest
from broker.core.reply_to import is_reply_name
from broker.protocol.methods import replies
from broker.protocol.methods.names import named_or_last_queue, strip_line_breaks
from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.channel import Channel
    from broker.wire.methods import QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind

__all__ = ["bind", "declare", "delete", "purge", "unbind"]


def declare(channel: Channel, method: QueueDeclare) -> None:
    """queue.declare, active or passive; an empty name is never the last one (rule CH-16)."""
    name = strip_line_breaks(method.queue)
    if is_reply_name(name):
        replies.declare(channel, name, method.nowait)
        return

    if method.passive:
        queue = queue_commands.check_queue(channel.vhost, channel.actor, name)
    else:
        request = QueueRequest(
            name, method.durable, method.exclusive, method.auto_delete, method.arguments
        )
        queue = queue_commands.declare_queue(channel.vhost, channel.actor, request)

    channel.last_queue = queue.name
    if not method.nowait:
        channel.send(
            codec.encode_queue_declare_ok(
                queue.name, int(queue.ready_count), queue.declared_consumer_count
            )
        )


def bind(channel: Channel, method: QueueBind) -> None:
    """queue.bind."""
    exchange_commands.bind(channel.vhost, channel.actor, _request(channel, method))
    if not method.nowait:
        channel.send(codec.QUEUE_BIND_OK)


def unbind(channel: Channel, method: QueueUnbind) -> None:
    """queue.unbind, which has no nowait."""
    exchange_commands.unbind(channel.vhost, channel.actor, _request(channel, method))
    channel.send(codec.QUEUE_UNBIND_OK)


def _request(channel: Channel, method: QueueBind | QueueUnbind) -> BindingRequest:
    """Rule CH-15: without a queue and without a key, the last queue's name is both."""
    queue = strip_line_breaks(method.queue)
    routing_key = method.routing_key
    if queue == "":
        queue = named_or_last_queue(channel, queue)
        routing_key = routing_key or queue

    return BindingRequest(
        strip_line_breaks(method.exchange), queue, True, routing_key, method.arguments
    )


def purge(channel: Channel, method: QueuePurge) -> None:
    """queue.purge; on a reply queue it does nothing (rule DR-10)."""
    name = named_or_last_queue(channel, method.queue)
    count = 0
    if not is_reply_name(name):
        count = queue_commands.purge_queue(channel.vhost, channel.actor, name)

    if not method.nowait:
        channel.send(codec.encode_queue_purge_ok(count))


def delete(channel: Channel, method: QueueDelete) -> None:
    """queue.delete; on a reply queue it does nothing (rule DR-10)."""
    name = named_or_last_queue(channel, strip_line_breaks(method.queue))
    count = 0
    if not is_reply_name(name):
        # If it fails the channel closes, and hears of nothing any more.
        channel.hold_notices()
        count = queue_commands.delete_queue(
            channel.vhost,
            channel.actor,
            name,
            if_unused=method.if_unused,
            if_empty=method.if_empty,
        )

    if not method.nowait:
        channel.send(codec.encode_queue_delete_ok(count))

    channel.send_late_notices()
