"""How large the messages are that consumers hold, by queue. Pure: the rim says when.

Nothing is counted where messages are delivered and settled: what a queue has unacked is added up
when somebody asks, a few messages at a time. Invariant: adding up takes a small share of the time,
however many messages there are and however often somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.browsing import UNACKED_COUNT, unacked_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.node import Node
    from broker.core.queue.queue import Queue

__all__ = ["UnackedBytes", "UnackedSizes"]

PART_WORTH: Final = 4
"""A channel that has nothing takes as long as so many messages."""

FRESH_S_PER_MESSAGE: Final = 10e-6
"""How long a sum counts for each message in it: some fifty times as long as it took to make."""


class UnackedSizes(NamedTuple):
    """What consumers hold of a queue."""

    size: int
    transient_count: int
    transient_size: int


NOTHING: Final = UnackedSizes(0, 0, 0)


class UnackedBytes:
    """The bodies of unacked messages.

    Args:
        node: whose.

    Attributes:
        total: of all queues, as it was added up last.

    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.total = 0
        # By names: a queue that is deleted is not kept by this.
        self._known: dict[tuple[str, str], UnackedSizes] = {}
        self._fresh_until_s = 0.0
        self._looked = 0
        # The sum that is being made, by whoever asks next.
        self._way: Iterator[None] | None = None

    def of(self, queue: Queue) -> int:
        """The bytes of a queue's unacked messages, as they were added up last."""
        return self.sizes_of(queue).size

    def sizes_of(self, queue: Queue) -> UnackedSizes:
        """The same, and those of them that are transient."""
        if not queue.unacked_count:
            return NOTHING

        return self._known.get((queue.vhost.name, queue.name), NOTHING)

    def steps(self, now_s: float) -> Iterator[None]:
        """Add up, if what is known is too old: so much at each step that nobody has to wait for it.

        Whoever asks meanwhile goes on with the same sum.

        Args:
            now_s: of the clock that does not jump.

        """
        while not self._is_done(now_s):
            yield

    def _is_done(self, now_s: float) -> bool:
        if self._way is None:
            if now_s < self._fresh_until_s:
                return True

            self._way = self._add_up()

        if next(self._way, self) is not self:
            return False

        self._way = None
        self._fresh_until_s = now_s + self._looked * FRESH_S_PER_MESSAGE
        return True

    def _add_up(self) -> Iterator[None]:
        found: dict[Queue, int] = {}
        transient: dict[Queue, list[int]] = {}
        self._looked = 0
        pause_at = UNACKED_COUNT
        for vhost in list(self._node.vhosts.values()):
            for part in unacked_parts(vhost):
                self._looked += PART_WORTH + len(part)
                for message in part:
                    consumer = message.consumer
                    if consumer is not None:
                        queue = consumer.queue
                        found[queue] = found.get(queue, 0) + message.body_size
                        if not message.is_persistent:
                            transient.setdefault(queue, []).append(message.body_size)

                if self._looked >= pause_at:
                    yield
                    pause_at = self._looked + UNACKED_COUNT

        self.total = sum(found.values())
        self._known = {
            (one.vhost.name, one.name): UnackedSizes(
                size, len(transient.get(one, ())), sum(transient.get(one, ()))
            )
            for one, size in found.items()
        }
