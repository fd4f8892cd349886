"""Real sockets with bad manners: garbage, silence, floods, vanishing. Others must not notice."""

from __future__ import annotations

import io
import json
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from broker import embedded
from broker.embedded import Broker
from broker.logs import Log
from tests.helpers.raw_client import PROTOCOL_HEADER, RawClient, commands, raw_client

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue


async def until_no_sockets(broker: Broker) -> None:
    """The broker learns of a lost socket when its loop turns next."""
    await broker._running._reception.wait_empty()
    assert not broker.node.connections


def queue_of(broker: Broker, name: str) -> Queue:
    return broker.node.vhosts["/"].queues[name]


def set_alarm(broker: Broker, is_on: bool) -> None:
    broker._running.pump.run(lambda: broker.node.set_alarm("memory", is_on))


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"AMQP\x00\x00\x09\x00", id="other-version"),
        pytest.param(b"AMQP\x03\x01\x00\x00", id="amqp-1.0"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 100_000, id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), id="tls"),
        pytest.param(bytes(range(256)) * 1000, id="bytes"),
    ],
)
async def test_garbage_is_answered_with_the_header_and_the_end(garbage: bytes) -> None:
    """Rules C-03, C-05; input that was never read must not turn the answer into a reset."""
    async with Broker() as broker, raw_client(broker.host, broker.port) as client:
        client.writer.write(garbage)
        assert await client.read_to_end() == PROTOCOL_HEADER


async def test_nothing_small_waits_for_an_acknowledgement_of_something_small() -> None:
    async with Broker() as broker, raw_client(broker.host, broker.port) as client:
        await client.open()
        (accepted,) = broker._running._reception.transports
        sock = accepted._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_nothing_is_said_before_the_header_is_whole() -> None:
    """Rule C-06."""
    async with Broker() as broker, raw_client(broker.host, broker.port) as client:
        client.writer.write(PROTOCOL_HEADER[:7])
        async with raw_client(broker.host, broker.port) as other:
            # By the time another client is served, the first one's bytes have been seen.
            await other.open()

        client.writer.write(PROTOCOL_HEADER[7:])
        assert isinstance(await client.read(), commands.Connection.Start)


async def test_a_handshake_that_does_not_end_is_ended() -> None:
    """Rule C-07."""
    config: dict[str, object] = {"limits": {"handshake_timeout": "100ms"}}
    async with Broker(config) as broker, raw_client(broker.host, broker.port) as client:
        client.writer.write(PROTOCOL_HEADER)
        assert isinstance(await client.read(), commands.Connection.Start)
        assert await client.read_to_end() == b""


async def test_two_hundred_connections_come_and_vanish() -> None:
    async with Broker() as broker:
        async with raw_client(broker.host, broker.port) as steady:
            await steady.open()
            for number in range(200):
                client = socket.create_connection((broker.host, broker.port))
                client.send(PROTOCOL_HEADER[: number % 9])
                if number % 2:
                    # Linger zero: the close is a reset.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

                client.close()

            declared = await steady.ask(1, commands.Queue.Declare(queue="still-here"))
            assert declared.queue == "still-here"

        await until_no_sockets(broker)


async def test_a_client_that_dies_in_the_middle_of_a_publish_leaves_no_trace() -> None:
    """Rule C-80."""
    async with Broker() as broker:
        async with raw_client(broker.host, broker.port) as client:
            await client.open()
            await client.ask(1, commands.Queue.Declare(queue="mine", exclusive=True))
            await client.ask(1, commands.Queue.Declare(queue="ours"))
            client.send(1, commands.Basic.Publish(routing_key="ours"))
            client.writer.write(b"\x02\x00\x01\x00")

        await until_no_sockets(broker)
        assert list(broker.node.vhosts["/"].queues) == ["ours"]
        assert queue_of(broker, "ours").ready_count == 0


async def test_what_a_consumer_does_not_read_stays_in_the_queue() -> None:
    async with (
        Broker() as broker,
        raw_client(broker.host, broker.port) as client,
        raw_client(broker.host, broker.port) as deaf,
    ):
        body, count = bytes(100_000), 300
        await client.open()
        await client.ask(1, commands.Queue.Declare(queue="q"))
        for _ in range(count):
            client.publish(1, "", "q", body)

        await deaf.open()
        deaf.send(1, commands.Basic.Consume(queue="q", no_ack=True))
        left = count
        for _ in range(20):
            left = (
                await client.ask(1, commands.Queue.Declare(queue="q", passive=True))
            ).message_count

        # What the kernel's buffers, the broker's and the reader's hold is some megabytes.
        assert left > count // 2
        transport = next(
            transport
            for transport in broker._running._reception.transports
            if transport._transport.get_write_buffer_size() > 0
        )
        assert transport._transport.get_write_buffer_size() < 4_000_000
        await deaf.read()
        for _ in range(count):
            await read_delivery(deaf)

        assert queue_of(broker, "q").ready_count == 0


async def read_delivery(client: RawClient) -> None:
    assert isinstance(await client.read(), commands.Basic.Deliver)
    await client.read()
    await client.read()


async def test_the_memory_alarm_blocks_publishers_and_lets_them_go() -> None:
    """Rules MA-02..MA-04: of the first publish the header is read, then nothing any more."""
    async with (
        Broker() as broker,
        raw_client(broker.host, broker.port) as client,
        raw_client(broker.host, broker.port) as other,
    ):
        await client.open(capabilities={"connection.blocked": True})
        await other.open()
        await client.ask(1, commands.Queue.Declare(queue="q"))
        set_alarm(broker, True)
        client.publish(1, "", "q", b"first")
        blocked = await client.read()
        assert isinstance(blocked, commands.Connection.Blocked)
        assert blocked.reason == "low on memory"
        client.publish(1, "", "q", b"second")
        passive = commands.Queue.Declare(queue="q", passive=True)
        for _ in range(5):
            assert (await other.ask(1, passive)).message_count <= 1

        set_alarm(broker, False)
        assert isinstance(await client.read(), commands.Connection.Unblocked)
        assert (await client.ask(1, passive)).message_count == 2


async def test_the_log_tells_who_came_and_why_they_went(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(embedded, "Log", lambda _level: Log("info", "json", stream))
    async with Broker() as broker:
        async with raw_client(broker.host, broker.port) as client:
            await client.open(product="Py\x1b[31m", version="1.0", connection_name="evil\nname")
            await client.ask(0, commands.Connection.Close(200, "bye", 0, 0))

        await until_no_sockets(broker)
        async with raw_client(broker.host, broker.port) as client:
            closed = await client.log_in(
                "s3cret", capabilities={"authentication_failure_close": True}
            )
            assert closed.reply_code == 403

    text = stream.getvalue()
    assert "s3cret" not in text
    records = [json.loads(line) for line in text.splitlines()]
    opened = next(record for record in records if record["event"] == "connection.opened")
    assert opened["user"] == "guest"
    assert opened["vhost"] == "/"
    assert opened["connection"].startswith("127.0.0.1:")
    assert opened["client_product"] == r"Py\x1b[31m"
    assert opened["client_version"] == "1.0"
    assert opened["connection_name"] == r"evil\nname"
    reasons = [record.get("reason", "") for record in records]
    assert any("the password is wrong" in reason for reason in reasons)
    assert any("client closed" in reason for reason in reasons)
