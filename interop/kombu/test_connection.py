"""kombu: connecting, failing over, retrying, heartbeats, and a broker that restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import kombu
import pytest
from amqp.exceptions import AccessRefused, NotAllowed
from kombu import Exchange, Producer, Queue
from kombu.exceptions import OperationalError

from interop.support.deadline import eventually
from interop.support.process import BrokerProcess, free_port

NameMaker = Callable[[str], str]


def dead_url() -> str:
    """An address where nothing listens."""
    return f"amqp://guest:guest@127.0.0.1:{free_port()}//"


def test_default_vhost_has_its_two_spellings(url: str) -> None:
    for address in (url, url.rstrip("/") + "//", url.rstrip("/") + "/%2F"):
        with kombu.Connection(address) as connection:
            assert connection.connect().connected


def test_failover_goes_on_to_the_next_address(url: str) -> None:
    with kombu.Connection(f"{dead_url()};{url}", failover_strategy="round-robin") as connection:
        errors: list[BaseException] = []
        connection.ensure_connection(
            errback=lambda error, _interval: errors.append(error),
            max_retries=3,
            interval_start=0.01,
            interval_step=0.0,
        )
        assert connection.connected
        assert errors


def test_dead_address_is_given_up_after_the_retries() -> None:
    connection = kombu.Connection(dead_url())
    with pytest.raises(OperationalError):
        connection.ensure_connection(max_retries=2, interval_start=0.01, interval_step=0.0)


def test_wrong_password_is_refused(url: str) -> None:
    # What a URL says wins over the arguments beside it.
    wrong = url.replace(":guest@", ":not-the-password@")
    with pytest.raises(AccessRefused, match=r"403.*Login was refused"):
        kombu.Connection(wrong).connect()


def test_missing_vhost_is_refused(url: str) -> None:
    wrong = url.rstrip("/") + "/interop-missing"
    with pytest.raises(NotAllowed, match="vhost interop-missing not found"):
        kombu.Connection(wrong).connect()


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_login_by_mechanism(url: str, mechanism: str) -> None:
    with kombu.Connection(url, login_method=mechanism) as connection:
        assert connection.connect().connected


def test_heartbeat_is_negotiated_and_keeps_the_connection(url: str) -> None:
    with kombu.Connection(url, heartbeat=1) as connection:
        connection.connect()
        assert connection.connection.heartbeat == 1
        deadline = time.monotonic() + 3.5
        while time.monotonic() < deadline:
            connection.heartbeat_check()
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.4)

        assert connection.connection.last_heartbeat_received
        connection.channel().close()


def test_server_properties_are_readable(connection: kombu.Connection) -> None:
    properties = connection.connection.server_properties
    assert properties["product"]
    assert properties["capabilities"]["consumer_cancel_notify"]


def test_blocked_callbacks_may_be_asked_for(url: str) -> None:
    options: dict[str, Any] = {"on_blocked": print, "on_unblocked": print}
    with kombu.Connection(url, transport_options=options) as connection:
        connection.connect()
        connection.channel().close()


def test_many_channels_open_and_close(connection: kombu.Connection) -> None:
    for _ in range(3):
        channels = [connection.channel() for _ in range(100)]
        assert len({channel.channel_id for channel in channels}) == 100
        for channel in channels:
            channel.close()


def test_publish_is_retried_over_a_restart(
    broker_process: BrokerProcess,
) -> None:
    queue = Queue("retry", Exchange("retry", durable=True), routing_key="retry", durable=True)
    with kombu.Connection(broker_process.url) as connection:
        producer = Producer(connection)
        policy = {"max_retries": 50, "interval_start": 0.05, "interval_step": 0.0}

        def publish(body: str) -> None:
            producer.publish(
                body,
                exchange=queue.exchange,
                routing_key="retry",
                declare=[queue],
                retry=True,
                retry_policy=policy,
            )

        publish("before")
        broker_process.stop()
        broker_process.start()
        publish("after")

        def last() -> bool:
            message = queue(connection.default_channel).get(no_ack=True)
            return message is not None and message.payload == "after"

        eventually(last)
