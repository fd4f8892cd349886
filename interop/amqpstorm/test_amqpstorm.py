"""AMQPStorm: a thread that reads, and callers that wait for it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import amqpstorm
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqpstorm import Channel, Connection, Message


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with amqpstorm.UriConnection(url) as connection:
        yield connection


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel()


def exclusive_queue(channel: Channel, arguments: dict[str, object] | None = None) -> str:
    queue: str = channel.queue.declare("", exclusive=True, arguments=arguments)["queue"]
    return queue


def test_publishes_are_confirmed_and_consumed_in_order(channel: Channel) -> None:
    queue = exclusive_queue(channel)
    channel.confirm_deliveries()
    for number in range(50):
        assert channel.basic.publish(str(number), queue)

    channel.basic.qos(5)
    bodies: list[str] = []

    def take(message: Message) -> None:
        bodies.append(message.body)
        message.ack()
        if len(bodies) == 50:
            channel.stop_consuming()

    channel.basic.consume(take, queue)
    channel.start_consuming()
    assert bodies == [str(number) for number in range(50)]
    assert channel.queue.declare(queue, passive=True)["message_count"] == 0


def test_unroutable_message_raises_its_code(channel: Channel) -> None:
    channel.confirm_deliveries()
    with pytest.raises(amqpstorm.AMQPMessageError, match="NO_ROUTE") as failed:
        channel.basic.publish("back", "interop.nowhere", mandatory=True)

    assert failed.value.error_code == 312


def test_properties_and_a_large_body_come_back(channel: Channel) -> None:
    queue = exclusive_queue(channel)
    body = os.urandom(3 << 20)
    properties = {
        "content_type": "application/octet-stream",
        "headers": {"int": 1 << 40, "list": [1, None, {"deep": True}]},
        "delivery_mode": 2,
        "priority": 3,
        "message_id": "m1",
    }
    channel.basic.publish(body, queue, properties=properties)
    message = channel.basic.get(queue, auto_decode=False)
    assert message.body == body
    assert {name: message.properties[name] for name in properties} == properties
    message.ack()


def test_rejected_message_is_dead_lettered(channel: Channel) -> None:
    target = exclusive_queue(channel)
    source = exclusive_queue(
        channel, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    )
    channel.basic.publish("bad", source)
    channel.basic.get(source).reject(requeue=False)
    message = channel.basic.get(target)
    (death,) = message.properties["headers"]["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", source, 1)


def test_transaction_is_committed_or_rolled_back(channel: Channel) -> None:
    queue = exclusive_queue(channel)
    channel.tx.select()
    channel.basic.publish("never", queue)
    channel.tx.rollback()
    channel.basic.publish("kept", queue)
    channel.tx.commit()
    assert channel.basic.get(queue).body == "kept"
    assert channel.basic.get(queue) is None


def test_channel_error_has_its_code_and_closes_only_the_channel(connection: Connection) -> None:
    channel = connection.channel()
    with pytest.raises(amqpstorm.AMQPChannelError, match="NOT_FOUND - no queue") as failed:
        channel.queue.declare("interop.amqpstorm.missing", passive=True)

    assert (failed.value.error_code, failed.value.error_type) == (404, "NOT-FOUND")
    assert channel.is_closed
    exclusive_queue(connection.channel())


def test_idle_connection_lives_by_heartbeats(url: str) -> None:
    with amqpstorm.UriConnection(f"{url}?heartbeat=1&timeout=5") as connection:
        time.sleep(3.5)
        connection.check_for_errors()
        exclusive_queue(connection.channel())


def test_wrong_password_is_told(url: str) -> None:
    with pytest.raises(amqpstorm.AMQPConnectionError, match="Login was refused") as failed:
        amqpstorm.UriConnection(url.replace(":guest@", ":not-the-password@"))

    assert failed.value.error_code == 403
