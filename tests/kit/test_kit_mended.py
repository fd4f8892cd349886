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
    from collections.abc import Callable, Iterator

    from broker.testing import Broker


def connect(broker: Broker) -> Any:
    parameters = pika.URLParameters(broker.url)
    parameters.socket_timeout = 5
    parameters.blocked_connection_timeout = 5
    return pika.BlockingConnection(parameters)


@pytest.fixture
def channel(leveret: Broker) -> Iterator[Any]:
    connection = connect(leveret)
    yield connection.channel()
    connection.close()


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
    channel.queue_declare("q")
    for _ in range(2):
        channel.basic_publish("", "nowhere", b"x")

    leveret.wait_idle()
    with pytest.raises(AssertionError, match="1 events were not kept"):
        leveret.queue("q").assert_dead_lettered(0)

    leveret.history.clear()
    leveret.queue("q").assert_dead_lettered(0)
    connection.close()


def test_delayed_messages_of_equal_bodies_are_told_apart(leveret: Broker) -> None:
    connection = connect(leveret)
    channel = connection.channel()
    arguments = {"x-delayed-type": "direct"}
    channel.exchange_declare("later", "x-delayed-message", arguments=arguments)
    channel.queue_declare("q")
    channel.queue_bind("q", "later", "k")
    for number, delay_ms in enumerate((3_000, 1_000, 2_000)):
        about = pika.BasicProperties(headers={"x-delay": delay_ms}, message_id=str(number))
        channel.basic_publish("later", "k", b"same", about)

    leveret.wait_idle()
    assert not leveret.history.unroutable()
    leveret.clock.advance(5)
    for _ in range(3):
        channel.basic_get("q", auto_ack=True)

    found = leveret.history.delivered(queue="q").messages
    assert [one.properties["message_id"] for one in found] == ["1", "2", "0"]
    connection.close()


QUESTIONS = [
    pytest.param(lambda queue: queue.assert_empty(), id="empty"),
    pytest.param(lambda queue: queue.assert_ready(0), id="ready"),
    pytest.param(lambda queue: queue.assert_consumers(0), id="consumers"),
    pytest.param(lambda queue: queue.assert_published(0), id="published"),
    pytest.param(lambda queue: queue.assert_dead_lettered(0), id="dead-lettered"),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_nothing_is_true_of_a_queue_that_never_was(
    leveret: Broker, channel: Any, question: Callable[[Any], object]
) -> None:
    channel.queue_declare("orders")
    question(leveret.queue("orders"))
    with pytest.raises(AssertionError, match=r"there is no queue 'order'.*is 'orders' meant"):
        question(leveret.queue("order"))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_queue_that_is_gone_was_one(
    leveret: Broker, channel: Any, question: Callable[[Any], object]
) -> None:
    channel.queue_declare("orders")
    channel.queue_delete("orders")
    question(leveret.queue("orders"))
