"""Counters of the core as the API shows them, each with its rate (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metrics.totals import (
    CHANNEL_KEYS,
    CHURN_KEYS,
    CONNECTION_KEYS,
    DEPTH_KEYS,
    EXCHANGE_KEYS,
    QUEUE_KEYS,
    VHOST_KEYS,
    vhost_depths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.exchange.base import Exchange
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.management.json_text import JSON
    from broker.metrics.sampler import Sampler
    from broker.protocol.channel import Channel
    from broker.protocol.connection import Connection

__all__ = [
    "add_stats",
    "channel_stats",
    "churn_rates",
    "connection_octets",
    "depths",
    "exchange_stats",
    "node_stats",
    "queue_depths",
    "queue_stats",
    "vhost_octets",
    "vhost_stats",
]


def _shown(sampler: Sampler, subject: object, keys: Sequence[str]) -> JSON:
    counters = sampler.counters(subject)
    stats: JSON = {}
    for key in keys:
        stats[key] = counters[key]
        stats[f"{key}_details"] = {"rate": sampler.rate(subject, key)}

    return stats


def _message_stats(sampler: Sampler, subject: object, keys: Sequence[str]) -> JSON:
    """All counters once one of them has moved; before, nothing."""
    counters = sampler.counters(subject)
    return _shown(sampler, subject, keys) if any(counters[key] for key in keys) else {}


def add_stats(row: JSON, stats: JSON) -> None:
    """Add ``message_stats``, which are absent until something has happened."""
    if stats:
        row["message_stats"] = stats


def queue_stats(sampler: Sampler, queue: Queue) -> JSON:
    return _message_stats(sampler, queue, QUEUE_KEYS)


def queue_depths(sampler: Sampler, queue: Queue) -> JSON:
    return _shown(sampler, queue, DEPTH_KEYS)


def exchange_stats(sampler: Sampler, exchange: Exchange) -> JSON:
    return _message_stats(sampler, exchange, EXCHANGE_KEYS)


def channel_stats(sampler: Sampler, channel: Channel) -> JSON:
    return _message_stats(sampler, channel, CHANNEL_KEYS)


def connection_octets(sampler: Sampler, connection: Connection) -> JSON:
    return _shown(sampler, connection, CONNECTION_KEYS)


def vhost_stats(sampler: Sampler, vhost: VirtualHost) -> JSON:
    return _message_stats(sampler, vhost, VHOST_KEYS)


def vhost_octets(sampler: Sampler, vhost: VirtualHost) -> JSON:
    return _shown(sampler, vhost, CONNECTION_KEYS)


def node_stats(sampler: Sampler) -> JSON:
    return _message_stats(sampler, None, VHOST_KEYS)


def churn_rates(sampler: Sampler) -> JSON:
    return _shown(sampler, None, CHURN_KEYS)


def depths(sampler: Sampler, subject: VirtualHost | None, vhosts: Sequence[VirtualHost]) -> JSON:
    """What is in the queues of virtual hosts now.

    Args:
        sampler: knows the rates.
        subject: whose rates; None is the node.
        vhosts: whose queues.

    """
    totals = [0] * len(DEPTH_KEYS)
    for vhost in vhosts:
        for place, count in enumerate(vhost_depths(vhost)):
            totals[place] += count

    stats: JSON = {}
    for key, total in zip(DEPTH_KEYS, totals, strict=True):
        stats[key] = total
        stats[f"{key}_details"] = {"rate": sampler.rate(subject, key)}

    return stats
