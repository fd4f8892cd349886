"""A message that nobody can read is parked after its tries, and others are served meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aio_pika

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage
    from aiormq.abc import FieldTable

    from broker.testing import Broker

ARGUMENTS: FieldTable = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 3,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "parked",
}


async def handle(message: AbstractIncomingMessage) -> None:
    """The program under test."""
    async with message.process(requeue=True):
        json.loads(message.body)


async def test_a_poison_message_is_parked_after_three_returns(leveret: Broker) -> None:
    connection = await aio_pika.connect(leveret.url)
    async with connection, connection.channel() as channel:
        await channel.declare_queue("parked", durable=True)
        queue = await channel.declare_queue("work", durable=True, arguments=ARGUMENTS)
        exchange = channel.default_exchange
        for body in (b"{}", b"poison", b"[]"):
            await exchange.publish(aio_pika.Message(body), "work")

        await queue.consume(handle)
        await leveret.wait_idle()

        work = leveret.queue("work").assert_acked(2).assert_requeued(4).assert_empty()
        work.assert_dead_lettered(1, reason="delivery_limit", to="parked")
        leveret.queue("parked").assert_bodies("poison")
