"""Consumers, and what one channel has been given: delivery tags, unacked deliveries, prefetch.

A delivery is written as four pieces that exist already or are slices of what came in: a prefix that
the consumer keeps (frame header, method, consumer tag, the upper seven bytes of the delivery tag),
the tag's last byte, the tail that the address keeps, and the content as it was published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message import Message, content_on_channel
from broker.core.output import OUTPUT_TURN_BYTES_MAX, Output
from broker.core.unacked import Unacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.core.actor import Actor
    from broker.core.queue.queue import Queue
    from broker.core.transaction import Transaction
    from broker.wire.tables import Arguments

__all__ = ["UNLIMITED", "Consumer", "ConsumerOptions", "Deliveries"]

UNLIMITED: Final = 1 << 60
"""The credit of a consumer without a prefetch limit: more than it can ever use up."""

OCTETS: Final = [bytes((value,)) for value in range(256)]
NO_PREFIX: Final = -1


def _nobody_is_told(consumer: Consumer) -> None:
    """What a closed channel does about a consumer: it has none."""


class Deliveries:
    """The sending half of a channel, as the core sees it.

    Args:
        output: the connection's output buffer.
        channel_id: the channel number, 1 to 65535.
        on_cancel: told of each consumer whose queue is gone (rule CO-13).

    Attributes:
        actor: whose channel it is, as far as it is known.

    """

    __slots__ = (
        "_page",
        "_page_bytes",
        "ack_count",
        "actor",
        "channel",
        "channel_high",
        "channel_id",
        "channel_low",
        "consumer_unacked",
        "get_count",
        "get_empty_count",
        "get_no_ack_count",
        "getter",
        "limited",
        "next_tag",
        "on_cancel",
        "output",
        "prefetch_limit",
        "redeliver_count",
        "refused_count",
        "transaction",
        "unacked",
    )

    def __init__(
        self, output: Output, channel_id: i64, on_cancel: Callable[[Consumer], None]
    ) -> None:
        self.output = output
        self.on_cancel = on_cancel
        self.actor: Actor | None = None
        self.channel_id = channel_id
        self.channel: bytes = int(channel_id).to_bytes(2, "big")
        self.channel_high: i64 = channel_id >> 8
        self.channel_low: i64 = channel_id & 255
        self.next_tag: i64 = 1
        # The upper seven bytes of delivery tags, as they were asked for last.
        self._page: i64 = 0
        self._page_bytes: bytes = bytes(7)
        self.unacked = Unacked()
        # Unacked deliveries that count against the channel's limit: consumers' only (QS-03).
        self.consumer_unacked: i64 = 0
        self.prefetch_limit: i64 = 0
        self.limited: dict[Consumer, None] = {}
        self.getter: Consumer | None = None
        self.transaction: Transaction | None = None
        # Deliveries that were acknowledged; those that were given back or rejected.
        self.ack_count: i64 = 0
        self.refused_count: i64 = 0
        self.redeliver_count: i64 = 0
        self.get_count: i64 = 0
        self.get_no_ack_count: i64 = 0
        self.get_empty_count: i64 = 0

    @property
    def deliver_count(self) -> int:
        """Deliveries to consumers that acknowledge: those outstanding, and those that ended."""
        outstanding = self.unacked.count
        if self.transaction is not None:
            outstanding += len(self.transaction.settled_messages())

        return int(outstanding + self.ack_count + self.refused_count - self.get_count)

    @property
    def deliver_no_ack_count(self) -> int:
        """Deliveries to consumers that do not acknowledge: all others."""
        total = int(self.next_tag - 1 - self.get_count - self.get_no_ack_count)
        return total - self.deliver_count

    def outstanding(self) -> list[Message]:
        """The messages that were delivered and are not settled for good."""
        messages = self.unacked.messages()
        if self.transaction is not None:
            messages += self.transaction.settled_messages()

        return messages

    def set_prefetch_limit(self, count: i64) -> None:
        """basic.qos(global=true): a limit for the channel's consumers; 0 removes it (QS-03)."""
        self.prefetch_limit = count
        self.wake_limited()

    def wake_limited(self) -> None:
        """Serve the consumers that the channel's limit held back, all their queues (QS-10).

        Those whose turn did not come before the limit was reached again are first the next time.

        """
        if not self.limited or self._is_at_limit():
            return

        limited = self.limited
        self.limited = {}
        for consumer in limited:
            consumer.unpark()

        served: dict[Consumer, None] = {}
        is_over = False
        for consumer in limited:
            if not is_over and self._is_at_limit():
                is_over = True
                served = self.limited
                self.limited = {}

            consumer.queue.pump()

        self.limited.update(served)

    def _is_at_limit(self) -> bool:
        return 0 < self.prefetch_limit <= self.consumer_unacked

    def page_bytes(self, page: i64) -> bytes:
        """The upper seven bytes of the delivery tags whose other bits are ``page``."""
        if page != self._page:
            self._page = page
            self._page_bytes = int(page).to_bytes(7, "big")

        return self._page_bytes

    def end(self) -> None:
        """The channel is closed, and has no consumer left: nothing leads back to it."""
        self.on_cancel = _nobody_is_told
        self.getter = None
        self.limited.clear()

    def getter_for(self, queue: Queue) -> Consumer:
        """Who a basic.get delivery belongs to: no prefetch limit binds it (QS-06)."""
        getter = self.getter
        if getter is None or getter.queue is not queue:
            getter = Consumer(queue, self, "", is_getter=True)
            self.getter = getter

        return getter

    def send_content(self, method: bytes, content: bytes) -> None:
        """A method frame that carries content: basic.get-ok, basic.return."""
        output = self.output
        output.send_method(self.channel, method)
        output.send(content_on_channel(content, self.channel, output.frame_payload_max))

    def settle(self, messages: list[Message]) -> None:
        """Acknowledge deliveries taken from ``unacked``; the credit serves the next ones."""
        if len(messages) == 1:
            self.ack_count += 1
            queue = self._settle_one(messages[0])
            if queue.ready_count:
                queue.pump()
        else:
            self.ack_count += len(messages)
            queues: list[Queue] = []
            last: Queue | None = None
            for message in messages:
                queue = self._settle_one(message)
                if queue is not last:
                    last = queue
                    if queue not in queues:
                        queues.append(queue)

            for queue in queues:
                if queue.ready_count:
                    queue.pump()

        if self.limited:
            self.wake_limited()

    def _settle_one(self, message: Message) -> Queue:
        consumer = message.consumer
        assert consumer is not None
        message.consumer = None
        self.release(consumer)
        queue = consumer.queue
        queue.settled(message)
        return queue

    def release(self, consumer: Consumer) -> None:
        """Give back the credit of one delivery (QS-07)."""
        if consumer.is_getter:
            return

        self.consumer_unacked -= 1
        consumer.credit += 1
        if not consumer.is_waiting:
            consumer.wake()

    def give_back(self, messages: list[Message], is_failure: bool = False) -> None:
        """Requeue deliveries that were taken from ``unacked``: each to its place (A-05).

        Args:
            messages: in the order of their delivery tags.
            is_failure: whether basic.reject or the end of the channel is the reason (rule QQ-09).

        """
        self.refused_count += len(messages)
        by_queue: dict[Queue, list[Message]] = {}
        for message in messages:
            consumer = message.consumer
            assert consumer is not None
            message.consumer = None
            self.release(consumer)
            by_queue.setdefault(consumer.queue, []).append(message)

        for queue, returned in by_queue.items():
            queue.requeue(returned, is_failure)

        self.wake_limited()

    def reject(self, messages: list[Message]) -> None:
        """Discard deliveries that were taken from ``unacked``, by way of the queue's DLX (A-06)."""
        self.refused_count += len(messages)
        queues: list[Queue] = []
        for message in messages:
            consumer = message.consumer
            assert consumer is not None
            message.consumer = None
            self.release(consumer)
            queue = consumer.queue
            queue.rejected(message)
            if queue not in queues:
                queues.append(queue)

        for queue in queues:
            queue.pump()

        self.wake_limited()


class ConsumerOptions(NamedTuple):
    """What basic.consume asks for.

    Attributes:
        no_ack: deliveries are gone once written (rule CO-11).
        exclusive: nobody else may consume (rule CO-07).
        priority: x-priority, served highest first (rule CO-10).
        prefetch: unacked deliveries it may hold; 0 is unlimited (rule QS-02).
        arguments: as sent, for listings.

    """

    no_ack: bool = False
    exclusive: bool = False
    priority: int = 0
    prefetch: int = 0
    arguments: Arguments | None = None


NO_OPTIONS: Final = ConsumerOptions()


class Consumer:
    """One basic.consume, or (``is_getter``) the owner of a channel's basic.get deliveries.

    Args:
        queue: what it consumes.
        deliveries: the channel's sending half.
        tag: the consumer tag, unique on its channel (rule CO-02).
        options: what it asked for.
        is_getter: it stands for basic.get, which no limit binds (rule QS-06).

    """

    __slots__ = (
        "_head",
        "_prefix",
        "_prefix_page",
        "_prefix_size",
        "_prefix_tail_size",
        "arguments",
        "credit",
        "deliveries",
        "exclusive",
        "is_cancelled",
        "is_getter",
        "is_parked",
        "is_waiting",
        "no_ack",
        "output",
        "prefetch",
        "priority",
        "queue",
        "tag",
    )

    def __init__(
        self,
        queue: Queue,
        deliveries: Deliveries,
        tag: str,
        options: ConsumerOptions = NO_OPTIONS,
        *,
        is_getter: bool = False,
    ) -> None:
        self.queue = queue
        self.deliveries = deliveries
        self.output = deliveries.output
        self.tag = tag
        self.no_ack = options.no_ack
        self.exclusive = options.exclusive
        self.priority: i64 = options.priority
        self.prefetch: i64 = options.prefetch
        self.arguments: Arguments = options.arguments or {}
        is_limited = options.prefetch > 0 and not options.no_ack
        self.credit: i64 = options.prefetch if is_limited else UNLIMITED
        self.is_getter = is_getter
        self.is_waiting = False
        self.is_parked = False
        self.is_cancelled = False
        # The prefix less the delivery tag: the same while the tail is as long.
        self._head = b""
        self._prefix = b""
        self._prefix_size: i64 = 0
        self._prefix_page: i64 = NO_PREFIX
        self._prefix_tail_size: i64 = 0

    @property
    def held_count(self) -> int:
        """Deliveries of it that are unacked."""
        start: i64 = self.prefetch if self.prefetch > 0 and not self.no_ack else UNLIMITED
        return int(start - self.credit)

    def is_able(self) -> bool:
        """Whether it can take a message now: credit, the channel's limit, room (CO-10, QS-04)."""
        if self.credit <= 0 or self.is_cancelled:
            return False

        output = self.output
        if output.size_bytes >= OUTPUT_TURN_BYTES_MAX or not output.has_room:
            return False

        limit: i64 = self.deliveries.prefetch_limit
        return limit == 0 or self.deliveries.consumer_unacked < limit

    def park(self) -> None:
        """Leave the rotation; whoever lifts the reason wakes the consumer.

        A settlement wakes one without credit. One without room, or over its channel's limit, is
        kept in the list of those to be woken by that, once, and nothing else wakes it.

        """
        self.is_waiting = False
        if self.is_cancelled:
            return

        output = self.output
        deliveries = self.deliveries
        if output.size_bytes >= OUTPUT_TURN_BYTES_MAX or not output.has_room:
            self.is_parked = True
            output.parked[self] = None
        elif 0 < deliveries.prefetch_limit <= deliveries.consumer_unacked:
            self.is_parked = True
            deliveries.limited[self] = None

    def unpark(self) -> None:
        """The reason for which it was parked is gone."""
        self.is_parked = False
        self.wake()

    def retire(self) -> None:
        """Nothing more is delivered: it was cancelled, or its queue is gone."""
        self.is_cancelled = True
        if self.is_parked:
            self.is_parked = False
            self.output.parked.pop(self, None)
            self.deliveries.limited.pop(self, None)

    def wake(self) -> None:
        """Enter the rotation again, unless it stands there or something else keeps it out."""
        if not self.is_waiting and not self.is_parked and not self.is_cancelled:
            self.queue.admit(self)

    def deliver(self, message: Message) -> None:
        """Write a basic.deliver with its content; unless no-ack, the message is unacked then."""
        deliveries = self.deliveries
        tag: i64 = deliveries.next_tag
        deliveries.next_tag = tag + 1
        if not self.no_ack:
            message.delivery_tag = tag
            message.consumer = self
            self.credit -= 1
            deliveries.consumer_unacked += 1
            deliveries.unacked.add(message)

        address = message.address
        tail_size: i64 = address.tail_size
        if tag >> 8 != self._prefix_page or tail_size != self._prefix_tail_size:
            self._prepare_prefix(tag, tail_size)
            watcher = self.queue.vhost.watcher
            if watcher is not None:
                # Not to be remembered, so that each delivery comes by here.
                self.forget_prefix()
                watcher.delivered(message, self, self.no_ack)

        output = self.output
        content = message.content
        size: i64 = len(content)
        if (
            content[2] != deliveries.channel_low
            or content[1] != deliveries.channel_high
            or size > output.frame_payload_max
        ):
            content = content_on_channel(content, deliveries.channel, output.frame_payload_max)

        pieces = output.pieces
        pieces.append(self._prefix)
        pieces.append(OCTETS[tag & 255])
        if message.redelivered:
            deliveries.redeliver_count += 1
            pieces.append(address.tail_redelivered)
        else:
            pieces.append(address.tail)

        pieces.append(content)
        output.size_bytes += self._prefix_size + tail_size + size
        if not output.is_dirty:
            output.mark_dirty()

    def forget_prefix(self) -> None:
        """Prepare the next delivery anew."""
        self._prefix_page = NO_PREFIX

    def _prepare_prefix(self, tag: i64, tail_size: i64) -> None:
        """The pieces in front of the tag's last byte: the same for the next deliveries too.

        A channel with many consumers is on another page of tags whenever it serves one of them, so
        what all of them share is made once a page.

        """
        deliveries = self.deliveries
        if tail_size != self._prefix_tail_size:
            raw = self.tag.encode("utf-8", "surrogateescape")
            size = 4 + 1 + len(raw) + 8 + tail_size - 1
            self._head = (
                b"\x01"
                + deliveries.channel
                + int(size).to_bytes(4, "big")
                + b"\x00\x3c\x00\x3c"
                + bytes((len(raw),))
                + raw
            )
            self._prefix_size = len(self._head) + 8
            self._prefix_tail_size = tail_size

        page: i64 = tag >> 8
        self._prefix = self._head + deliveries.page_bytes(page)
        self._prefix_page = page
