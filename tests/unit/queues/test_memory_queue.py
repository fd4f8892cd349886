"""A queue in memory behaves as one that has a broker."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client.errors import Closed, InvalidValue, QueueFull
from broker.client.retry import Fixed, Retry
from broker.queues import Consumer, Delivery, MemoryQueue, Producer, Queue

if TYPE_CHECKING:
    from broker.queues.memory import MemoryDelivery


async def take(queue: MemoryQueue[int]) -> MemoryDelivery[int]:
    delivery = await queue.take()
    assert delivery is not None
    return delivery


async def drained(queue: MemoryQueue[int]) -> list[int]:
    found = []
    async for delivery in queue:
        async with delivery as number:
            found.append(number)

    return found


async def waiting(task: asyncio.Task[Any]) -> bool:
    """Whether a task waits for something that others have to do."""
    for _ in range(5):
        await asyncio.sleep(0)

    return not task.done()


async def test_it_satisfies_the_protocols() -> None:
    queue: Queue[int] = MemoryQueue()
    producer: Producer[int] = queue
    consumer: Consumer[int] = queue
    await producer.send(1)
    delivery: Delivery[int] = await anext(aiter(consumer))

    assert isinstance(queue, Queue)
    assert isinstance(producer, Producer)
    assert isinstance(consumer, Consumer)
    assert isinstance(delivery, Delivery)


async def test_messages_come_in_order_and_iteration_ends_when_it_is_closed() -> None:
    async with MemoryQueue[int]() as queue:
        for number in range(5):
            await queue(number)

    assert await drained(queue) == [0, 1, 2, 3, 4]


async def test_a_failed_message_is_tried_again_and_then_a_dead_letter() -> None:
    """python-cq's is lost."""
    queue = MemoryQueue[int](retry=Retry(2, Fixed(0)))
    await queue.send(7)
    await queue.close()
    attempts = []
    async for delivery in queue:
        attempts.append(delivery.attempt)
        with pytest.raises(ZeroDivisionError):
            async with delivery as number:
                assert number / 0

    [letter] = queue.dead
    assert attempts == [1, 2]
    assert (letter.body, letter.attempt, letter.reason) == (7, 2, "attempts")
    assert letter.error_type == "ZeroDivisionError"


async def test_a_cancelled_message_goes_back_to_the_front_uncounted() -> None:
    """python-cq settles it in no way."""
    queue = MemoryQueue[int]()
    await queue.send(1)
    await queue.send(2)
    entered = asyncio.Event()

    async def handle() -> None:
        async with await take(queue):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(handle())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    delivery = await take(queue)
    async with delivery as number:
        assert (number, delivery.attempt) == (1, 1)


async def test_a_full_queue_makes_senders_wait_in_order() -> None:
    queue = MemoryQueue[int](maxsize=1)
    await queue.send(1)
    senders = [asyncio.create_task(queue.send(number)) for number in (2, 3)]
    assert await waiting(senders[0])
    with pytest.raises(QueueFull):
        queue.send_nowait(9)

    await queue.close()
    assert await drained(queue) == [1, 2, 3]
    await asyncio.gather(*senders)


async def test_with_room_for_none_a_sender_waits_for_a_taker() -> None:
    queue = MemoryQueue[int](maxsize=0)
    sender = asyncio.create_task(queue.send(1))
    assert await waiting(sender)

    async with await take(queue) as number:
        assert number == 1

    await sender


async def test_a_taker_waits_for_a_sender() -> None:
    queue = MemoryQueue[int](maxsize=0)
    taker = asyncio.create_task(queue.take())
    assert await waiting(taker)
    queue.send_nowait(5)

    delivery = await taker
    assert delivery is not None
    async with delivery as number:
        assert number == 5


async def test_a_sender_that_gives_up_leaves_nothing() -> None:
    queue = MemoryQueue[int](maxsize=0)
    sender = asyncio.create_task(queue.send(1))
    assert await waiting(sender)
    sender.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sender

    assert queue.size == 0


async def test_a_taker_that_gives_up_takes_nothing_with_it() -> None:
    queue = MemoryQueue[int]()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    assert await waiting(second)
    queue.send_nowait(1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await second is not None


async def test_several_iterations_compete() -> None:
    queue = MemoryQueue[int]()
    for number in range(10):
        await queue.send(number)

    await queue.close()
    parts = await asyncio.gather(drained(queue), drained(queue))

    assert sorted(parts[0] + parts[1]) == list(range(10))


async def test_an_iteration_waits_for_what_may_still_be_tried_again() -> None:
    queue = MemoryQueue[int](retry=Retry(2, Fixed(0)))
    await queue.send(1)
    await queue.close()
    entered, fail = asyncio.Event(), asyncio.Event()

    async def fail_once() -> None:
        async with await take(queue):
            entered.set()
            await fail.wait()
            raise ValueError

    failing = asyncio.create_task(fail_once())
    await entered.wait()
    draining = asyncio.create_task(drained(queue))
    assert await waiting(draining)
    fail.set()
    with pytest.raises(ValueError, match=r"^$"):
        await failing

    assert await draining == [1]


async def test_a_closed_queue_takes_no_more() -> None:
    """With an error of ours, where python-cq lets that of a library through."""
    queue = MemoryQueue[int]()
    await queue.close()
    await queue.close()

    assert queue.closed
    with pytest.raises(Closed):
        await queue.send(1)

    with pytest.raises(Closed):
        queue.send_nowait(1)


async def test_it_can_be_waited_for() -> None:
    queue = MemoryQueue[int]()
    await queue.join()
    await queue.send(1)
    joining = asyncio.create_task(queue.join())
    async with await take(queue):
        assert queue.in_hand == 1
        assert await waiting(joining)

    await joining
    assert (queue.size, queue.in_hand) == (0, 0)


@pytest.mark.parametrize("maxsize", [-1, 1.5, math.nan, True, "3"])
def test_sizes_that_make_no_sense_are_refused(maxsize: object) -> None:
    with pytest.raises(InvalidValue):
        MemoryQueue[int](cast("Any", maxsize))


async def test_a_block_can_be_drained_to_its_end() -> None:
    handled = []

    async def handle(number: int) -> None:
        handled.append(number)

    async with MemoryQueue[int]() as queue, queue.draining(handle, concurrency=3):
        for number in range(20):
            await queue.send(number)

    assert sorted(handled) == list(range(20))


async def test_what_goes_wrong_in_the_block_is_raised_as_it_is() -> None:
    """python-cq drops what is left, and raises a group."""
    handled: list[int] = []
    queue = MemoryQueue[int]()

    async def handle(number: int) -> None:
        handled.append(number)

    async def break_down() -> None:
        async with queue.draining(handle):
            await queue.send(1)
            raise KeyError

    with pytest.raises(KeyError):
        await break_down()

    assert len(handled) + queue.size == 1


async def test_draining_ends_in_the_time_it_has() -> None:
    queue: MemoryQueue[int] = MemoryQueue()
    begun = asyncio.Event()

    async def handle(number: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(5):
        async with queue.draining(handle, timeout=0.01):
            await queue.send(1)
            await begun.wait()

    assert (queue.size, queue.in_hand) == (1, 0), "put back"
