"""The messages of a virtual host that nobody is connected to, a few at a time. Layer: rim."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.core.exchange.delayed import DelayedExchange
from broker.core.queue.quorum import QuorumQueue, ReturnedMessage
from broker.core.queue.stream import StreamQueue
from broker.core.queue.stream_log import SEGMENT_START
from broker.store.api import OFFSET_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.binding import Destination
    from broker.core.exchange.base import Exchange
    from broker.core.journal import Journal
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.queue.ready import Ready
    from broker.core.vhost import VirtualHost

__all__ = [
    "held_count",
    "held_messages",
    "message_bytes",
    "message_count",
    "positions_in",
    "queue_messages",
    "return_count",
    "waiting_until",
]

READ_COUNT: Final = 512
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1


def message_count(queue: Queue) -> int:
    """How many messages a queue has, those that wait to be ready among them."""
    aside = int(queue.aside_count) if isinstance(queue, QuorumQueue) else 0
    return int(queue.ready_count) + aside


def message_bytes(queue: Queue) -> int:
    """The bytes of all bodies in a queue."""
    return int(queue.ready_bytes) + sum(int(one.body_size) for one in _aside(queue))


def _aside(queue: Queue) -> list[Message]:
    """The messages of a quorum queue that are neither ready nor unacked."""
    return queue.aside_messages() if isinstance(queue, QuorumQueue) else []


def queue_messages(queue: Queue) -> Iterator[Message]:
    """All messages of a queue, as they were published, in the order in which they would be served.

    Of a queue with priorities the highest level comes first; what was given back comes before all.
    Those of a stream have the time when they came in the place of a deadline.

    """
    if isinstance(queue, StreamQueue):
        yield from _stream_messages(queue)
        return

    is_quorum = isinstance(queue, QuorumQueue)
    if is_quorum:
        yield from queue.ready.front()

    for _, level in queue.ready.levels():
        yield from level.front()
        yield from _level_messages(queue, level)

    if is_quorum:
        yield from _aside(queue)


def _stream_messages(queue: Queue) -> Iterator[Message]:
    journal = queue.journal
    assert journal is not None
    for message in _read_all(journal, queue, queue.places_in(set(journal.log.segments))):
        message.deadline_ms &= SEGMENT_START - 1
        yield message


def _level_messages(queue: Queue, level: Ready) -> Iterator[Message]:
    cold = level.cold
    if cold is None:
        yield from level.hot()
        return

    journal = queue.journal
    assert journal is not None
    hot = level.hot()
    fresh = hot[: len(hot) - len(cold.tail)]
    yield from fresh
    redelivered = int(cold.redelivered_count)
    for chunk in cold.durable_positions():
        for message in _read_all(journal, queue, list(chunk)):
            message.redelivered = redelivered > 0
            redelivered -= 1
            yield message

    yield from cold.tail


def _read_all(journal: Journal, holder: Destination, positions: list[int]) -> Iterator[Message]:
    place = 0
    while place < len(positions):
        messages = journal.load(holder, positions[place : place + READ_COUNT])
        place += len(messages)
        yield from messages


def held_messages(exchange: Exchange) -> Iterator[Message]:
    """All messages that an exchange delays, first come first; the deadline is when they are due."""
    yield from exchange.stored_messages()
    journal = exchange.journal
    if journal is not None:
        positions = exchange.places_in(set(journal.log.segments))
        yield from _read_all(journal, exchange, sorted(positions))


def held_count(exchange: Exchange) -> int:
    """How many messages an exchange delays."""
    return exchange.messages_delayed if isinstance(exchange, DelayedExchange) else 0


def return_count(message: Message) -> int:
    """How often a message was given back, where that is counted."""
    return int(message.return_count) if isinstance(message, ReturnedMessage) else 0


def waiting_until(queue: Queue) -> dict[int, int]:
    """When messages that wait are ready, in milliseconds since 1970, by what `id` says of them."""
    if not isinstance(queue, QuorumQueue):
        return {}

    offset_ms = int(queue.vhost.deadlines.wall_offset_ms)
    return {id(message): due_ms + offset_ms for message, due_ms in queue.waiting_messages()}


def positions_in(vhost: VirtualHost) -> dict[int, array[int]]:
    """Where all messages lie: the number of each segment, and offsets there."""
    journal = vhost.journal
    assert journal is not None
    numbers = set(journal.log.segments)
    found: dict[int, array[int]] = {}
    for queue in vhost.queues.values():
        _add_all(found, queue.places_in(numbers))
        _add_hot(found, queue.hot_messages())

    for exchange in vhost.exchanges.values():
        _add_all(found, exchange.places_in(numbers))
        _add_hot(found, exchange.stored_messages())

    return found


def _add_all(found: dict[int, array[int]], positions: list[int]) -> None:
    for position in positions:
        _add(found, position)


def _add_hot(found: dict[int, array[int]], messages: list[Message]) -> None:
    for message in messages:
        if message.record > 0:
            _add(found, int(message.record))


def _add(found: dict[int, array[int]], position: int) -> None:
    number = position >> OFFSET_BITS
    offsets = found.get(number)
    if offsets is None:
        offsets = found[number] = array("Q")

    offsets.append(position & OFFSET_MASK)
