"""Reads all counts every few seconds, and so knows rates. Pure: the rim says when.

For each object two samples are kept, the last and the one before; for each virtual host and the
node a history. Totals are always those of now, only rates are of the last interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.tally import VHostTally
from broker.metrics.history import History, Sample
from broker.metrics.totals import (
    CHANNEL_KEYS,
    CHURN_KEYS,
    CONNECTION_KEYS,
    DEPTH_KEYS,
    EXCHANGE_KEYS,
    QUEUE_KEYS,
    VHOST_KEYS,
    channel_totals,
    churn_totals,
    connection_totals,
    connections_of,
    exchange_totals,
    node_tallies,
    queue_totals,
    tally_totals,
    vhost_depths,
)

if TYPE_CHECKING:
    from broker.core.exchange.base import Exchange
    from broker.core.node import Node
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.metrics.totals import Totals
    from broker.protocol.channel import Channel
    from broker.protocol.connection import Connection

__all__ = ["SAMPLE_INTERVAL_S", "Sampler", "Stats"]

SAMPLE_INTERVAL_S: Final = 5.0
"""RabbitMQ's collect_statistics_interval."""

Stats = dict[str, object]
"""``{"publish": 3, "publish_details": {"rate": 0.2}, ...}``"""

_QUEUE_ALL: Final = (*QUEUE_KEYS, *DEPTH_KEYS)
_VHOST_ALL: Final = (*VHOST_KEYS, *DEPTH_KEYS, *CONNECTION_KEYS)
_NODE_ALL: Final = (*VHOST_KEYS, *DEPTH_KEYS, *CONNECTION_KEYS, *CHURN_KEYS)


class Sampler:
    """The statistics of a node.

    Args:
        node: whose.

    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._latest: dict[object, Totals] = {}
        self._before: dict[object, Totals] = {}
        self._latest_s = 0.0
        self._span_s = 0.0
        self._histories: dict[object, History] = {}

    # -- sampling

    def sample(self, now_s: float) -> None:
        """Read everything.

        Args:
            now_s: of the clock that does not jump.

        """
        node = self._node
        found: dict[object, Totals] = {}
        for vhost in node.vhosts.values():
            for queue in vhost.queues.values():
                found[queue] = queue_totals(queue)

            for exchange in vhost.exchanges.values():
                found[exchange] = exchange_totals(exchange)

        for connection in connections_of(node):
            found[connection] = connection_totals(connection)
            for channel in connection.channels.values():
                found[channel] = channel_totals(channel)

        tallies = node_tallies(node)
        wall_s = node.deadlines.wall_ms / 1000.0
        for vhost, tally in tallies.items():
            found[vhost] = self._vhost_totals(vhost, tally)

        found[node] = self._node_totals(tallies)
        for kept in (node, *tallies):
            self._histories.setdefault(kept, History()).add(Sample(wall_s, found[kept]))

        for gone in [one for one in self._histories if one not in found]:
            del self._histories[gone]

        self._before = self._latest
        self._latest = found
        self._span_s = now_s - self._latest_s
        self._latest_s = now_s

    def _vhost_totals(self, vhost: VirtualHost, tally: VHostTally) -> Totals:
        received = 0
        sent = 0
        for connection in connections_of(self._node):
            if connection.vhost is vhost:
                received += connection.received_bytes
                sent += connection.output.total_bytes

        return *tally_totals(tally), *vhost_depths(vhost), received, sent

    def _node_totals(self, tallies: dict[VirtualHost, VHostTally]) -> Totals:
        node = self._node
        total = VHostTally()
        total.absorb(node.tally)
        for tally in tallies.values():
            total.absorb(tally)

        depths = [vhost_depths(vhost) for vhost in tallies]
        received = node.churn.received_bytes
        sent = node.churn.sent_bytes
        for connection in connections_of(node):
            received += connection.received_bytes
            sent += connection.output.total_bytes

        return (
            *tally_totals(total),
            *(sum(column) for column in zip((0, 0, 0), *depths, strict=True)),
            received,
            sent,
            *churn_totals(node, total),
        )

    def _rates(self, of: object, width: int) -> list[float]:
        latest = self._latest.get(of)
        before = self._before.get(of)
        if latest is None or before is None or self._span_s <= 0:
            return [0.0] * width

        span_s = self._span_s
        return [
            round((after - earlier) / span_s, 3)
            for after, earlier in zip(latest, before, strict=True)
        ]

    # -- what the management asks for

    def queue_stats(self, queue: Queue) -> Stats:
        """message_stats of a queue; empty until something has happened."""
        return self._stats(queue, queue_totals(queue), _QUEUE_ALL, 0, len(QUEUE_KEYS))

    def queue_depths(self, queue: Queue) -> Stats:
        """messages, messages_ready, messages_unacknowledged and their rates."""
        totals = queue_totals(queue)
        return self._stats(queue, totals, _QUEUE_ALL, len(QUEUE_KEYS), None)

    def exchange_stats(self, exchange: Exchange) -> Stats:
        """message_stats of an exchange; empty until something has happened."""
        return self._stats(exchange, exchange_totals(exchange), EXCHANGE_KEYS, 0, None)

    def channel_stats(self, channel: Channel) -> Stats:
        """message_stats of a channel; empty until something has happened."""
        return self._stats(channel, channel_totals(channel), CHANNEL_KEYS, 0, None)

    def connection_stats(self, connection: Connection) -> Stats:
        """recv_oct, send_oct and their rates."""
        totals = connection_totals(connection)
        return self._all(connection, totals, CONNECTION_KEYS, 0, None)

    def vhost_stats(self, vhost: VirtualHost) -> Stats:
        """message_stats of a virtual host, as of the last sample; empty until then."""
        return self._sampled(vhost, _VHOST_ALL, VHOST_KEYS)

    def vhost_depths(self, vhost: VirtualHost) -> Stats:
        """messages, messages_ready, messages_unacknowledged of all its queues, now."""
        return self._depths(vhost, vhost_depths(vhost))

    def vhost_octets(self, vhost: VirtualHost) -> Stats:
        """recv_oct and send_oct of its connections, as of the last sample."""
        return self._sampled(vhost, _VHOST_ALL, CONNECTION_KEYS)

    def node_stats(self) -> Stats:
        """message_stats of all virtual hosts, those that are gone too, as of the last sample."""
        return self._sampled(self._node, _NODE_ALL, VHOST_KEYS)

    def node_depths(self) -> Stats:
        """queue_totals: what is in all queues, now."""
        depths = [vhost_depths(vhost) for vhost in self._node.vhosts.values()]
        totals = tuple(sum(column) for column in zip((0, 0, 0), *depths, strict=True))
        return self._depths(self._node, totals)

    def churn_rates(self) -> Stats:
        """connection_created and the like, as of the last sample."""
        return self._sampled(self._node, _NODE_ALL, CHURN_KEYS, keeps_zeros=True)

    def node_samples(self, age_s: float, every_s: float) -> dict[str, list[Sample]]:
        """The history of the node by key: samples of one number each, newest first."""
        return self._samples(self._node, _NODE_ALL, age_s, every_s)

    def vhost_samples(
        self, vhost: VirtualHost, age_s: float, every_s: float
    ) -> dict[str, list[Sample]]:
        """The history of a virtual host by key: samples of one number each, newest first."""
        return self._samples(vhost, _VHOST_ALL, age_s, every_s)

    def _samples(
        self, of: object, keys: tuple[str, ...], age_s: float, every_s: float
    ) -> dict[str, list[Sample]]:
        history = self._histories.get(of)
        if history is None:
            return {key: [] for key in keys}

        found = history.samples(age_s, every_s, self._node.deadlines.wall_ms / 1000.0)
        return {
            key: [Sample(one.at_s, (one.totals[place],)) for one in found]
            for place, key in enumerate(keys)
        }

    def _depths(self, of: object, totals: Totals) -> Stats:
        # Virtual hosts and the node have their depths in the same place.
        start = len(VHOST_KEYS)
        rates = self._rates(of, len(_NODE_ALL))[start : start + len(DEPTH_KEYS)]
        return _rendered(DEPTH_KEYS, totals, rates)

    def _sampled(
        self,
        of: object,
        keys: tuple[str, ...],
        wanted: tuple[str, ...],
        *,
        keeps_zeros: bool = False,
    ) -> Stats:
        totals = self._latest.get(of, (0,) * len(keys))
        start = keys.index(wanted[0])
        stop = start + len(wanted)
        if keeps_zeros:
            return self._all(of, totals, keys, start, stop)

        return self._stats(of, totals, keys, start, stop)

    def _stats(
        self, of: object, totals: Totals, keys: tuple[str, ...], start: int, stop: int | None
    ) -> Stats:
        if not any(totals[start:stop]):
            return {}

        return self._all(of, totals, keys, start, stop)

    def _all(
        self, of: object, totals: Totals, keys: tuple[str, ...], start: int, stop: int | None
    ) -> Stats:
        rates = self._rates(of, len(keys))
        return _rendered(keys[start:stop], totals[start:stop], rates[start:stop])


def _rendered(keys: tuple[str, ...], totals: Totals, rates: list[float]) -> Stats:
    stats: Stats = {}
    for key, total, rate in zip(keys, totals, rates, strict=True):
        stats[key] = total
        stats[f"{key}_details"] = {"rate": rate}

    return stats
