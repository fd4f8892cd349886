"""FastStream: subscribers, publishers, requests, and acknowledgement by what a handler raises."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from faststream import AckPolicy
from faststream.exceptions import NackMessage
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue

from interop.support.names import unique_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.asyncio
WITHIN_S = 20


@pytest_asyncio.fixture
async def broker(url: str) -> AsyncIterator[RabbitBroker]:
    broker = RabbitBroker(url)
    yield broker
    await broker.stop()


@pytest.fixture
def make_queue() -> Callable[..., RabbitQueue]:
    def make(kind: str, **settings: object) -> RabbitQueue:
        return RabbitQueue(unique_name(f"faststream.{kind}"), exclusive=True, **settings)

    return make


async def test_what_a_subscriber_returns_is_published_on(
    broker: RabbitBroker, make_queue: Callable[..., RabbitQueue]
) -> None:
    orders, invoices = make_queue("orders"), make_queue("invoices")
    received: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(orders)
    @broker.publisher(invoices)
    async def invoice(order: dict[str, int]) -> str:
        return f"{order['count']} pieces"

    @broker.subscriber(invoices)
    async def take(text: str) -> None:
        await received.put(text)

    await broker.start()
    for count in range(20):
        await broker.publish({"count": count}, orders)

    texts = [await asyncio.wait_for(received.get(), WITHIN_S) for _ in range(20)]
    assert texts == [f"{count} pieces" for count in range(20)]


async def test_request_is_answered_by_direct_reply_to(
    broker: RabbitBroker, make_queue: Callable[..., RabbitQueue]
) -> None:
    queue = make_queue("rpc")

    @broker.subscriber(queue)
    async def double(number: int) -> int:
        return number * 2

    await broker.start()
    answers = [await broker.request(number, queue, timeout=WITHIN_S) for number in range(5)]
    assert [await answer.decode() for answer in answers] == [0, 2, 4, 6, 8]


async def test_topic_exchange_reaches_who_asked(
    broker: RabbitBroker, make_queue: Callable[..., RabbitQueue]
) -> None:
    exchange = RabbitExchange(
        unique_name("faststream.logs"), type=ExchangeType.TOPIC, auto_delete=True
    )
    received: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(make_queue("errors", routing_key="*.error"), exchange)
    async def take(text: str) -> None:
        await received.put(text)

    await broker.start()
    await broker.publish("all is well", routing_key="web.info", exchange=exchange)
    await broker.publish("on fire", routing_key="web.error", exchange=exchange)
    assert await asyncio.wait_for(received.get(), WITHIN_S) == "on fire"
    assert received.empty()


async def test_nacked_message_comes_again(
    broker: RabbitBroker, make_queue: Callable[..., RabbitQueue]
) -> None:
    queue = make_queue("again")
    seen: asyncio.Queue[bool] = asyncio.Queue()

    @broker.subscriber(queue)
    async def handle(_body: str, message: RabbitMessage) -> None:
        is_again = bool(message.raw_message.redelivered)
        await seen.put(is_again)
        if not is_again:
            raise NackMessage

    await broker.start()
    await broker.publish("m", queue)
    assert [await asyncio.wait_for(seen.get(), WITHIN_S) for _ in range(2)] == [False, True]


async def test_message_whose_handler_fails_is_dead_lettered(
    broker: RabbitBroker, make_queue: Callable[..., RabbitQueue]
) -> None:
    dead = make_queue("dead")
    route = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
    queue = make_queue("fragile", arguments=route)
    deaths: asyncio.Queue[dict[str, object]] = asyncio.Queue()

    @broker.subscriber(queue, ack_policy=AckPolicy.REJECT_ON_ERROR)
    async def fail(_body: str) -> None:
        raise LookupError("nothing there")

    @broker.subscriber(dead)
    async def bury(_body: str, message: RabbitMessage) -> None:
        await deaths.put(message.headers["x-death"][0])

    await broker.start()
    await broker.publish("m", queue)
    death = await asyncio.wait_for(deaths.get(), WITHIN_S)
    assert (death["reason"], death["queue"]) == ("rejected", queue.name)
