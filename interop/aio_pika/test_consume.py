"""aio-pika: deliveries, acknowledgements, prefetch, order, cancelling from either side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aio_pika import Message
from aio_pika.exceptions import ChannelPreconditionFailed, QueueEmpty
from aiormq.channel import Channel as UnderlayChannel
from aiormq.exceptions import ChannelAccessRefused

from interop.support.deadline import WITHIN_S, eventually_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


class Inbox:
    """Takes deliveries as they come and lets a test wait for the next."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()

    async def __call__(self, message: AbstractIncomingMessage) -> None:
        self._messages.put_nowait(message)

    async def take(self, number: int) -> list[AbstractIncomingMessage]:
        async with asyncio.timeout(WITHIN_S):
            return [await self._messages.get() for _ in range(number)]

    @property
    def waiting(self) -> int:
        return self._messages.qsize()


async def fill(channel: AbstractChannel, key: str, number: int, start: int = 0) -> None:
    for index in range(start, start + number):
        await channel.default_exchange.publish(Message(b"%d" % index), key)


def bodies(messages: list[AbstractIncomingMessage]) -> list[int]:
    return [int(message.body) for message in messages]


async def ready(channel: AbstractChannel, name: str) -> int:
    declared = await channel.declare_queue(name, passive=True)
    count = declared.declaration_result.message_count
    assert count is not None
    return count


def ready_is(channel: AbstractChannel, name: str, number: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await ready(channel, name) == number

    return check


async def test_deliveries_come_in_order_with_rising_tags(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    inbox = Inbox()
    await queue.consume(inbox, no_ack=True)
    await fill(channel, queue.name, 100)
    messages = await inbox.take(100)
    assert bodies(messages) == list(range(100))
    assert [message.delivery_tag for message in messages] == list(range(1, 101))
    assert not any(message.redelivered for message in messages)
    assert {(message.exchange, message.routing_key) for message in messages} == {("", queue.name)}


async def test_prefetch_bounds_what_is_unacked(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue.name, 12)
    await channel.set_qos(prefetch_count=5)
    inbox = Inbox()
    await queue.consume(inbox)
    first = await inbox.take(5)
    # The queue says what it kept: no more can be on the way.
    assert await ready(channel, queue.name) == 7
    await first[0].ack()
    (sixth,) = await inbox.take(1)
    assert int(sixth.body) == 5
    assert await ready(channel, queue.name) == 6
    await first[4].ack(multiple=True)
    assert bodies(await inbox.take(4)) == [6, 7, 8, 9]
    assert await ready(channel, queue.name) == 2


async def test_prefetch_counts_each_consumer_by_itself(channel: AbstractChannel) -> None:
    left = await channel.declare_queue(exclusive=True)
    right = await channel.declare_queue(exclusive=True)
    for queue in (left, right):
        await fill(channel, queue.name, 5)

    await channel.set_qos(prefetch_count=2)
    inboxes = [Inbox(), Inbox()]
    await left.consume(inboxes[0])
    await right.consume(inboxes[1])
    for inbox, queue in zip(inboxes, (left, right), strict=True):
        await inbox.take(2)
        assert await ready(channel, queue.name) == 3
        assert inbox.waiting == 0


async def test_two_consumers_share_a_queue(connection: AbstractConnection) -> None:
    channel = await connection.channel()
    queue = await channel.declare_queue(exclusive=True)
    inboxes = [Inbox(), Inbox()]
    for inbox in inboxes:
        await queue.consume(inbox, no_ack=True)

    await fill(channel, queue.name, 20)
    halves = [bodies(await inbox.take(10)) for inbox in inboxes]
    assert sorted(halves[0] + halves[1]) == list(range(20))


async def test_consumer_of_higher_priority_is_served_first(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    low, high = Inbox(), Inbox()
    await queue.consume(low, no_ack=True)
    await channel.set_qos(prefetch_count=3)
    await queue.consume(high, arguments={"x-priority": 10})
    await fill(channel, queue.name, 5)
    assert bodies(await high.take(3)) == [0, 1, 2]
    assert bodies(await low.take(2)) == [3, 4]


async def test_requeued_messages_return_to_their_place(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue.name, 5)
    taken = [await queue.get(no_ack=False) for _ in range(4)]
    await taken[2].nack(requeue=True)
    await taken[0].reject(requeue=True)
    await taken[1].ack()
    order = [await queue.get(no_ack=True) for _ in range(3)]
    assert [(int(each.body), each.redelivered) for each in order] == [
        (0, True),
        (2, True),
        (4, False),
    ]


async def test_closed_channel_gives_its_messages_back(connection: AbstractConnection) -> None:
    watcher = await connection.channel()
    queue = await watcher.declare_queue(exclusive=True)
    await fill(watcher, queue.name, 3)
    holder = await connection.channel()
    inbox = Inbox()
    held = await holder.get_queue(queue.name)
    await held.consume(inbox)
    messages = await inbox.take(3)
    await messages[1].ack()
    await holder.close()
    await eventually_async(ready_is(watcher, queue.name, 2))
    back = [await queue.get(no_ack=True) for _ in range(2)]
    assert [(int(each.body), each.redelivered) for each in back] == [(0, True), (2, True)]


async def test_second_ack_closes_the_channel_with_406(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue.name, 1)
    message = await queue.get(no_ack=False)
    assert message.delivery_tag is not None
    underlay = await channel.get_underlay_channel()
    await underlay.basic_ack(message.delivery_tag)
    await underlay.basic_ack(message.delivery_tag)
    with pytest.raises(ChannelPreconditionFailed, match="unknown delivery tag 1"):
        await channel.declare_queue(exclusive=True)


async def test_get_from_an_empty_queue(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    assert await queue.get(fail=False) is None
    with pytest.raises(QueueEmpty):
        await queue.get(fail=True)


async def test_get_says_how_many_are_left(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue.name, 3)
    assert [(await queue.get()).message_count for _ in range(3)] == [2, 1, 0]


async def test_iterator_takes_messages_until_left(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue.name, 10)
    await channel.set_qos(prefetch_count=4)
    seen: list[int] = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                seen.append(int(message.body))

            if len(seen) == 7:
                break

    assert seen == list(range(7))
    # What the iterator had prefetched went back.
    await eventually_async(ready_is(channel, queue.name, 3))


async def test_iterator_that_gets_nothing_times_out(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    async with queue.iterator(timeout=0.05) as messages:
        with pytest.raises(asyncio.TimeoutError):
            await messages.__anext__()


async def test_failed_processing_requeues_when_asked(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue.name, 1)
    with pytest.raises(ZeroDivisionError):
        async with (await queue.get()).process(requeue=True):
            raise ZeroDivisionError

    again = await queue.get()
    assert again.redelivered
    await again.ack()


async def test_cancelled_consumer_gets_nothing_more(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    inbox = Inbox()
    tag = await queue.consume(inbox)
    await fill(channel, queue.name, 1)
    (held,) = await inbox.take(1)
    await queue.cancel(tag)
    await fill(channel, queue.name, 2, start=1)
    assert await ready(channel, queue.name) == 2
    assert inbox.waiting == 0
    # What it held may still be acked.
    await held.ack()
    assert await ready(channel, queue.name) == 2


async def test_deleted_queue_cancels_its_consumers(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    channel, other = await connection.channel(), await connection.channel()
    queue = await channel.declare_queue(make_name("q"), durable=True)
    ended = asyncio.Event()

    async def read() -> None:
        # aio-pika ends an iterator when the broker cancels its consumer.
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()

        ended.set()

    reader = asyncio.create_task(read())
    try:

        async def consuming() -> bool:
            declared = await other.declare_queue(queue.name, passive=True)
            return declared.declaration_result.consumer_count == 1

        await eventually_async(consuming)
        underlay = await channel.get_underlay_channel()
        assert isinstance(underlay, UnderlayChannel)
        assert len(underlay.consumers) == 1
        await other.queue_delete(queue.name)

        async def cancelled() -> bool:
            return not underlay.consumers or ended.is_set()

        await eventually_async(cancelled)
        assert await channel.declare_queue(exclusive=True), "the channel stays open"
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def test_exclusive_consumer_keeps_others_out(connection: AbstractConnection) -> None:
    channel, other = await connection.channel(), await connection.channel()
    queue = await channel.declare_queue(exclusive=True)
    tag = await queue.consume(Inbox(), exclusive=True)
    theirs = await other.get_queue(queue.name)
    with pytest.raises(ChannelAccessRefused, match=f"queue '{queue.name}' .* in exclusive use"):
        await theirs.consume(Inbox())

    await queue.cancel(tag)
    await queue.consume(Inbox())


async def test_single_active_consumer_hands_over(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    queue = await channel.declare_queue(
        make_name("q"), durable=True, arguments={"x-single-active-consumer": True}
    )
    first, second = Inbox(), Inbox()
    tag = await queue.consume(first, no_ack=True)
    await queue.consume(second, no_ack=True)
    await fill(channel, queue.name, 3)
    assert bodies(await first.take(3)) == [0, 1, 2]
    assert second.waiting == 0
    await queue.cancel(tag)
    await fill(channel, queue.name, 2, start=3)
    assert bodies(await second.take(2)) == [3, 4]
