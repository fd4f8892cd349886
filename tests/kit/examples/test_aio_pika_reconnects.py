"""A consumer on aio-pika's robust connection lives through whatever happens to its socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aio_pika
import pytest

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage

    from broker.testing import Broker


# aio-pika leaves a socket that was lost to the garbage collector, which complains.
pytestmark = pytest.mark.filterwarnings("ignore")


class Shop:
    """The program under test: takes orders, and says which it has taken."""

    def __init__(self) -> None:
        self.orders: list[bytes] = []

    async def run(self, url: str, stopped: asyncio.Event) -> None:
        connection = await aio_pika.connect_robust(url, reconnect_interval=0.01)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("orders", durable=True)
            await queue.consume(self._take)
            await stopped.wait()

    async def _take(self, message: AbstractIncomingMessage) -> None:
        async with message.process():
            self.orders.append(message.body)


async def publish(leveret: Broker, body: bytes) -> None:
    connection = await aio_pika.connect(leveret.url)
    async with connection, connection.channel() as channel:
        await channel.default_exchange.publish(aio_pika.Message(body), "orders")


@pytest.mark.parametrize("fault", ["dropped", "closed", "restarted"])
async def test_the_shop_goes_on_after_its_connection_is_gone(leveret: Broker, fault: str) -> None:
    shop, stopped = Shop(), asyncio.Event()
    task = asyncio.create_task(shop.run(leveret.url, stopped))
    await leveret.wait_for(lambda: leveret.queue("orders").assert_consumers(1))
    await publish(leveret, b"first")
    await leveret.wait_for(lambda: leveret.queue("orders").assert_acked(1))

    if fault == "dropped":
        leveret.faults.drop_connections()
    elif fault == "closed":
        leveret.faults.close_connections(reason="maintenance")
    else:
        await leveret.faults.restart(is_crash=True)

    await leveret.wait_for(lambda: leveret.queue("orders").assert_consumers(1))
    await publish(leveret, b"second")
    await leveret.wait_for(lambda: leveret.queue("orders").assert_acked(2))
    assert shop.orders == [b"first", b"second"]
    stopped.set()
    await task
