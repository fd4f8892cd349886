"""All that exporters tell, read at one moment. Pure.

Invariant: a snapshot holds nothing that the broker goes on changing, so another thread may render
it while the broker works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.tally import VHostTally
from broker.metrics.totals import (
    channel_totals,
    churn_totals,
    connection_totals,
    connections_of,
    exchange_totals,
    node_octets,
    node_tallies,
    queue_totals,
    vhost_depths,
)

if TYPE_CHECKING:
    from broker.core.node import Node
    from broker.metrics.totals import Totals
    from broker.metrics.unacked_bytes import UnackedBytes

__all__ = [
    "CertificateReading",
    "ChannelRow",
    "ConnectionRow",
    "DatagramReading",
    "DiskReading",
    "ExchangeRow",
    "MachineReading",
    "QueueRow",
    "Rows",
    "Snapshot",
    "VHostRow",
    "read_node",
    "read_rows",
]


class MachineReading(NamedTuple):
    """What the broker has of its machine; None where that is unknown, or unlimited."""

    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_limit_bytes: int | None = None
    descriptors: int | None = None
    descriptors_max: int | None = None


class DiskReading(NamedTuple):
    """What the logs have done to the disk since the broker started."""

    read_count: int = 0
    read_bytes: int = 0
    read_s: float = 0.0
    write_count: int = 0
    write_bytes: int = 0
    write_s: float = 0.0
    sync_count: int = 0
    sync_s: float = 0.0
    sync_classes: tuple[int, ...] = ()
    """Syncs by how long they took, as many as there are bounds, and one more."""

    sync_bounds_s: tuple[float, ...] = ()


class CertificateReading(NamedTuple):
    """A certificate in use, and when it expires."""

    tls: str
    server_name: str
    purpose: str
    subject: str
    expires_s: int


class DatagramReading(NamedTuple):
    """What came to a datagram listener, and what became of it."""

    listener: str
    received: int
    published: int
    dropped: tuple[tuple[str, int], ...]
    """Reasons, and how many for each."""


class Snapshot(NamedTuple):
    """A node at one moment.

    Attributes:
        tally: counts of all virtual hosts, those that are gone too.
        churn: what came and went: CHURN_KEYS.
        depths: DEPTH_KEYS of all queues.
        ready_bytes: of the bodies of all ready messages.
        unacked_bytes: of the bodies of all unacked ones.

    """

    node_name: str
    cluster_name: str
    product: str
    uptime_s: float
    tally: VHostTally
    churn: Totals
    depths: Totals
    logins: int
    logins_refused: int
    received_bytes: int
    sent_bytes: int
    connection_count: int
    channel_count: int
    queue_count: int
    consumer_count: int
    publisher_count: int
    alarms: tuple[str, ...]
    machine: MachineReading
    disk: DiskReading
    consumer_timeout_s: float | None = None
    ready_bytes: int = 0
    unacked_bytes: int = 0
    datagrams: tuple[DatagramReading, ...] = ()
    certificates: tuple[CertificateReading, ...] = ()


class QueueRow(NamedTuple):
    """One queue: QUEUE_KEYS, then DEPTH_KEYS."""

    vhost: str
    name: str
    type: str
    totals: Totals
    consumer_count: int
    ready_bytes: int
    unacked_bytes: int


class ExchangeRow(NamedTuple):
    """One exchange: EXCHANGE_KEYS."""

    vhost: str
    name: str
    type: str
    totals: Totals
    binding_count: int


class ConnectionRow(NamedTuple):
    """One connection: CONNECTION_KEYS."""

    vhost: str
    name: str
    totals: Totals
    channel_count: int


class ChannelRow(NamedTuple):
    """One channel: CHANNEL_KEYS."""

    vhost: str
    name: str
    totals: Totals
    consumer_count: int
    unacked_count: int
    unconfirmed_count: int
    uncommitted_count: int
    acks_uncommitted_count: int
    prefetch_count: int
    prefetch_limit: int


class VHostRow(NamedTuple):
    """One virtual host."""

    name: str
    depths: Totals
    binding_count: int


class Rows(NamedTuple):
    """Everything there is, one by one."""

    vhosts: list[VHostRow]
    queues: list[QueueRow]
    exchanges: list[ExchangeRow]
    connections: list[ConnectionRow]
    channels: list[ChannelRow]


def read_node(node: Node, machine: MachineReading, disk: DiskReading) -> Snapshot:
    """Read the totals of a node.

    Args:
        node: the node.
        machine: what the rim has read of the machine.
        disk: what the rim has counted.

    """
    tally = VHostTally()
    tally.absorb(node.tally)
    depths = [0, 0, 0]
    consumers = 0
    ready_bytes = 0
    for vhost, one in node_tallies(node).items():
        tally.absorb(one)
        depths = [total + more for total, more in zip(depths, vhost_depths(vhost), strict=True)]
        for queue in vhost.queues.values():
            consumers += len(queue.consumers)
            ready_bytes += queue.ready_bytes

    connections = connections_of(node)
    received, sent = node_octets(node)
    channels = [channel for one in connections for channel in one.channels.values()]
    churn = node.churn
    return Snapshot(
        node_name=node.settings.node_name,
        cluster_name=node.settings.node_name,
        product=node.settings.product,
        uptime_s=int(node.deadlines.now_ms) / 1000.0 - node.started_s,
        tally=tally,
        churn=churn_totals(node, tally),
        depths=tuple(depths),
        logins=churn.logins,
        logins_refused=churn.logins_refused,
        received_bytes=received,
        sent_bytes=sent,
        connection_count=len(connections),
        channel_count=len(channels),
        queue_count=sum(len(vhost.queues) for vhost in node.vhosts.values()),
        consumer_count=consumers,
        publisher_count=sum(1 for one in channels if one.publisher.publish_count),
        alarms=(*node.short_of(), *node.quiet_alarms),
        machine=machine,
        disk=disk,
        ready_bytes=ready_bytes,
        consumer_timeout_s=(node.settings.consumer_timeout_ms / 1000.0) or None,
    )


def read_rows(node: Node, unacked: UnackedBytes, vhost_names: frozenset[str] | None = None) -> Rows:
    """Read everything one by one.

    Args:
        node: the node.
        unacked: knows how large unacked messages are.
        vhost_names: of the virtual hosts that are wanted; None is all.

    """
    rows = Rows([], [], [], [], [])
    for vhost in node.vhosts.values():
        if vhost_names is not None and vhost.name not in vhost_names:
            continue

        binding_count = sum(len(one.bindings) for one in vhost.exchanges.values())
        rows.vhosts.append(VHostRow(vhost.name, vhost_depths(vhost), binding_count))
        for queue in vhost.queues.values():
            rows.queues.append(
                QueueRow(
                    vhost.name,
                    queue.name,
                    queue.type,
                    queue_totals(queue),
                    len(queue.consumers),
                    queue.ready_bytes,
                    unacked.of(queue),
                )
            )

        for exchange in vhost.exchanges.values():
            rows.exchanges.append(
                ExchangeRow(
                    vhost.name,
                    exchange.name,
                    exchange.type,
                    exchange_totals(exchange),
                    len(exchange.bindings),
                )
            )

    _read_connections(node, vhost_names, rows)
    return rows


def _read_connections(node: Node, vhost_names: frozenset[str] | None, rows: Rows) -> None:
    for connection in connections_of(node):
        vhost = connection.vhost
        if vhost is None or (vhost_names is not None and vhost.name not in vhost_names):
            continue

        rows.connections.append(
            ConnectionRow(
                vhost.name,
                connection.name,
                connection_totals(connection),
                len(connection.channels),
            )
        )
        for number, channel in connection.channels.items():
            confirms = channel.confirms
            transaction = channel.transaction
            acks = [] if transaction is None else transaction.settled_messages()
            rows.channels.append(
                ChannelRow(
                    vhost.name,
                    f"{connection.name} ({number})",
                    channel_totals(channel),
                    len(channel.consumers),
                    channel.deliveries.unacked.count,
                    0 if confirms is None else confirms.unconfirmed,
                    0 if transaction is None else len(transaction.publications),
                    len(acks),
                    channel.prefetch_count,
                    channel.deliveries.prefetch_limit,
                )
            )
