"""Publishing and taking messages without a channel: commands of administrators.

What a client does in several methods with answers between, these do at once: nothing is left
outstanding when they return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.consumer import Deliveries
from broker.core.message import Address, build_content
from broker.core.names import check_name
from broker.core.output import Output, OutputSet
from broker.core.publishing import Publisher, Route
from broker.core.queue_commands import queue_named
from broker.core.transaction import Transaction
from broker.wire.properties import parse_properties

if TYPE_CHECKING:
    from broker.core.actor import Actor
    from broker.core.consumer import Consumer
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost

__all__ = [
    "ACK",
    "REJECT",
    "REJECT_REQUEUE",
    "REQUEUE",
    "PublishOutcome",
    "PublishRequest",
    "Taken",
    "own_deliveries",
    "publish_message",
    "take_messages",
]

CHANNEL: Final = 1
"""The number of the channel there would be."""

ACK: Final = 0
"""Taken messages are gone."""

REQUEUE: Final = 1
"""They go back to their places, as by basic.nack."""

REJECT_REQUEUE: Final = 2
"""They go back to their places, as by basic.reject."""

REJECT: Final = 3
"""They go to the queue's dead letter exchange, or are gone."""


class PublishRequest(NamedTuple):
    """A message and where to.

    Attributes:
        exchange: its name; empty for the default exchange.
        routing_key: the key.
        properties: property flags and values, as in a content header.
        body: the body.
        body_bytes_max: largest body accepted (rule P-02).

    """

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    body_bytes_max: int


class PublishOutcome(NamedTuple):
    """What became of a message.

    Attributes:
        is_routed: it reached a queue, or an exchange that keeps it.
        is_accepted: no queue refused it (rule CF-07).

    """

    is_routed: bool
    is_accepted: bool


class Taken:
    """A message that was taken, as it was then.

    No named tuple: compiled, one looks for the classes of its fields when this module is imported.

    Attributes:
        message: the message.
        redelivered: whether it had been delivered before.
        remaining: ready messages behind it.

    """

    __slots__ = ("message", "redelivered", "remaining")

    def __init__(self, message: Message, redelivered: bool, remaining: int) -> None:
        self.message = message
        self.redelivered = redelivered
        self.remaining = remaining


def _ignore(_data: bytes) -> None:
    """Nobody is there to be sent anything."""


def _forget(_consumer: Consumer) -> None:
    """Nobody is there to be told."""


def own_deliveries(actor: Actor) -> Deliveries:
    """The sending half of a channel that nobody listens on."""
    deliveries = Deliveries(Output(OutputSet(), _ignore), CHANNEL, _forget)
    deliveries.actor = actor
    return deliveries


def publish_message(vhost: VirtualHost, actor: Actor, request: PublishRequest) -> PublishOutcome:
    """Publish one message, mandatory.

    Raises:
        AMQPError: rules P-01 to P-10; nothing has happened then.

    """
    check_name("exchange name", request.exchange)
    check_name("routing key", request.routing_key)
    deliveries = own_deliveries(actor)
    publisher = Publisher(vhost, actor, deliveries, request.body_bytes_max)
    transaction = Transaction()
    publisher.transaction = transaction
    route = Route(Address(request.exchange, request.routing_key), True, False)
    properties = parse_properties(request.properties)
    content = build_content(request.properties, request.body)
    publisher.publish(route, properties, content, len(request.body))
    is_accepted = publisher.commit(transaction.take_publications())
    publisher.count_sizes(len(request.body), 1, properties.is_persistent)
    publisher.tell(vhost.tally.publishes)
    return PublishOutcome(publisher.return_count == 0, is_accepted)


def take_messages(
    vhost: VirtualHost, actor: Actor, name: str, *, count_max: int, bytes_max: int, outcome: int
) -> list[Taken]:
    """Take ready messages from a queue, and do the same with all of them.

    Args:
        vhost: where the queue is.
        actor: who wants them.
        name: of the queue.
        count_max: no more than so many.
        bytes_max: no more when their bodies come to so much.
        outcome: ACK, REQUEUE, REJECT_REQUEUE or REJECT.

    Raises:
        AccessRefused: no right to read.
        NotFound: there is no such queue.
        ResourceLocked: it is another connection's own.
        NotImplementedByBroker: its type has no basic.get.

    """
    actor.check("read", "queue", name)
    queue = queue_named(vhost, name)
    actor.check_unlocked(queue)
    queue.check_get()
    taken: list[Taken] = []
    size = 0
    while len(taken) < count_max and size < bytes_max:
        message = queue.take(outcome == ACK)
        if message is None:
            break

        size += int(message.body_size)
        taken.append(Taken(message, message.redelivered, int(queue.ready_count)))

    _settle(queue, [one.message for one in taken], outcome)
    return taken


def _settle(queue: Queue, messages: list[Message], outcome: int) -> None:
    if not messages or outcome == ACK:
        return

    if outcome == REJECT:
        for message in messages:
            queue.rejected(message)

        queue.pump()
    else:
        queue.requeue(messages, outcome == REJECT_REQUEUE)
