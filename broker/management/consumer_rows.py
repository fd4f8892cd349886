"""What the API shows of connections, channels and consumers (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.management.json_text import rfc3339
from broker.management.numbers import whole_number
from broker.management.samples import Ranges, add_samples
from broker.management.stats import add_stats, channel_stats, connection_octets
from broker.protocol.connection import Connection
from broker.protocol.states import CLOSING, RUNNING
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from broker.core.consumer import Consumer, Deliveries
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.management.json_text import JSON
    from broker.management.site import Site
    from broker.protocol.channel import Channel
    from broker.protocol.link import Peer

__all__ = [
    "channel_details",
    "channel_named",
    "channel_row",
    "channels_of",
    "connection_named",
    "connection_row",
    "connections_of",
    "consumer_row",
]

GARBAGE: Final = {
    "max_heap_size": 0,
    "min_bin_vheap_size": 0,
    "min_heap_size": 0,
    "fullsweep_after": 0,
    "minor_gcs": 0,
}


def connections_of(node: Node) -> list[Connection]:
    """All connections of which a user is known, in the order in which they came."""
    return [
        one
        for one in node.connections
        if isinstance(one, Connection) and one.user is not None and one.vhost is not None
    ]


def connection_named(node: Node, name: str) -> Connection | None:
    """A connection by its name."""
    for connection in connections_of(node):
        if connection.name == name:
            return connection

    return None


def channels_of(connection: Connection) -> list[Channel]:
    """The channels of a connection, by number."""
    return [channel for _, channel in sorted(connection.channels.items())]


def channel_name(channel: Channel) -> str:
    """What a channel is called."""
    return f"{channel.connection.name} ({channel.channel_id})"


def channel_named(node: Node, name: str) -> Channel | None:
    """A channel by its name."""
    of, _, number = name.rpartition(" (")
    connection = connection_named(node, of)
    channel_id = whole_number(number.removesuffix(")")) if number.endswith(")") else None
    if connection is None or channel_id is None:
        return None

    return connection.channels.get(channel_id)


def _connection_state(connection: Connection) -> str:
    if connection.state >= CLOSING:
        return "closing"

    if connection.is_blocked:
        return "blocked"

    if connection.node.alarms and connection.state == RUNNING:
        return "running"

    return "flow" if connection.output.is_stalled else "running"


def _tls_facts(peer: Peer) -> JSON:
    """How it is encrypted, and who has been proven to be at the other end."""
    tls = peer.tls
    certificate = None if tls is None else tls.certificate
    return {
        "ssl": peer.is_tls,
        "ssl_protocol": tls and tls.protocol,
        "ssl_key_exchange": tls and tls.key_exchange,
        "ssl_cipher": tls and tls.cipher,
        "ssl_hash": tls and tls.hash,
        "peer_cert_subject": certificate and certificate.subject,
        "peer_cert_issuer": certificate and certificate.issuer,
        "peer_cert_validity": certificate and certificate.validity,
        "peer_cert_serial_number": None if certificate is None else str(certificate.serial),
    }


def connection_row(site: Site, ranges: Ranges, connection: Connection) -> JSON:
    """All there is to say of a connection."""
    user = connection.user
    vhost = connection.vhost
    assert user is not None
    assert vhost is not None
    peer = connection.peer
    properties = table_to_plain(connection.client.properties)
    row: JSON = {
        "name": connection.name,
        "type": "network",
        "node": site.node.settings.node_name,
        "protocol": "AMQP 0-9-1",
        "vhost": vhost.name,
        "user": user.name,
        "user_who_performed_action": user.name,
        "state": _connection_state(connection),
        "channels": len(connection.channels),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
        "auth_mechanism": connection.mechanism,
        "client_properties": properties,
        "connected_at": connection.connected_at_ms,
        "host": peer.local_host,
        "port": peer.local_port,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "send_pend": int(connection.output.backlog_bytes),
        "send_cnt": 0,
        "recv_cnt": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": GARBAGE,
        **_tls_facts(peer),
    }
    name = properties.get("connection_name")
    if isinstance(name, str):
        row["user_provided_name"] = name

    row.update(connection_octets(site.sampler, connection))
    add_samples(ranges, site.sampler, connection, row)
    return row


def _connection_details(connection: Connection) -> JSON:
    return {
        "name": connection.name,
        "peer_host": connection.peer.host,
        "peer_port": connection.peer.port,
    }


def channel_row(site: Site, ranges: Ranges, channel: Channel) -> JSON:
    """All there is to say of a channel, but for its consumers."""
    user = channel.actor.user
    name = "" if user is None else user.name
    transaction = channel.transaction
    confirms = channel.confirms
    row: JSON = {
        "name": channel_name(channel),
        "number": channel.channel_id,
        "node": site.node.settings.node_name,
        "vhost": channel.vhost.name,
        "user": name,
        "user_who_performed_action": name,
        "connection_details": _connection_details(channel.connection),
        "state": "running",
        "transactional": transaction is not None,
        "confirm": confirms is not None,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": int(channel.deliveries.unacked.count),
        "messages_unconfirmed": 0 if confirms is None else confirms.unconfirmed,
        "messages_uncommitted": 0 if transaction is None else len(transaction.publications),
        "acks_uncommitted": 0
        if transaction is None
        else sum(len(one.messages) for one in transaction.settlements),
        "prefetch_count": int(channel.prefetch_count),
        "global_prefetch_count": int(channel.deliveries.prefetch_limit),
        "pending_raft_commands": 0,
        "cached_segments": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": GARBAGE,
    }
    idle_ms = site.sampler.idle_since_ms(channel)
    if idle_ms is not None:
        row["idle_since"] = rfc3339(idle_ms)

    add_stats(row, channel_stats(site.sampler, channel))
    add_samples(ranges, site.sampler, channel, row)
    return row


def channel_details(site: Site, ranges: Ranges, channel: Channel) -> JSON:
    """All there is to say of one channel."""
    row = channel_row(site, ranges, channel)
    row["consumer_details"] = [consumer_row(site, one) for one in channel.consumers.values()]
    row["publishes"] = []
    row["deliveries"] = []
    return row


def channel_of(vhost: VirtualHost, deliveries: Deliveries) -> Channel | None:
    """The channel that a sending half belongs to."""
    actor = deliveries.actor
    connection = None if actor is None else actor.connection
    if not isinstance(connection, Connection) or connection.vhost is not vhost:
        return None

    return connection.channels.get(int(deliveries.channel_id))


def consumer_row(site: Site, consumer: Consumer) -> JSON:
    """All there is to say of a consumer."""
    queue = consumer.queue
    channel = channel_of(queue.vhost, consumer.deliveries)
    active = queue.active_consumer
    is_active = active is None or active is consumer
    details: JSON = {}
    if channel is not None:
        user = channel.actor.user
        details = {
            "name": channel_name(channel),
            "number": channel.channel_id,
            "user": "" if user is None else user.name,
            "node": site.node.settings.node_name,
            "connection_name": channel.connection.name,
            "peer_host": channel.connection.peer.host,
            "peer_port": channel.connection.peer.port,
        }

    status = "single_active" if active is consumer else "up"
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": queue.name, "vhost": queue.vhost.name},
        "channel_details": details,
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": int(consumer.prefetch),
        "active": is_active,
        "activity_status": status if is_active else "waiting",
        "arguments": table_to_plain(consumer.arguments),
        "consumer_timeout": _timeout_of(site, consumer),
    }


def _timeout_of(site: Site, consumer: Consumer) -> int | None:
    own = consumer.queue.settings.consumer_timeout_ms
    return own if own is not None else site.node.settings.consumer_timeout_ms or None
