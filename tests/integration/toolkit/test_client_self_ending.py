"""A handler ends its own consumer, or closes its own client: that ends when it has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from broker.client import Client, Closed, Delivery, Message, connect, sync
from tests.helpers.waiting import until

Name = Callable[[str], str]

SOON_S: Final = 5.0
"""Less than the grace that is given."""


async def fill(client: Client, queue: str, count: int) -> None:
    await client.declare(queue)
    for number in range(count):
        await client.send(queue, number)


def handler_for(kind: str, first: Callable[[], Any]) -> Callable[[Delivery[Any]], Any]:
    """Return a handler that does something, in the event loop, in a task there or in a thread."""

    async def asynchronous(delivery: Delivery[Any]) -> None:
        await first()

    async def in_a_task(delivery: Delivery[Any]) -> None:
        await asyncio.create_task(first())

    loop = asyncio.get_running_loop()

    def blocking(delivery: Delivery[Any]) -> None:
        asyncio.run_coroutine_threadsafe(first(), loop).result(20)

    return {"async": asynchronous, "task": in_a_task, "thread": blocking}[kind]


@pytest.mark.parametrize("kind", ["async", "task", "thread"])
async def test_a_consumer_that_its_handler_ends(client: Client, name: Name, kind: str) -> None:
    orders, ended = name("orders"), asyncio.Event()
    await client.declare(orders)

    async def end() -> None:
        await consumer.cancel(grace=60)
        ended.set()

    consumer = await client.consume(orders, handler_for(kind, end), prefetch=1)
    await fill(client, orders, 3)
    async with asyncio.timeout(SOON_S):
        await ended.wait()
        await until(lambda: not consumer.running)

    left = [delivery.body async for delivery in client.receive(orders, wait=0.2, prefetch=9)]
    assert left == [1, 2]


@pytest.mark.parametrize("kind", ["async", "task", "thread"])
async def test_a_client_that_its_handler_closes(
    client: Client, name: Name, url: str, kind: str
) -> None:
    orders, ended = name("orders"), asyncio.Event()
    await fill(client, orders, 3)
    own = await connect(url)

    async def close() -> None:
        await own.close(grace=60)
        await own.close()
        with pytest.raises(Closed):
            await own.send(orders, 5)

        ended.set()

    await own.consume(orders, handler_for(kind, close), prefetch=1)
    async with asyncio.timeout(SOON_S):
        await ended.wait()
        await own.close()

    assert not own.connected
    left = [delivery.body async for delivery in client.receive(orders, wait=0.2, prefetch=9)]
    assert left == [1, 2]


async def test_a_client_that_its_handler_closes_lets_the_others_end(
    client: Client, name: Name, url: str
) -> None:
    orders, begun, is_closed, handled = name("orders"), asyncio.Event(), asyncio.Event(), []
    await fill(client, orders, 2)
    async with connect(url) as own:

        async def handle(delivery: Delivery[Any]) -> None:
            if delivery.body == 0:
                begun.set()
                await is_closed.wait()
            else:
                await begun.wait()
                closing = asyncio.create_task(own.close(grace=60))
                await until(lambda: not own._running)
                is_closed.set()
                await closing

            handled.append(delivery.body)

        await own.consume(orders, handle)
        async with asyncio.timeout(SOON_S):
            await begun.wait()
            await own.core.left.wait()

    assert handled == [0, 1]
    assert (await client.stats(orders)).ready == 0


async def test_a_handler_that_does_not_end_after_it_has_closed_its_client_is_cancelled(
    client: Client, name: Name, url: str
) -> None:
    orders, cancelled = name("orders"), asyncio.Event()
    await fill(client, orders, 1)
    own = await connect(url)

    async def close(delivery: Delivery[Any]) -> None:
        await own.close(grace=0.1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await own.consume(orders, close)
    async with asyncio.timeout(SOON_S):
        await cancelled.wait()
        await own.close()

    left = await client.get(orders, wait=SOON_S)
    assert left is not None
    assert (left.body, left.attempt) == (0, 1)


async def test_a_handler_that_closes_another_client_waits_for_it(
    client: Client, name: Name, url: str
) -> None:
    orders = name("orders")
    await client.declare(orders)
    was_connected: asyncio.Queue[bool] = asyncio.Queue()

    async def handle(delivery: Delivery[Any]) -> None:
        async with connect(url) as other:
            await other.send(orders, delivery.body)
            await consumer.cancel()

        was_connected.put_nowait(other.connected)

    consumer = await client.consume(orders, handle)
    await client.send(orders, 1)
    assert not await asyncio.wait_for(was_connected.get(), SOON_S)


@pytest.mark.parametrize("is_closing", [True, False], ids=["closes its client", "ends it"])
async def test_a_subscription_whose_handler_ends_it(
    client: Client, url: str, is_closing: bool
) -> None:
    ended = asyncio.Event()
    async with connect(url) as own:

        async def handle(message: Message[Any]) -> None:
            await (own.close(grace=60) if is_closing else subscription.cancel())
            ended.set()

        topic = "toolkit-test.self-ending"
        subscription = await own.subscribe(topic, handle)
        assert await client.publish(topic, 1)
        async with asyncio.timeout(SOON_S):
            await ended.wait()

        async def is_over() -> bool:
            return not await client.publish(topic, 2)

        await until(is_over)


def left_of(url: str, queue: str) -> list[Any]:
    with sync.connect(url) as client:
        return [delivery.body for delivery in client.receive(queue, wait=0.2, prefetch=9)]


async def test_without_await_a_handler_ends_its_consumer(
    client: Client, name: Name, url: str
) -> None:
    orders = name("orders")
    await client.declare(orders)

    def script() -> list[int]:
        handled, is_over = [], threading.Event()
        with sync.connect(url) as own:

            def handle(delivery: sync.SyncDelivery[Any]) -> None:
                handled.append(delivery.body)
                if len(handled) == 3:
                    consumer.cancel(grace=60)
                    is_over.set()

            consumer = own.consume(orders, handle, prefetch=1)
            for number in range(6):
                own.send(orders, number)

            assert is_over.wait(SOON_S)
            own.close()

        return handled

    assert await asyncio.to_thread(script) == [0, 1, 2]
    assert await asyncio.to_thread(left_of, url, orders) == [3, 4, 5]


@pytest.mark.parametrize("is_closed_again", [True, False], ids=["closed again", "left alone"])
async def test_without_await_a_handler_closes_its_client(
    client: Client, name: Name, url: str, is_closed_again: bool
) -> None:
    orders = name("orders")
    await fill(client, orders, 3)

    def script() -> None:
        is_over = threading.Event()
        own = sync.connect(url)

        def handle(delivery: sync.SyncDelivery[Any]) -> None:
            own.close(grace=60)
            own.close(grace=60)
            is_over.set()

        own.consume(orders, handle, prefetch=1)
        assert is_over.wait(SOON_S)
        if is_closed_again:
            own.close()

        own._portal._thread.join(SOON_S)
        assert not own._portal._thread.is_alive()
        with pytest.raises(Closed):
            own.send(orders, 5)

    await asyncio.to_thread(script)
    assert await asyncio.to_thread(left_of, url, orders) == [1, 2]
