"""aiormq: what aio-pika stands on, used by itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import TYPE_CHECKING

import aiormq
import pytest
import pytest_asyncio
from aiormq import spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiormq.abc import DeliveredMessage

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def connection(url: str) -> AsyncIterator[aiormq.Connection]:
    connection = await aiormq.connect(url)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def channel(connection: aiormq.Connection) -> aiormq.Channel:
    return await connection.channel()


async def exclusive_queue(channel: aiormq.Channel, **arguments: object) -> str:
    declared = await channel.queue_declare(exclusive=True, arguments=arguments)
    assert declared.queue is not None
    return declared.queue


async def test_publishes_are_confirmed_and_consumed_in_order(channel: aiormq.Channel) -> None:
    queue = await exclusive_queue(channel)
    publishes = [channel.basic_publish(b"%d" % number, routing_key=queue) for number in range(100)]
    confirms = await asyncio.gather(*publishes)
    assert all(isinstance(confirm, spec.Basic.Ack) for confirm in confirms)

    received: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_qos(prefetch_count=10)
    await channel.basic_consume(queue, received.put)
    for number in range(100):
        message = await received.get()
        assert message.body == b"%d" % number
        await channel.basic_ack(message.delivery_tag)


async def test_unroutable_message_raises_with_the_message(channel: aiormq.Channel) -> None:
    with pytest.raises(aiormq.PublishError) as failed:
        await channel.basic_publish(b"back", routing_key="interop.nowhere", mandatory=True)

    returned = failed.value.message
    assert (returned.delivery.reply_code, returned.body) == (312, b"back")


async def test_properties_and_a_large_body_come_back(channel: aiormq.Channel) -> None:
    queue = await exclusive_queue(channel)
    body = os.urandom(3 << 20)
    properties = spec.Basic.Properties(
        content_type="application/octet-stream",
        headers={"int": 1 << 40, "text": "grüße", "list": [1, None, {"deep": True}]},
        delivery_mode=2,
        priority=3,
        message_id="m1",
    )
    await channel.basic_publish(body, routing_key=queue, properties=properties)
    message = await channel.basic_get(queue, no_ack=True)
    assert hashlib.sha256(message.body).digest() == hashlib.sha256(body).digest()
    assert dict(message.header.properties) == dict(properties)


async def test_expired_message_is_dead_lettered(channel: aiormq.Channel) -> None:
    target = await exclusive_queue(channel)
    route = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    source = await exclusive_queue(channel, **route)
    received: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_consume(target, received.put, no_ack=True)
    brief = spec.Basic.Properties(expiration="10")
    await channel.basic_publish(b"late", routing_key=source, properties=brief)
    message = await received.get()
    (death,) = message.header.properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("expired", source, 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param({"passive": True}, aiormq.ChannelNotFoundEntity, id="missing"),
        pytest.param(
            {"arguments": {"x-max-length": -1}}, aiormq.ChannelPreconditionFailed, id="argument"
        ),
    ],
)
async def test_channel_error_has_its_own_class(
    connection: aiormq.Connection, arguments: dict[str, object], error: type[Exception]
) -> None:
    channel = await connection.channel()
    with pytest.raises(error):
        await channel.queue_declare("interop.aiormq.missing", exclusive=True, **arguments)

    assert channel.is_closed
    await exclusive_queue(await connection.channel())


async def test_exclusive_queue_is_locked(url: str, channel: aiormq.Channel) -> None:
    queue = await exclusive_queue(channel)
    other = await aiormq.connect(url)
    with pytest.raises(aiormq.ChannelLockedResource):
        await (await other.channel()).queue_declare(queue, passive=True)

    await other.close()


async def test_wrong_password_is_an_authentication_error(url: str) -> None:
    with pytest.raises(aiormq.ProbableAuthenticationError, match="Login was refused using"):
        await aiormq.connect(url.replace(":guest@", ":not-the-password@"))
