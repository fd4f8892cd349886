"""What a node is told about itself: identity, limits, timeouts. Fixed while it runs."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.release import NO_RELEASE, Release
from broker.limits import (
    CONSUMERS_PER_CHANNEL_MAX,
    FRAME_BYTES_MAX_DEFAULT,
    MESSAGE_BYTES_MAX_DEFAULT,
    UNFINISHED_BYTES_MAX,
)

__all__ = ["COMPATIBLE_VERSION", "NodeSettings"]

COMPATIBLE_VERSION = NO_RELEASE.version
"""The release of RabbitMQ whose behaviour clients may count on; some gate on it (rule C-16)."""


class NodeSettings(NamedTuple):
    """Settings of a node, with RabbitMQ's defaults.

    Attributes:
        node_name: what the node calls itself in texts and to clients (cluster_name).
        product: what connection.start names; some programs insist on ``RabbitMQ``.
        channel_max: offered in connection.tune; 0 is no limit (rule C-40).
        frame_max: bytes, offered in connection.tune; 0 is no limit (rule C-40).
        heartbeat_s: offered in connection.tune; 0 is none (rule C-40).
        message_bytes_max: largest body accepted (rule P-02).
        connections_max: connections of the node; None is no limit (rule C-56).
        consumers_per_channel_max: rule CO-04.
        topic_hash_words_max: ``#`` in one binding key of a topic exchange; 0 is no limit (E-85).
        has_event_exchange: whether there is amq.rabbitmq.event in the virtual host ``/`` (E-134).
        has_log_exchange: whether there is amq.rabbitmq.log in the virtual host ``/``.
        handshake_timeout_ms: from accept until the virtual host is open (rule C-07).
        consumer_timeout_ms: longest time that a delivery may stay unsettled, where its queue says
            nothing else; 0 is no limit (rule MA-10).
        release: of RabbitMQ, that it is to be as strict as.
        unfinished_bytes_max: of contents that are not whole yet, all channels of a connection.

    """

    node_name: str = "leveret@localhost"
    product: str = "Leveret"
    channel_max: int = 2047
    frame_max: int = FRAME_BYTES_MAX_DEFAULT
    heartbeat_s: int = 60
    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    connections_max: int | None = None
    consumers_per_channel_max: int = CONSUMERS_PER_CHANNEL_MAX
    topic_hash_words_max: int = 0
    has_event_exchange: bool = False
    has_log_exchange: bool = False
    handshake_timeout_ms: int = 10_000
    consumer_timeout_ms: int = 1_800_000
    unfinished_bytes_max: int = UNFINISHED_BYTES_MAX
    release: Release = NO_RELEASE
