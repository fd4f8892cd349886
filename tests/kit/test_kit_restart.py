"""Restarts of a broker under test: what comes back, and what it comes back from."""

from __future__ import annotations

import pika
import pytest

from broker.testing import Broker


def connect(broker: Broker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


@pytest.mark.parametrize("is_crash", [False, True])
def test_returns_that_do_not_count_do_not_count_after_a_restart_either(is_crash: bool) -> None:
    """Rules QQ-03, QQ-04: the message comes back as one that was delivered, and may go on so."""
    with Broker(durable=True, compat="rabbitmq-4.3") as broker:
        with connect(broker) as connection:
            channel = connection.channel()
            arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1}
            channel.queue_declare("q", durable=True, arguments=arguments)
            channel.confirm_delivery()
            channel.basic_publish("", "q", b"hare")
            for _ in range(3):
                tag = channel.basic_get("q")[0].delivery_tag
                channel.basic_nack(tag, requeue=True)

        broker.wait_for(lambda: broker.queue("q").ready == 1)
        broker.faults.restart(is_crash=is_crash)

        with connect(broker) as connection:
            got, properties, _ = connection.channel().basic_get("q")
            assert got.redelivered
            assert not properties.headers
