"""A queue at a broker as an object, by itself and under a pump."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import Client, Closed, Fixed, InvalidValue, QueueSpec, Retry, connect
from broker.queues import AmqpQueue, Pump, Queue, RetryMiddleware
from tests.helpers.toolkit import Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.proxy import Proxy

    Name = Callable[[str], str]


@dataclass
class Order:
    hares: int


class Bus:
    """A message bus, as far as a pump is concerned."""

    def __init__(self, count: int = 0) -> None:
        self.orders: list[Any] = []
        self.running = 0
        self.running_max = 0
        self.has_all = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.is_full = asyncio.Event()
        self._count = count

    async def dispatch(self, order: Any) -> None:
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        if self.running == self._count:
            self.is_full.set()

        try:
            await self.go.wait()
            self.orders.append(order)
        finally:
            self.running -= 1

        if len(self.orders) >= self._count:
            self.has_all.set()


async def test_it_is_sent_to_and_iterated_over(client: Client, name: Name) -> None:
    orders: AmqpQueue[Order] = client.queue(name("orders"), Order)
    assert isinstance(orders, Queue)
    found = []
    async with orders:
        sent = await orders.send(Order(1))
        await orders(Order(2))
        async for delivery in orders:
            async with delivery as order:
                found.append(order)

            if len(found) == 2:
                break

    assert found == [Order(1), Order(2)]
    assert sent.id
    assert (await client.stats(orders.name)).ready == 0


async def test_it_is_declared_as_it_was_wanted(client: Client, name: Name) -> None:
    queue = client.queue(name("orders"), int, spec=QueueSpec(max_length=5))
    await queue.send(1)

    assert client.core.specs[queue.name].max_length == 5


async def test_iteration_ends_when_it_is_closed(client: Client, name: Name) -> None:
    orders = client.queue(name("orders"), int)
    await orders.send(1)
    taken = asyncio.Event()
    numbers = []

    async def take_all() -> None:
        async for delivery in orders:
            async with delivery as number:
                numbers.append(number)

            taken.set()

    taking = asyncio.create_task(take_all())
    await taken.wait()
    await orders.close()
    await taking

    assert numbers == [1]
    assert orders.closed
    with pytest.raises(Closed):
        await orders.send(2)


async def test_closed_it_hands_back_what_nobody_has_begun(client: Client, name: Name) -> None:
    orders = client.queue(name("orders"), int, prefetch=5)
    for number in range(5):
        await orders.send(number)

    async for delivery in orders:
        await delivery.ack()
        break

    await orders.close()
    assert (await client.stats(orders.name)).ready == 4


async def test_iterations_share_what_is_fetched(client: Client, name: Name) -> None:
    orders = client.queue(name("orders"), int)
    for number in range(20):
        await orders.send(number)

    bus = Bus(20)
    pumps = [asyncio.create_task(Pump(orders, bus.dispatch).drain()) for _ in range(3)]
    await bus.has_all.wait()
    await orders.close()
    await asyncio.gather(*pumps)

    assert sorted(bus.orders) == list(range(20))


async def test_a_pump_in_front_of_a_bus(client: Client, name: Name) -> None:
    orders, bus = client.queue(name("orders"), Order), Bus(5)
    for number in range(5):
        await orders.send(Order(number))

    bus.go.clear()
    async with Pump(orders, bus.dispatch).draining(concurrency=5, graceful=True, timeout=5):
        await bus.is_full.wait()
        bus.go.set()
        await bus.has_all.wait()

    assert sorted(order.hares for order in bus.orders) == list(range(5))
    assert bus.running_max == 5, "it fetches as many as it handles"
    assert (await client.stats(orders.name)).ready == 0


async def test_a_graceful_end_has_its_time_and_then_hands_back(client: Client, name: Name) -> None:
    orders, bus = client.queue(name("orders"), int, spec=QueueSpec(retry=Retry(1))), Bus(2)
    for number in range(3):
        await orders.send(number)

    bus.go.clear()
    async with orders.draining(bus.dispatch, concurrency=2, timeout=0.01):
        await bus.is_full.wait()

    await orders.close()
    # They are back when the broker has read that, which RabbitMQ does on each channel by itself.
    back = [await client.get(orders.name, wait=5) for _ in range(3)]
    stats = await client.stats(orders.name)
    assert None not in back
    assert (bus.orders, stats.ready, stats.dead) == ([], 0, 0)


async def test_what_fails_is_tried_again_by_the_queue(client: Client, name: Name) -> None:
    orders = client.queue(name("orders"), int, spec=QueueSpec(retry=Retry(2, Fixed(0))))
    heard = Heard(client)
    calls = 0

    async def fail(number: int) -> None:
        nonlocal calls
        calls += 1
        raise ValueError(number)

    await orders.send(7)
    pump = Pump(orders, fail, middlewares=(RetryMiddleware(3),))
    async with pump.draining():
        await heard.wait_for("dead")

    [letter] = await client.dead(orders.name).list()
    assert (calls, letter.attempt, letter.error) == (6, 2, "7")


async def test_a_poison_message_does_not_end_the_pump(client: Client, name: Name) -> None:
    orders, bus = client.queue(name("orders"), Order), Bus(1)
    await client.declare(orders.name)
    await client.send(orders.name, "no order")
    await orders.send(Order(1))
    async with Pump(orders, bus.dispatch).draining():
        await bus.has_all.wait()

    assert bus.orders == [Order(1)]
    assert [letter.reason for letter in await client.dead(orders.name).list()] == ["undecodable"]


async def test_iteration_survives_the_connection(client: Client, proxy: Proxy, name: Name) -> None:
    async with connect(proxy.url) as away:
        heard = Heard(away)
        orders, bus = away.queue(name("orders"), int, prefetch=5), Bus(1)
        async with Pump(orders, bus.dispatch).draining():
            await orders.send(1)
            await bus.has_all.wait()
            bus.has_all.clear()
            await proxy.cut()
            await heard.wait_for("reconnected")
            await client.send(orders.name, 2)
            while 2 not in bus.orders:
                await bus.has_all.wait()
                bus.has_all.clear()


async def test_closing_the_client_ends_iterations(url: str, name: Name) -> None:
    client = await connect(url)
    orders, bus = client.queue(name("orders"), int), Bus(1)
    pumping = asyncio.create_task(Pump(orders, bus.dispatch).drain())
    await orders.send(1)
    await bus.has_all.wait()
    await client.close()
    await pumping


@pytest.mark.parametrize("wait", [0.3, 0])
async def test_a_client_is_iterated_over_for_a_while(
    client: Client, name: Name, wait: float
) -> None:
    """Or no longer than it takes to get what is there."""
    orders = name("orders")
    await client.declare(orders)
    for number in range(3):
        await client.send(orders, number)

    found = []
    async for delivery in client.receive(orders, wait=wait, type=int):
        async with delivery as number:
            found.append(number)

    assert found == [0, 1, 2]


async def test_what_it_holds_when_one_goes_away_goes_back(client: Client, name: Name) -> None:
    orders = name("orders")
    await client.declare(orders)
    for number in range(3):
        await client.send(orders, number)

    received = client.receive(orders, prefetch=3)
    async for delivery in received:
        await delivery.ack()
        break

    await received.aclose()
    again = [await client.get(orders, wait=5) for _ in range(2)]
    assert [one.body for one in again if one is not None] == [1, 2]


async def test_a_queue_can_feed_another(client: Client, name: Name) -> None:
    """A queue is a function of one argument, and so is what a pump calls."""
    first, second = client.queue(name("first"), int), client.queue(name("second"), int)
    await first.send(5)
    async with first.draining(second):
        async for delivery in second:
            assert await delivery.__aenter__() == 5
            await delivery.ack()
            break


async def test_arguments_that_make_no_sense_are_refused(client: Client, name: Name) -> None:
    with pytest.raises(InvalidValue):
        client.queue(name("orders"), prefetch=0)
