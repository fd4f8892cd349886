"""Consumers: how many at a time, when a message is forgotten, how they end and come back."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client import (
    Client,
    Delivery,
    Fixed,
    InvalidValue,
    QueueSpec,
    Retry,
    connect,
)
from broker.embedded import Broker
from tests.helpers.toolkit import Heard, needs_leveret

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.client.consumer import Ack
    from tests.helpers.proxy import Proxy

    Name = Callable[[str], str]


@dataclass
class Order:
    hares: int


class Handler:
    """Notes what it gets, and can be made to wait."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.running = 0
        self.running_max = 0
        self.go = asyncio.Event()
        self.go.set()
        self._changed = asyncio.Event()

    async def __call__(self, delivery: Delivery[Any]) -> None:
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        self._changed.set()
        try:
            await self.go.wait()
            self.bodies.append(delivery.body)
        finally:
            self.running -= 1
            self._changed.set()

    async def has(self, count: int) -> None:
        while len(self.bodies) < count:
            self._changed.clear()
            await self._changed.wait()

    async def sees(self, body: object) -> None:
        while body not in self.bodies:
            self._changed.clear()
            await self._changed.wait()

    async def runs(self, count: int) -> None:
        while self.running < count:
            self._changed.clear()
            await self._changed.wait()


async def fill(client: Client, queue: str, count: int, spec: QueueSpec | None = None) -> None:
    await client.declare(queue, spec)
    await asyncio.gather(*(client.send(queue, number) for number in range(count)))


async def test_one_at_a_time_keeps_the_order(client: Client, name: Name) -> None:
    orders, handle = name("orders"), Handler()
    await fill(client, orders, 30)
    async with await client.consume(orders, handle, prefetch=1):
        await handle.has(30)

    assert handle.bodies == list(range(30))
    assert handle.running_max == 1
    assert (await client.stats(orders)).ready == 0


async def test_as_many_at_a_time_as_are_fetched(client: Client, name: Name) -> None:
    orders, handle = name("orders"), Handler()
    await fill(client, orders, 10)
    handle.go.clear()
    async with await client.consume(orders, handle, prefetch=4) as consumer:
        await handle.runs(4)
        assert consumer.running == 4
        handle.go.set()
        await handle.has(10)

    assert handle.running_max == 4


async def test_a_plain_function_runs_in_a_thread(client: Client, name: Name) -> None:
    """In dmq it blocks the loop."""
    orders = name("orders")
    threads: list[threading.Thread] = []
    loop, handled = asyncio.get_running_loop(), asyncio.Event()

    def handle(delivery: Delivery[Any]) -> None:
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(handled.set)

    await fill(client, orders, 1)
    async with await client.consume(orders, handle):
        await handled.wait()

    assert threads[0] is not threading.current_thread()
    assert (await client.stats(orders)).ready == 0


async def test_a_handler_may_be_anything_that_can_be_called(client: Client, name: Name) -> None:
    orders, handle = name("orders"), Handler()
    await fill(client, orders, 1)
    async with await client.consume(orders, lambda delivery: handle(delivery)):
        await handle.has(1)


async def test_bodies_are_of_the_type_that_was_asked_for(client: Client, name: Name) -> None:
    orders = name("orders")
    heard = Heard(client)
    bodies: list[Order] = []
    handled = asyncio.Event()

    async def handle(delivery: Delivery[Order]) -> None:
        bodies.append(delivery.body)
        handled.set()

    await client.declare(orders)
    await client.send(orders, "no order")
    await client.send(orders, Order(2))
    async with await client.consume(orders, handle, type=Order, prefetch=1):
        await handled.wait()

    assert bodies == [Order(2)]
    assert [event.kind for event in heard.events] == ["dead", "handler_failed"]


async def test_a_policy_can_be_given_to_the_consumer(client: Client, name: Name) -> None:
    orders, attempts = name("orders"), []
    heard = Heard(client)

    async def fail(delivery: Delivery[Any]) -> None:
        attempts.append(delivery.attempt)
        raise ValueError

    await fill(client, orders, 1)
    async with await client.consume(orders, fail, retry=Retry(2, Fixed(0))):
        await heard.wait_for("dead")

    assert attempts == [1, 2]


async def test_before_is_at_most_once(client: Client, name: Name) -> None:
    orders = name("orders")
    heard = Heard(client)

    async def fail(delivery: Delivery[Any]) -> None:
        assert delivery.settled
        raise ValueError

    await fill(client, orders, 1)
    async with await client.consume(orders, fail, ack="before"):
        await heard.wait_for("handler_failed")

    stats = await client.stats(orders)
    assert (stats.ready, stats.dead) == (0, 0)


async def test_manual_leaves_it_to_the_handler(client: Client, name: Name) -> None:
    orders = name("orders")
    held: asyncio.Queue[Delivery[Any]] = asyncio.Queue()
    await fill(client, orders, 3, QueueSpec(retry=Retry(1)))
    async with await client.consume(orders, held.put, ack="manual"):
        first, second, _ = [await held.get() for _ in range(3)]
        assert await first.ack()
        assert await second.fail()

    stats = await client.stats(orders)
    assert (stats.ready, stats.dead) == (1, 1)


async def test_manual_settles_what_fails(client: Client, name: Name) -> None:
    orders = name("orders")
    heard = Heard(client)

    async def fail(delivery: Delivery[Any]) -> None:
        raise ValueError

    await fill(client, orders, 1, QueueSpec(retry=Retry(1)))
    async with await client.consume(orders, fail, ack="manual"):
        await heard.wait_for("dead")


class Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TooLate(BaseException):
    """No Exception, as the time limits of some libraries are not."""


@pytest.mark.parametrize("ack", ["after", "manual"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "in a thread"])
@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        StopIteration(),
        SystemExit(1),
        GeneratorExit(),
        TooLate(),
        Untellable(),
        ValueError("no file \udcff"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_it_has_failed(
    client: Client, name: Name, error: BaseException, is_async: bool, ack: Ack
) -> None:
    """It is counted, and neither comes again at once for ever nor stays open."""
    orders, attempts = name("orders"), []
    heard = Heard(client)

    def blocking(delivery: Delivery[Any]) -> None:
        attempts.append(delivery.attempt)
        raise error

    async def asynchronous(delivery: Delivery[Any]) -> None:
        blocking(delivery)

    await fill(client, orders, 1, QueueSpec(retry=Retry(2, Fixed(0))))
    async with await client.consume(orders, asynchronous if is_async else blocking, ack=ack):
        await heard.wait_for("dead")

    assert attempts == [1, 2]
    assert await client.dead(orders).count() == 1


async def test_cancelled_it_lets_handlers_end(client: Client, name: Name) -> None:
    orders, handle = name("orders"), Handler()
    await fill(client, orders, 5)
    handle.go.clear()
    consumer = await client.consume(orders, handle, prefetch=2)
    await handle.runs(2)
    asyncio.get_running_loop().call_soon(handle.go.set)
    await consumer.cancel()
    await consumer.cancel()

    assert sorted(handle.bodies) == [0, 1]
    assert (await client.stats(orders)).ready == 3


async def test_those_that_do_not_end_in_time_hand_back(client: Client, name: Name) -> None:
    """In pymq that costs an attempt; dmq loses the work."""
    orders, handle = name("orders"), Handler()
    await fill(client, orders, 5, QueueSpec(retry=Retry(1)))
    handle.go.clear()
    consumer = await client.consume(orders, handle, prefetch=2)
    await handle.runs(2)
    await consumer.cancel(grace=0.01)
    stats = await client.stats(orders)
    delivery = await client.get(orders)

    assert delivery is not None
    assert (stats.ready, stats.dead, delivery.attempt, delivery.body) == (5, 0, 1, 0)


async def test_a_handler_may_cancel_its_own_consumer(client: Client, name: Name) -> None:
    orders = name("orders")
    done = asyncio.Event()
    await fill(client, orders, 3)

    async def handle(delivery: Delivery[Any]) -> None:
        await consumer.cancel()
        done.set()

    consumer = await client.consume(orders, handle, prefetch=1)
    await done.wait()
    assert await client.get(orders, wait=5) is not None


async def test_closing_the_client_hands_back_too(client: Client, name: Name, url: str) -> None:
    orders, handle = name("orders"), Handler()
    await fill(client, orders, 3, QueueSpec(retry=Retry(1)))
    handle.go.clear()
    other = await connect(url)
    await other.consume(orders, handle, prefetch=3)
    await handle.runs(3)
    await other.close(grace=0.01)

    assert (await client.stats(orders)).ready == 3
    assert (await client.stats(orders)).dead == 0


async def test_it_comes_back_with_the_connection(client: Client, proxy: Proxy, name: Name) -> None:
    orders, handle = name("orders"), Handler()
    await client.declare(orders)
    async with connect(proxy.url) as other:
        heard = Heard(other)
        await other.consume(orders, handle, prefetch=1)
        await client.send(orders, 1)
        await handle.has(1)
        await proxy.cut()
        await heard.wait_for("reconnected")
        await client.send(orders, 2)
        # The first one comes once more, where its acknowledgement did not get through.
        await handle.sees(2)


async def test_a_handler_at_work_when_the_connection_goes_may_finish(
    proxy: Proxy, name: Name
) -> None:
    """What it did counts for nothing with the broker, so the message comes again."""
    orders, handle = name("orders"), Handler()
    async with connect(proxy.url) as client:
        heard = Heard(client)
        await client.declare(orders)
        await client.send(orders, 1)
        handle.go.clear()
        async with await client.consume(orders, handle, prefetch=1):
            await handle.runs(1)
            await proxy.cut()
            await heard.wait_for("reconnected")
            handle.go.set()
            await handle.has(2)

        assert handle.bodies == [1, 1]
        assert (await client.stats(orders)).ready == 0


async def test_when_its_queue_is_deleted_that_is_told_and_it_comes_back_with_it(
    client: Client, name: Name, url: str
) -> None:
    """In pymq it is silently gone."""
    orders, handle = name("orders"), Handler()
    heard = Heard(client)
    await client.declare(orders)
    await client.consume(orders, handle)
    async with connect(url) as other:
        await other.delete(orders)
        event = await heard.wait_for("consumer_lost")
        await other.declare(orders)
        await heard.wait_for("consumer_restored")
        await other.send(orders, 1)
        await handle.has(1)

    assert event.queue == orders


async def test_one_that_cannot_come_back_keeps_trying(
    client: Client, proxy: Proxy, name: Name
) -> None:
    orders, other_orders, handle = name("orders"), name("others"), Handler()
    await client.declare(orders)
    await client.declare(other_orders)
    async with connect(proxy.url) as other:
        heard = Heard(other)
        await other.consume(orders, handle)
        await other.consume(other_orders, handle)
        await proxy.close()
        await client.delete(orders)
        await proxy.open()
        await heard.wait_for("reconnected")
        await client.send(other_orders, "the other one works")
        await handle.has(1)
        await client.declare(orders)
        await heard.wait_for("consumer_restored")
        await client.send(orders, "and this one again")
        await handle.has(2)


@pytest.mark.parametrize("arguments", [{"prefetch": 0}, {"prefetch": 70000}, {"ack": "auto"}])
async def test_arguments_that_make_no_sense_are_refused(
    client: Client, name: Name, arguments: dict[str, Any]
) -> None:
    orders = name("orders")
    await client.declare(orders)
    with pytest.raises(InvalidValue):
        await client.consume(orders, print, **cast("Any", arguments))


@needs_leveret
async def test_what_has_ended_leaves_no_channel_behind(name: Name) -> None:
    orders = name("orders")
    async with Broker(log_level="error") as broker, connect(broker.url) as client:
        await client.declare(orders)
        await client.send(orders, 1)
        [connection] = cast("Any", broker.node.connections)
        before = len(connection.channels)
        for _ in range(5):
            async with await client.consume(orders, print, ack="manual"):
                pass

            queue = client.queue(orders)
            delivery = await queue.take()
            await queue.close()
            assert delivery is not None
            await delivery.requeue()
            waited = await client.get(orders, wait=1)
            assert waited is not None
            await waited.requeue()
            async with await client.subscribe("a", print):
                pass

        await client.stats(orders)
        assert len(connection.channels) <= before + 1
