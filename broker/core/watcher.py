"""Core: those who look at what passes a virtual host: the firehose, and the witness of a test.

**Where nobody looks, it costs nothing.** Publishing and delivering remember what they found out,
and only where they have nothing remembered do they ask for a watcher; a watched virtual host has
them remember nothing (:meth:`~broker.core.vhost.VirtualHost.watch`). Settlements are told of where
a method comes the general way, which is the only one on a channel whose virtual host has a witness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from broker.core.consumer import Consumer, Deliveries
    from broker.core.message import Message
    from broker.core.queue.queue import Queue

__all__ = ["Pair", "Watcher", "Witness"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Watcher:
    """Is told of publishes and deliveries, each before it happens."""

    __slots__ = ()

    def published(
        self, message: Message, queues: list[Queue], deliveries: Deliveries, is_returned: bool
    ) -> None:
        """A message was routed.

        Args:
            message: as the first of its queues gets it; the others' share its content.
            queues: those it reaches.
            deliveries: the sending half of the publisher's channel.
            is_returned: it goes back to its publisher.

        """

    def delivered(self, message: Message, consumer: Consumer, no_ack: bool) -> None:
        """A message goes to a consumer, or to a client that has asked for one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Witness(Watcher):
    """Is told of the ends that messages come to as well.

    It must be there before the channels are opened whose settlements it is to be told of.

    """

    __slots__ = ()

    def settling(self, messages: list[Message], how: str) -> None:
        """Deliveries are about to be settled.

        Args:
            messages: each with its consumer and its delivery tag.
            how: ``ack``, ``nack`` and ``reject``, with ``-requeue`` where they go back;
                ``recover``; or ``closed``: their channel has ended.

        """

    def committing(self, deliveries: Deliveries) -> None:
        """What was published on a channel in tx mode since it was last told is about to happen.

        Args:
            deliveries: the sending half of the channel.

        """

    def rolled_back(self, deliveries: Deliveries) -> None:
        """What was published on a channel in tx mode since then will not happen."""

    def turned_away(self, queue: Queue, message: Message) -> None:
        """A queue that is full has refused a message that was routed to it."""

    def died(self, queue: Queue, message: Message, reason: str) -> None:
        """A message leaves its queue as a dead letter, whether that has an exchange or not."""

    def buried(self, queue: Queue, message: Message, letter: Message, targets: list[Queue]) -> None:
        """A dead letter was routed.

        Args:
            queue: which the message has left.
            message: as it was there.
            letter: what has become of it.
            targets: those that get it.

        """

    def dropped(self, queue: Queue, count: int, why: str) -> None:
        """All that is ready in a queue goes: it is ``purged`` or ``deleted``."""


class Pair(Watcher):
    """Two that look at the same virtual host."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Watcher, second: Watcher) -> None:
        self._first = first
        self._second = second

    def published(
        self, message: Message, queues: list[Queue], deliveries: Deliveries, is_returned: bool
    ) -> None:
        self._first.published(message, queues, deliveries, is_returned)
        self._second.published(message, queues, deliveries, is_returned)

    def delivered(self, message: Message, consumer: Consumer, no_ack: bool) -> None:
        self._first.delivered(message, consumer, no_ack)
        self._second.delivered(message, consumer, no_ack)
