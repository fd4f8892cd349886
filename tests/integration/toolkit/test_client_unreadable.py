"""Messages of others that the AMQP library cannot read: they are handled, and end no connection."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from broker.client import connect
from broker.tasks import Tasks, Worker
from tests.helpers.raw_client import commands, raw_client
from tests.helpers.toolkit import Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.client import Client

    Name = Callable[[str], str]

MICROSECONDS = struct.pack(">Q", 1_700_000_000_000_000)
UNREADABLE = [
    pytest.param(0x0020, b"\x02\xff\xfe", id="type"),
    pytest.param(0x0040, MICROSECONDS, id="microseconds"),
    pytest.param(0x2000, b"\0\0\0\4\x02\xff\xfeV", id="header"),
]


async def publish(url: str, queue: str, flags: int, properties: bytes) -> None:
    """Send a message with exactly these properties, and wait until the broker has it."""
    where = URL(url)
    assert where.host is not None
    assert where.port is not None
    async with raw_client(where.host, where.port) as raw:
        await raw.open(where.path.removeprefix("/") or "/")
        await raw.ask(1, commands.Confirm.Select())
        raw.send(1, commands.Basic.Publish(exchange="", routing_key=queue))
        payload = struct.pack(">HHQH", 60, 0, 3, flags) + properties
        raw.writer.write(struct.pack(">BHL", 2, 1, len(payload)) + payload + b"\xce")
        raw.writer.write(b"\x03\0\x01\0\0\0\x03" + b'"x"' + b"\xce")
        assert isinstance(await raw.read(), commands.Basic.Ack)


@pytest.mark.parametrize(("flags", "properties"), UNREADABLE)
async def test_a_consumer_goes_on(
    client: Client, url: str, name: Name, flags: int, properties: bytes
) -> None:
    heard = Heard(client)
    queue = name("foreign")
    await client.declare(queue)
    await publish(url, queue, flags, properties)
    await client.send(queue, "after")
    bodies: list[object] = []
    async for delivery in client.receive(queue, wait=5):
        async with delivery as body:
            bodies.append(body)

        if len(bodies) == 2:
            break

    assert bodies == [b'"x"', "after"]
    assert "disconnected" not in heard.kinds


@pytest.mark.parametrize(("flags", "properties"), UNREADABLE)
async def test_a_worker_goes_on(url: str, name: Name, flags: int, properties: bytes) -> None:
    tasks = Tasks(url, name=name("tasks"))

    @tasks.task
    def double(number: int) -> int:
        return 2 * number

    async with tasks, Worker(tasks):
        (queue,) = tasks.queues()
        await publish(url, queue, flags, properties)
        handle = await double.q(2)
        assert await handle.result(timeout=10) == 4

    async with connect(url) as client:
        assert len(await client.dead(queue).list()) == 1
