"""pika: what a program sees of a broker that stops, and that it can come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pika
import pytest
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker, StreamLostError

if TYPE_CHECKING:
    from interop.support.process import BrokerProcess


def test_stopping_broker_closes_with_320(broker_process: BrokerProcess) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker_process.url))
    connection.channel()
    broker_process.stop()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=10)

    assert closed.value.reply_code == 320
    assert "CONNECTION_FORCED - broker forced connection closure" in closed.value.reply_text


def test_killed_broker_loses_the_stream_and_a_new_one_serves(
    broker_process: BrokerProcess,
) -> None:
    parameters = pika.URLParameters(broker_process.url)
    connection = pika.BlockingConnection(parameters)
    broker_process.kill()
    with pytest.raises(StreamLostError):
        connection.process_data_events(time_limit=10)

    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(parameters)

    broker_process.start()
    with pika.BlockingConnection(parameters) as again:
        assert again.channel().queue_declare("", exclusive=True)
