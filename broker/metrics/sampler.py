"""Reads all counts every few seconds, and so knows rates and histories. Pure: the rim says when.

Two samples are kept of each object, the last and the one before, and a history of what moves.
Totals are always those of now, only rates are of the last interval. Invariants: the totals of a
virtual host and of the node never fall; there are at most HISTORIES_MAX histories besides the
node's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import Exchange
from broker.core.queue.queue import Queue
from broker.core.tally import VHostTally
from broker.core.vhost import VirtualHost
from broker.metrics.history import BASIC, GLOBAL, History, Sample
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
    node_octets,
    queue_totals,
    tallies_without_queues,
    tally_totals,
)
from broker.metrics.unacked_bytes import UnackedBytes
from broker.protocol.channel import Channel
from broker.protocol.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.core.node import Node
    from broker.metrics.totals import Totals

__all__ = ["HISTORIES_MAX", "SAMPLE_INTERVAL_S", "Sampler"]

SAMPLE_INTERVAL_S: Final = 5.0
"""RabbitMQ's collect_statistics_interval."""

SLICE: Final = 500
"""Objects that are read in one turn; a millisecond."""

HISTORIES_MAX: Final = 2_000
"""Of a queue that never stands still 20 KB are kept; all of them are 40 MB at the very most."""

STALE_MS: Final = 60_000
"""What has not moved for so long gives its place to what moves."""

_QUEUE_ALL: Final = (*QUEUE_KEYS, *DEPTH_KEYS)
_VHOST_ALL: Final = (*VHOST_KEYS, *DEPTH_KEYS, *CONNECTION_KEYS)
_NODE_ALL: Final = (*VHOST_KEYS, *DEPTH_KEYS, *CONNECTION_KEYS, *CHURN_KEYS)


class Sampler:
    """The statistics of a node.

    Args:
        node: whose.

    Attributes:
        unacked: knows how large the messages are that consumers hold.

    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.unacked = UnackedBytes(node)
        self._latest: dict[object, Totals] = {}
        self._before: dict[object, Totals] = {}
        self._latest_s = 0.0
        self._span_s = 0.0
        # When something was last seen to move, in milliseconds since 1970.
        self._moved_ms: dict[object, int] = {}
        # What moved longest ago comes first. Those of the node and what was added are kept apart.
        self._histories: dict[object, History] = {}
        self._own_histories: dict[object, History] = {}
        # What moved and found no place for a history.
        self._unheard: set[object] = set()
        # Bytes of connections when they were sampled last, and of those that are gone.
        self._octets: dict[Connection, Totals] = {}
        self._lost_octets: dict[VirtualHost, Totals] = {}
        # What others have added, with keys and a way to read them.
        self._added: dict[object, tuple[tuple[str, ...], Callable[[], Totals]]] = {}

    def add(self, subject: object, keys: tuple[str, ...], read: Callable[[], Totals]) -> None:
        """Sample something else too.

        Args:
            subject: by which it is asked for.
            keys: names of its counts.
            read: tells them.

        """
        self._added[subject] = (keys, read)

    # -- sampling

    def sample(self, now_s: float) -> None:
        """Read everything at once.

        Args:
            now_s: of the clock that does not jump.

        """
        for _ in self.steps(now_s):
            pass

    def steps(self, now_s: float) -> Iterator[None]:
        """Read everything, so much at each step that nobody has to wait for it.

        What it has read counts when the last step is done. A later sample that is done before is
        the end of it.

        Args:
            now_s: of the clock that does not jump.

        """
        node = self._node
        # All of this at one moment: a queue that goes between two steps is still on the list, and
        # not yet in what is gone, so it is counted once.
        wall_ms = int(node.deadlines.wall_ms)
        tallies = tallies_without_queues(node)
        total = VHostTally()
        total.absorb(node.tally)
        connections = connections_of(node)
        octets = self._octets_by_vhost(connections)
        queues = [one for vhost in tallies for one in vhost.queues.values()]
        rest: list[tuple[object, Totals]] = [
            (one, exchange_totals(one)) for vhost in tallies for one in vhost.exchanges.values()
        ]
        rest += [(one, octets_of) for one, octets_of in self._octets.items()]
        rest += [(one, read()) for one, (_, read) in self._added.items()]
        for connection in connections:
            rest += [(one, channel_totals(one)) for one in connection.channels.values()]

        found: dict[object, Totals] = {}
        depths = {vhost: [0, 0, 0] for vhost in tallies}
        for at, queue in enumerate(queues):
            if at % SLICE == 0:
                yield
                if self._latest_s > now_s:
                    return

            totals = queue_totals(queue)
            queue.tell(tallies[queue.vhost].queues_of(queue.type))
            found[queue] = self._note(queue, totals, wall_ms)
            depth = depths[queue.vhost]
            for place, count in enumerate(totals[-len(DEPTH_KEYS) :]):
                depth[place] += count

        for vhost, tally in tallies.items():
            rest.append((vhost, (*tally_totals(tally), *depths[vhost], *octets[vhost])))
            total.absorb(tally)

        rest.append((node, self._node_totals(total, list(depths.values()))))
        for subject, totals in rest:
            found[subject] = self._note(subject, totals, wall_ms)

        self._take(found, now_s)

    def _take(self, found: dict[object, Totals], now_s: float) -> None:
        for gone in [one for one in self._histories if one not in found]:
            del self._histories[gone]

        if len(self._moved_ms) != len(found):
            self._moved_ms = {one: self._moved_ms[one] for one in found}

        self._unheard &= found.keys()
        self._before = self._latest
        self._latest = found
        self._span_s = now_s - self._latest_s
        self._latest_s = now_s

    def _note(self, subject: object, totals: Totals, wall_ms: int) -> Totals:
        """Note what moved; the counts as they are to be kept."""
        before = self._latest.get(subject)
        if before == totals:
            return before

        is_new = before is None
        since_ms = self._moved_ms.get(subject, wall_ms)
        self._moved_ms[subject] = wall_ms
        if is_new and not (self._latest and any(totals)):
            # In the first sample of all, what is there was not made just now.
            return totals

        is_own = subject is self._node or subject in self._added
        histories = self._own_histories if is_own else self._histories
        history = histories.pop(subject, None)
        if history is None:
            if not is_own and not self._has_place(wall_ms):
                self._unheard.add(subject)
                return totals

            self._unheard.discard(subject)

            levels = GLOBAL if is_own or isinstance(subject, VirtualHost) else BASIC
            history = History(len(totals), levels)
            if before is not None:
                history.add(since_ms, before)

        history.add(wall_ms, totals)
        histories[subject] = history
        return totals

    def _has_place(self, wall_ms: int) -> bool:
        """Whether there is a place for another history, or can be made."""
        if len(self._histories) >= HISTORIES_MAX:
            oldest = next(iter(self._histories))
            if self._moved_ms.get(oldest, 0) > wall_ms - STALE_MS:
                return False

            del self._histories[oldest]

        return True

    def _octets_by_vhost(self, connections: list[Connection]) -> dict[VirtualHost, Totals]:
        """Bytes received and sent in each virtual host, those of connections that are gone too."""
        vhosts = self._node.vhosts.values()
        now = {one: connection_totals(one) for one in connections}
        lost = {vhost: self._lost_octets.get(vhost, (0, 0)) for vhost in vhosts}
        for connection, octets in self._octets.items():
            vhost = connection.vhost
            if connection not in now and vhost in lost:
                lost[vhost] = _sum(lost[vhost], octets)

        total = dict(lost)
        for connection, octets in now.items():
            vhost = connection.vhost
            if vhost in total:
                total[vhost] = _sum(total[vhost], octets)

        self._octets = now
        self._lost_octets = lost
        return total

    def _node_totals(self, total: VHostTally, depths: list[list[int]]) -> Totals:
        node = self._node
        return (
            *tally_totals(total),
            *(sum(column) for column in zip((0, 0, 0), *depths, strict=True)),
            *node_octets(node),
            *churn_totals(node, total),
        )

    # -- what others ask for

    def rate(self, subject: object, counter: str) -> float:
        """How fast a counter of something moved in the last interval, per second.

        Args:
            subject: a queue, an exchange, a channel, a connection, a virtual host, something that
                was added; or None, which is the node.
            counter: one of the keys that `counters` has for it.

        """
        of = self._node if subject is None else subject
        latest = self._latest.get(of)
        before = self._before.get(of)
        if latest is None or before is None or self._span_s <= 0:
            return 0.0

        place = self.keys_of(of).index(counter)
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
        keys = self.keys_of(subject)
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

    def idle_since_ms(self, subject: object) -> int | None:
        """Since when a queue or a channel stands still, in milliseconds since 1970.

        None where it moved in the last interval, or has not been sampled.

        """
        moved_ms = self._moved_ms.get(subject)
        latest = self._latest.get(subject)
        if moved_ms is None or latest is None:
            return None

        # What has not moved is kept as the same tuple.
        if self._before.get(subject) is not latest and (subject in self._before or any(latest)):
            return None

        now = queue_totals(subject) if isinstance(subject, Queue) else None
        if isinstance(subject, Channel):
            now = channel_totals(subject)

        return moved_ms if now == latest else None

    def samples(
        self, subject: object, age_ms: int, every_ms: int, *, is_late: bool = False
    ) -> list[Sample] | None:
        """What all counters of something were, in the order of its keys, newest first.

        None where that is not known: too much else moved.

        Args:
            subject: None is the node.
            age_ms: how far back.
            every_ms: length of a step.
            is_late: whether the newest sample is of the end of the step that now is in; else it
                is of its beginning.

        """
        of = self._node if subject is None else subject
        now_ms = int(self._node.deadlines.wall_ms)
        end_ms = (now_ms + every_ms - 1 if is_late else now_ms) // every_ms * every_ms
        history = self._own_histories.get(of) or self._histories.get(of)
        if history is not None:
            return history.samples(age_ms, every_ms, end_ms)

        latest = self._latest.get(of)
        if latest is None or (of in self._unheard and self._moved_ms[of] > now_ms - age_ms):
            return None

        # It has not moved in all that time.
        return [Sample(at_ms, latest) for at_ms in range(end_ms, end_ms - age_ms - 1, -every_ms)]

    def keys_of(self, subject: object) -> tuple[str, ...]:
        """The names of the counters of something; None is the node."""
        if isinstance(subject, Queue):
            return _QUEUE_ALL

        if isinstance(subject, Exchange):
            return EXCHANGE_KEYS

        if isinstance(subject, Channel):
            return CHANNEL_KEYS

        if isinstance(subject, Connection):
            return CONNECTION_KEYS

        if subject in self._added:
            return self._added[subject][0]

        return _VHOST_ALL if isinstance(subject, VirtualHost) else _NODE_ALL


def _sum(one: Totals, other: Totals) -> Totals:
    return one[0] + other[0], one[1] + other[1]
