"""What tests and embedded brokers look like to a type checker: it reads this, nobody runs it."""

from __future__ import annotations

from typing import assert_type

from broker import embedded
from broker.client import connect
from broker.testing import Broker, History, RecordedMessage


def test_a_payment_is_tried_again(leveret: Broker) -> None:
    assert_type(leveret.url, str)
    leveret.wait_for(lambda: leveret.queue("payments").assert_nacked(1))
    leveret.clock.advance(59)
    leveret.queue("payments").assert_nacked(2).assert_acked(1).assert_empty()
    leveret.queue("payments.later").assert_expired(2)
    assert_type(leveret.history, History)
    assert_type(leveret.queues, list[str])
    for message in leveret.history.published().messages:
        assert_type(message, RecordedMessage)

    leveret.queue(5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def in_a_test_of_ones_own() -> None:
    with Broker(compat="rabbitmq-4.3") as broker:
        assert_type(broker, Broker)


async def in_an_event_loop() -> None:
    async with embedded.Broker({"limits": {"connections": 10}}, log_level="error") as broker:
        assert_type(broker, embedded.Broker)
        async with connect(broker.url) as client:
            await client.send("orders", 1)

    embedded.Broker(port="5672")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def in_a_thread() -> None:
    with embedded.Broker.in_thread() as broker:
        assert_type(broker, embedded.Broker)
        assert_type(broker.port, int)
