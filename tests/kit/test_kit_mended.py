"""Faults that end when they are healed, answers that stay lost, and a history that says its end."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest

from broker.testing import history
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from broker.testing import Broker


def connect(broker: Broker) -> Any:
    parameters = pika.URLParameters(broker.url)
    parameters.socket_timeout = 5
    parameters.blocked_connection_timeout = 5
    return pika.BlockingConnection(parameters)


async def test_a_healed_connection_is_not_slow_any_more(leveret: Broker) -> None:
    connection = await aio_pika.connect(leveret.url)
    async with connection, connection.channel() as channel:
        queue = await channel.declare_queue("q")
        leveret.faults.slow(10)
        declared = asyncio.ensure_future(channel.declare_queue("other"))
        await leveret.wait_for(lambda: "other" in leveret.queues)
        leveret.faults.heal()
        await asyncio.wait_for(declared, 2)
        await asyncio.wait_for(queue.purge(), 2)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_slow_is_more_than_nothing(leveret: Broker, value: float) -> None:
    with pytest.raises(ValueError, match="bytes per second"):
        leveret.faults.slow(value)


async def test_a_lost_answer_is_not_given_with_others(leveret: Broker) -> None:
    connection = await aio_pika.connect(leveret.url)
    async with connection, connection.channel() as channel:
        await channel.declare_queue("q")

        def publish(body: bytes) -> asyncio.Future[object]:
            message = aio_pika.Message(body)
            return asyncio.ensure_future(channel.default_exchange.publish(message, "q"))

        held = leveret.faults.hold_confirms()
        lost = publish(b"lost")
        await leveret.wait_for(lambda: held.count == 1)
        held.lose()
        await asyncio.gather(*[publish(b"%d" % number) for number in range(10)])

        assert not lost.done()
        assert not leveret.history.confirmed(body=b"lost")
        lost.cancel()


def test_a_history_that_is_full_says_so(leveret: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "EVENTS_MAX", 3)
    connection = connect(leveret)
    channel = connection.channel()
    for _ in range(2):
        channel.basic_publish("", "nowhere", b"x")

    leveret.wait_idle()
    with pytest.raises(AssertionError, match="1 events were not kept"):
        leveret.queue("q").assert_dead_lettered(0)

    leveret.history.clear()
    leveret.queue("q").assert_dead_lettered(0)
    connection.close()
