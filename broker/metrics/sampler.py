"""Reads all counts every few seconds, and so knows rates. Pure: the rim says when.

For each object two samples are kept, the last and the one before; for each virtual host and the
node a history. Totals are always those of now, only rates are of the last interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import Exchange
from broker.core.queue.queue import Queue
from broker.core.tally import VHostTally
from broker.core.vhost import VirtualHost
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
from broker.protocol.channel import Channel
from broker.protocol.connection import Connection

if TYPE_CHECKING:
    from broker.core.node import Node
    from broker.metrics.totals import Totals

__all__ = ["SAMPLE_INTERVAL_S", "Sampler"]

SAMPLE_INTERVAL_S: Final = 5.0
"""RabbitMQ's collect_statistics_interval."""

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

    # -- what others ask for

    def rate(self, subject: object, counter: str) -> float:
        """How fast a counter of something moved in the last interval, per second.

        Args:
            subject: a queue, an exchange, a channel, a connection, a virtual host; or None, which
                is the node.
            counter: one of the keys that `counters` has for it.

        """
        of = self._node if subject is None else subject
        latest = self._latest.get(of)
        before = self._before.get(of)
        if latest is None or before is None or self._span_s <= 0:
            return 0.0

        place = _keys_of(of).index(counter)
        return round((latest[place] - before[place]) / self._span_s, 3)

    def rates(self, subject: object) -> list[float] | None:
        """How fast all counters of something moved, in the order of `counters`.

        None where none of them moved, which is so of most queues most of the time.

        """
        of = self._node if subject is None else subject
        latest = self._latest.get(of)
        before = self._before.get(of)
        if latest is None or before is None or latest == before or self._span_s <= 0:
            return None

        span_s = self._span_s
        return [round((now - then) / span_s, 3) for now, then in zip(latest, before, strict=True)]

    def counters(self, subject: object) -> dict[str, int]:
        """All counts and depths of something by RabbitMQ's names.

        Those of a virtual host or the node (None) are as of the last sample, others of now.

        """
        of = self._node if subject is None else subject
        keys = _keys_of(of)
        if isinstance(of, Queue):
            totals = queue_totals(of)
        elif isinstance(of, Exchange):
            totals = exchange_totals(of)
        elif isinstance(of, Channel):
            totals = channel_totals(of)
        elif isinstance(of, Connection):
            totals = connection_totals(of)
        else:
            totals = self._latest.get(of, (0,) * len(keys))

        return dict(zip(keys, totals, strict=True))

    def samples(
        self, subject: VirtualHost | None, age_s: float, every_s: float
    ) -> dict[str, list[Sample]]:
        """The history of a virtual host or the node by key, newest first.

        Args:
            subject: None is the node.
            age_s: how far back.
            every_s: length of a step.

        """
        of = self._node if subject is None else subject
        keys = _keys_of(of)
        history = self._histories.get(of)
        if history is None:
            return {key: [] for key in keys}

        found = history.samples(age_s, every_s, self._node.deadlines.wall_ms / 1000.0)
        return {
            key: [Sample(one.at_s, (one.totals[place],)) for one in found]
            for place, key in enumerate(keys)
        }


def _keys_of(of: object) -> tuple[str, ...]:
    if isinstance(of, Queue):
        return _QUEUE_ALL

    if isinstance(of, Exchange):
        return EXCHANGE_KEYS

    if isinstance(of, Channel):
        return CHANNEL_KEYS

    if isinstance(of, Connection):
        return CONNECTION_KEYS

    return _VHOST_ALL if isinstance(of, VirtualHost) else _NODE_ALL
