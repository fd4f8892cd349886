"""pika: a broker that is short of memory blocks publishers and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pika
import pytest
from pika.exceptions import ConnectionBlockedTimeout

from interop.support.deadline import eventually
from interop.support.process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHORT_OF_MEMORY = "version: 1\nalarms: {memory: {limit: 1MiB}}\n"


@pytest.fixture
def blocked_url(broker_command: str, tmp_path: Path) -> Iterator[str]:
    """A broker with less memory than it needs to stand still."""
    config = tmp_path / "leveret.yaml"
    config.write_text(SHORT_OF_MEMORY)
    with BrokerProcess(broker_command, arguments=(str(config),)) as process:
        yield process.url


def test_first_publish_blocks_and_the_client_is_told(blocked_url: str) -> None:
    reasons: list[str] = []
    connection = pika.BlockingConnection(pika.URLParameters(blocked_url))
    connection.add_on_connection_blocked_callback(
        lambda _connection, frame: reasons.append(frame.method.reason)
    )
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    assert not reasons, "who does not publish is not blocked"

    def told() -> bool:
        # The broker looks at its memory now and then: the publish after that blocks.
        channel.basic_publish("", queue, b"m")
        connection.process_data_events(time_limit=0.05)
        return bool(reasons)

    eventually(told)
    assert reasons == ["low on memory"]
    connection._impl._transport.abort()


def test_blocked_client_gives_up_after_its_own_timeout(blocked_url: str) -> None:
    parameters = pika.URLParameters(blocked_url)
    parameters.blocked_connection_timeout = 0.2
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()

    def publish_on() -> bool:
        channel.basic_publish("", "nowhere", b"m")
        connection.process_data_events(time_limit=0.05)
        return False

    with pytest.raises(ConnectionBlockedTimeout):
        eventually(publish_on)
