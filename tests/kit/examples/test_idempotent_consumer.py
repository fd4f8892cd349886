"""A publisher that heard no confirm publishes again; a consumer that has seen a message does not
do its work twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from broker.testing import Broker


class Account:
    """The consumer under test: each payment counts once, by its message id."""

    def __init__(self) -> None:
        self.balance = 0
        self._seen: set[str] = set()

    def on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if properties.message_id not in self._seen:
            self._seen.add(properties.message_id)
            self.balance += int(body)

        channel.basic_ack(method.delivery_tag)


def pay(url: str, payment_id: str, amount: int) -> None:
    """The publisher under test: it tries until it has a confirm."""
    while True:
        try:
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                properties = pika.BasicProperties(message_id=payment_id, delivery_mode=2)
                channel.basic_publish("", "payments", str(amount).encode(), properties)
                return
        except pika.exceptions.AMQPConnectionError:
            continue


def test_a_payment_that_was_published_twice_counts_once(leveret: Broker) -> None:
    account = Account()
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("payments", durable=True)
        leveret.faults.drop_before_confirm()

        pay(leveret.url, "payment 1", 100)
        assert len(leveret.queue("payments").published()) == 2

        channel.basic_consume("payments", account.on_message)
        connection.process_data_events(0)
        leveret.wait_for(lambda: leveret.queue("payments").assert_delivered(2))
        while leveret.queue("payments").unacked:
            connection.process_data_events(0)

    leveret.queue("payments").assert_acked(2)
    assert account.balance == 100
