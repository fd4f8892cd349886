"""aio-pika: the robust connection through restarts of the broker.

The client declares again what it had declared, so none of this needs messages that survive.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aio_pika
import pytest
from aio_pika import ExchangeType, Message
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, ConnectionClosed
from pamqp.commands import Basic

from interop.support.deadline import WITHIN_S, eventually_async

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection

    from interop.aio_pika.fixtures import RestartableBroker

pytestmark = pytest.mark.asyncio

RECONNECT_S = 0.1


async def robust(url: str) -> AbstractRobustConnection:
    return await aio_pika.connect_robust(url, reconnect_interval=RECONNECT_S)


async def test_stopping_broker_says_goodbye_with_320(restartable: RestartableBroker) -> None:
    async with await aio_pika.connect(restartable.url) as connection:
        closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        connection.close_callbacks.add(lambda _, error: closed.set_result(error))
        await connection.channel()
        await restartable.stop()
        error = await asyncio.wait_for(closed, WITHIN_S)

    assert isinstance(error, ConnectionClosed)
    assert "CONNECTION_FORCED - broker forced connection closure" in str(error)


async def test_consumer_and_topology_come_back_after_a_restart(
    restartable: RestartableBroker,
) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: AbstractIncomingMessage) -> None:
        async with message.process():
            received.put_nowait(message.body)

    connection = await robust(restartable.url)
    async with connection:
        reconnected = asyncio.Event()
        connection.reconnect_callbacks.add(lambda _: reconnected.set())
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=3)
        exchange = await channel.declare_exchange("reconnect.x", ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue("reconnect.q", durable=True)
        await queue.bind(exchange, "a.#")
        await queue.consume(take)
        await exchange.publish(Message(b"before"), "a.b")
        assert await asyncio.wait_for(received.get(), WITHIN_S) == b"before"

        for number in range(2):
            reconnected.clear()
            await restartable.stop()
            await restartable.start()
            await asyncio.wait_for(reconnected.wait(), WITHIN_S)
            body = b"after restart %d" % number
            await exchange.publish(Message(body), "a.b")
            assert await asyncio.wait_for(received.get(), WITHIN_S) == body


async def test_exclusive_queue_comes_back_after_a_restart(restartable: RestartableBroker) -> None:
    connection = await robust(restartable.url)
    async with connection:
        reconnected = asyncio.Event()
        connection.reconnect_callbacks.add(lambda _: reconnected.set())
        channel = await connection.channel()
        queue = await channel.declare_queue("reconnect.exclusive", exclusive=True)
        await restartable.stop()
        await restartable.start()
        await asyncio.wait_for(reconnected.wait(), WITHIN_S)
        await channel.default_exchange.publish(Message(b"m"), queue.name)
        assert (await queue.get(no_ack=True)).body == b"m"


async def test_publishing_program_carries_on_when_the_broker_is_back(
    restartable: RestartableBroker,
) -> None:
    async with await robust(restartable.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("reconnect.publish", durable=True)
        await restartable.stop()
        await restartable.start()

        async def published() -> bool:
            try:
                async with asyncio.timeout(1):
                    confirmation = await channel.default_exchange.publish(Message(b"m"), queue.name)
            except (TimeoutError, *CONNECTION_EXCEPTIONS, asyncio.CancelledError):
                return False

            # A return: the connection is back, the queue not yet.
            return isinstance(confirmation, Basic.Ack)

        await eventually_async(published)
        assert (await queue.get(no_ack=True)).body == b"m"
