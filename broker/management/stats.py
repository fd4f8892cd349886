"""Counters of the core as the API shows them, each with its rate (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.metrics.totals import (
    CHANNEL_KEYS,
    CHURN_KEYS,
    CONNECTION_KEYS,
    DEPTH_KEYS,
    EXCHANGE_KEYS,
    QUEUE_KEYS,
    VHOST_KEYS,
    queue_totals,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.exchange.base import Exchange
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.management.json_text import JSON
    from broker.management.site import Site
    from broker.metrics.sampler import Sampler
    from broker.protocol.channel import Channel
    from broker.protocol.connection import Connection

__all__ = [
    "add_queue_stats",
    "add_stats",
    "channel_stats",
    "churn_rates",
    "connection_octets",
    "depths",
    "exchange_stats",
    "node_stats",
    "vhost_octets",
    "vhost_stats",
]


NO_RATE: Final[JSON] = {"rate": 0.0}
"""Shared by all that stands still: must not be changed."""

_QUEUE: Final = tuple((key, f"{key}_details") for key in QUEUE_KEYS)
_DEPTHS: Final = tuple((key, f"{key}_details") for key in DEPTH_KEYS)


def _all_of(sampler: Sampler, subject: object) -> JSON:
    """All counters of something, each with its rate."""
    rates = sampler.rates(subject)
    stats: JSON = {}
    if rates is None:
        for key, count in sampler.counters(subject).items():
            stats[key] = count
            stats[f"{key}_details"] = NO_RATE
    else:
        for (key, count), rate in zip(sampler.counters(subject).items(), rates, strict=True):
            stats[key] = count
            stats[f"{key}_details"] = {"rate": rate}

    return stats


def _shown(sampler: Sampler, subject: object, keys: Sequence[str]) -> JSON:
    return _chosen(_all_of(sampler, subject), keys)


def _chosen(stats: JSON, keys: Sequence[str]) -> JSON:
    chosen: JSON = {}
    for key in keys:
        chosen[key] = stats[key]
        chosen[f"{key}_details"] = stats[f"{key}_details"]

    return chosen


def _message_stats(sampler: Sampler, subject: object, keys: Sequence[str]) -> JSON:
    """All counters once one of them has moved; before, nothing."""
    stats = _shown(sampler, subject, keys)
    return stats if any(stats[key] for key in keys) else {}


def add_stats(row: JSON, stats: JSON) -> None:
    """Add ``message_stats``, which are absent until something has happened."""
    if stats:
        row["message_stats"] = stats


def add_queue_stats(row: JSON, sampler: Sampler, queue: Queue) -> None:
    """Add the depths of a queue, and what has happened in it.

    Lists have thousands of these, and most queues stand still: nothing is made for nothing.
    """
    totals = queue_totals(queue)
    rates = sampler.rates(queue)
    width = len(QUEUE_KEYS)
    for place, (key, details) in enumerate(_DEPTHS, width):
        row[key] = totals[place]
        row[details] = NO_RATE if rates is None else {"rate": rates[place]}

    if not any(totals[:width]):
        return

    stats: JSON = {}
    for place, (key, details) in enumerate(_QUEUE):
        stats[key] = totals[place]
        stats[details] = NO_RATE if rates is None else {"rate": rates[place]}

    row["message_stats"] = stats


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


def depths(site: Site, subject: VirtualHost | None, vhosts: Sequence[VirtualHost]) -> JSON:
    """What is in the queues of virtual hosts now.

    Args:
        site: the broker.
        subject: whose rates; None is the node.
        vhosts: whose queues.

    """
    sampler = site.sampler
    totals = [
        sum(column) for column in zip(*(site.glance(one).depths for one in vhosts), strict=True)
    ]
    totals = totals or [0] * len(DEPTH_KEYS)
    stats: JSON = {}
    for key, total in zip(DEPTH_KEYS, totals, strict=True):
        stats[key] = total
        stats[f"{key}_details"] = {"rate": sampler.rate(subject, key)}

    return stats
