"""The same broker in the standard library's unittest."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING

import aio_pika

from broker.testing import Broker
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from aiormq.abc import FieldTable


class Orders(unittest.TestCase):
    def setUp(self) -> None:
        self.broker = Broker().start()
        self.addCleanup(self.broker.stop)

    def test_an_order_waits_until_somebody_takes_it(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self.broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("orders")
            channel.basic_publish("", "orders", b"one hare")
            self.broker.wait_idle()
            self.broker.queue("orders").assert_ready(1)


class AsyncOrders(unittest.IsolatedAsyncioTestCase):
    async def test_an_order_expires_after_a_day(self) -> None:
        async with Broker() as broker:
            connection = await aio_pika.connect(broker.url)
            async with connection, connection.channel() as channel:
                day: FieldTable = {"x-message-ttl": 86_400_000}
                await channel.declare_queue("orders", arguments=day)
                await channel.default_exchange.publish(aio_pika.Message(b"one hare"), "orders")
                await broker.clock.advance(86_401)
                broker.queue("orders").assert_expired(1).assert_empty()
