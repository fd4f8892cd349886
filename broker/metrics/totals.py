"""Totals of what happened to messages, by object. Pure: reads the core, changes nothing.

Invariant: the totals of a virtual host and of the node never fall. What is alive is added up anew
each time, and what is gone was added to their tallies when it went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queue.quorum import QuorumQueue
from broker.core.tally import VHostTally
from broker.protocol.connection import Connection

if TYPE_CHECKING:
    from broker.core.exchange.base import Exchange
    from broker.core.node import Node
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.protocol.channel import Channel

__all__ = [
    "CHANNEL_KEYS",
    "CHURN_KEYS",
    "CONNECTION_KEYS",
    "DEPTH_KEYS",
    "EXCHANGE_KEYS",
    "QUEUE_KEYS",
    "VHOST_KEYS",
    "Totals",
    "aside_count",
    "channel_totals",
    "churn_totals",
    "connection_totals",
    "connections_of",
    "exchange_totals",
    "node_octets",
    "node_tallies",
    "queue_totals",
    "tallies_without_queues",
    "tally_totals",
    "vhost_depths",
]

Totals = tuple[int, ...]
"""Counts, or depths, in the order of one of the tuples of keys."""

DEPTH_KEYS: Final = ("messages", "messages_ready", "messages_unacknowledged")

_TAKEN: Final = (
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "redeliver",
    "deliver_get",
)

QUEUE_KEYS: Final = ("publish", *_TAKEN)
_PUBLISHED: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
CHANNEL_KEYS: Final = (*_PUBLISHED, *_TAKEN)
EXCHANGE_KEYS: Final = ("publish_in", "publish_out")
VHOST_KEYS: Final = (*_PUBLISHED, *_TAKEN, "disk_reads", "disk_writes")
CONNECTION_KEYS: Final = ("recv_oct", "send_oct")
CHURN_KEYS: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)


def queue_totals(queue: Queue) -> Totals:
    """What a queue has taken and given, and then its depths: QUEUE_KEYS, DEPTH_KEYS."""
    deliver = queue.deliver_count
    deliver_no_ack = queue.deliver_no_ack_count
    get = queue.get_count
    get_no_ack = queue.get_no_ack_count
    ready = queue.ready_count
    unacked = queue.unacked_count
    return (
        queue.publish_count,
        deliver,
        deliver_no_ack,
        get,
        get_no_ack,
        queue.get_empty_count,
        queue.ack_count,
        queue.redeliver_count,
        deliver + deliver_no_ack + get + get_no_ack,
        ready + unacked + aside_count(queue),
        ready,
        unacked,
    )


def aside_count(queue: Queue) -> int:
    """Messages that are neither ready nor unacked: delayed, or dead and not yet at their place.

    RabbitMQ: they are among all messages of a queue, and in no other count.
    """
    return queue.aside_count if isinstance(queue, QuorumQueue) else 0


def exchange_totals(exchange: Exchange) -> Totals:
    """What an exchange has taken and passed on: EXCHANGE_KEYS."""
    return exchange.publish_in, exchange.publish_out


def channel_totals(channel: Channel) -> Totals:
    """What a channel has published and received: CHANNEL_KEYS."""
    publisher = channel.publisher
    deliveries = channel.deliveries
    confirms = channel.confirms
    deliver = deliveries.deliver_count
    get = deliveries.get_count
    get_no_ack = deliveries.get_no_ack_count
    total = int(deliveries.next_tag) - 1
    return (
        publisher.publish_count,
        0 if confirms is None else confirms.confirmed,
        publisher.return_count,
        publisher.drop_count,
        deliver,
        total - deliver - get - get_no_ack,
        get,
        get_no_ack,
        deliveries.get_empty_count,
        deliveries.ack_count,
        deliveries.redeliver_count,
        total,
    )


def connection_totals(connection: Connection) -> Totals:
    """The bytes that a connection has received and sent: CONNECTION_KEYS."""
    return connection.received_bytes, connection.output.total_bytes


def connections_of(node: Node) -> list[Connection]:
    """The connections of a node, as what they are."""
    return [one for one in node.connections if isinstance(one, Connection)]


def node_octets(node: Node) -> Totals:
    """The bytes that all connections there ever were have received and sent: CONNECTION_KEYS."""
    received, sent = node.churn.received_bytes, node.churn.sent_bytes
    for connection in connections_of(node):
        received += connection.received_bytes
        sent += connection.output.total_bytes

    return received, sent


def node_tallies(node: Node) -> dict[VirtualHost, VHostTally]:
    """All counts of each virtual host: of what is gone, and of what is there."""
    tallies = tallies_without_queues(node)
    for vhost, tally in tallies.items():
        for queue in vhost.queues.values():
            queue.tell(tally.queues_of(queue.type))

    return tallies


def tallies_without_queues(node: Node) -> dict[VirtualHost, VHostTally]:
    """All counts of each virtual host, but for those of the queues that are there."""
    tallies: dict[VirtualHost, VHostTally] = {}
    for connection in connections_of(node):
        for channel in connection.channels.values():
            # Sizes are told to the virtual host, so this comes before its tally is read.
            channel.runs.count_sizes()

    for vhost in node.vhosts.values():
        tally = VHostTally()
        tally.absorb(vhost.tally)
        for queue in vhost.reply_queues.values():
            queue.tell(tally.queues_of(queue.type))

        for exchange in vhost.exchanges.values():
            tally.publish_in += exchange.publish_in
            tally.publish_out += exchange.publish_out

        if vhost.journal is not None:
            tally.disk_reads += vhost.journal.read_count
            tally.disk_writes += vhost.journal.written_count

        tallies[vhost] = tally

    for connection in connections_of(node):
        for channel in connection.channels.values():
            # One that is closing has told its counts already.
            if channel.deliveries in channel.vhost.deliveries and channel.vhost in tallies:
                channel.publisher.tell(tallies[channel.vhost].publishes)

    return tallies


def tally_totals(tally: VHostTally) -> Totals:
    """The totals of a virtual host, or of a node: VHOST_KEYS."""
    published = tally.publishes
    taken = list(tally.queues.values())
    deliver = sum(one.deliver_count for one in taken)
    deliver_no_ack = sum(one.deliver_no_ack_count for one in taken)
    get = sum(one.get_count for one in taken)
    get_no_ack = sum(one.get_no_ack_count for one in taken)
    return (
        published.published,
        published.confirmed,
        published.returned,
        published.dropped,
        deliver,
        deliver_no_ack,
        get,
        get_no_ack,
        sum(one.get_empty_count for one in taken),
        sum(one.ack_count for one in taken),
        sum(one.redeliver_count for one in taken),
        deliver + deliver_no_ack + get + get_no_ack,
        tally.disk_reads,
        tally.disk_writes,
    )


def vhost_depths(vhost: VirtualHost) -> Totals:
    """The messages in all queues of a virtual host: DEPTH_KEYS."""
    ready = 0
    unacked = 0
    aside = 0
    for queue in vhost.queues.values():
        ready += queue.ready_count
        unacked += queue.unacked_count
        aside += aside_count(queue)

    return ready + unacked + aside, ready, unacked


def churn_totals(node: Node, tally: VHostTally) -> Totals:
    """What came and went on a node: CHURN_KEYS.

    Args:
        node: the node.
        tally: its counts, of all virtual hosts.

    """
    churn = node.churn
    return (
        churn.connections_opened,
        churn.connections_closed,
        churn.channels_opened,
        churn.channels_closed,
        tally.queues_declared,
        tally.queues_created,
        tally.queues_deleted,
    )
