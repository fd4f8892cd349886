"""aio-pika: confirms, returns, properties, headers of all types, sizes, transactions."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from decimal import Decimal
from typing import TYPE_CHECKING

import aio_pika
import pytest
from aio_pika import DeliveryMode, Message
from aio_pika.exceptions import (
    ChannelClosed,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    PublishError,
)

from interop.support.deadline import eventually_async

if TYPE_CHECKING:
    from aio_pika.abc import (
        AbstractChannel,
        AbstractConnection,
        AbstractIncomingMessage,
        HeadersType,
    )

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


async def test_confirmed_publish_is_there_when_publish_returns(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    confirmation = await channel.default_exchange.publish(Message(b"one"), queue.name)
    assert type(confirmation).__name__ == "Ack"
    message = await queue.get(no_ack=True)
    assert message.body == b"one"


async def test_hundreds_of_publishes_in_flight_are_each_confirmed_once(
    channel: AbstractChannel,
) -> None:
    queue = await channel.declare_queue(exclusive=True)
    publishes = (
        channel.default_exchange.publish(Message(b"%d" % number), queue.name)
        for number in range(500)
    )
    confirmations = await asyncio.gather(*publishes)
    assert {type(each).__name__ for each in confirmations} == {"Ack"}
    bodies = [(await queue.get(no_ack=True)).body for _ in range(500)]
    assert bodies == [b"%d" % number for number in range(500)]


async def test_unroutable_mandatory_publish_comes_back(connection: AbstractConnection) -> None:
    channel = await connection.channel(publisher_confirms=True, on_return_raises=False)
    returned: list[AbstractIncomingMessage] = []
    channel.return_callbacks.add(lambda _, message: returned.append(message))
    await channel.default_exchange.publish(
        Message(b"lost", message_id="m-1", headers={"k": "v"}), "interop.nowhere", mandatory=True
    )
    (message,) = returned  # The return precedes the confirm.
    assert (message.body, message.message_id) == (b"lost", "m-1")
    assert message.headers == {"k": "v"}
    assert (message.exchange, message.routing_key) == ("", "interop.nowhere")


async def test_unroutable_mandatory_publish_raises_when_asked_to(
    connection: AbstractConnection,
) -> None:
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    with pytest.raises(PublishError, match="NO_ROUTE"):
        await channel.default_exchange.publish(Message(b"lost"), "interop.nowhere")


async def test_unroutable_publish_that_is_not_mandatory_is_confirmed(
    channel: AbstractChannel,
) -> None:
    confirmation = await channel.default_exchange.publish(
        Message(b"lost"), "interop.nowhere", mandatory=False
    )
    assert type(confirmation).__name__ == "Ack"


async def test_publish_to_a_missing_exchange_closes_the_channel_with_404(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    missing = make_name("missing")
    exchange = await channel.get_exchange(missing, ensure=False)
    with pytest.raises(
        (ChannelNotFoundEntity, ChannelClosed), match=f"no exchange '{missing}' in vhost '/'"
    ):
        await exchange.publish(Message(b"lost"), "key")


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # The client's socket.
async def test_immediate_is_not_implemented(connection: AbstractConnection) -> None:
    channel = await connection.channel()
    closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    connection.close_callbacks.add(lambda _, error: closed.set_result(error))
    with pytest.raises((aio_pika.exceptions.AMQPError, asyncio.CancelledError)):
        await channel.default_exchange.publish(Message(b""), "key", immediate=True)

    error = await asyncio.wait_for(closed, 5)
    assert "immediate=true" in str(error)


async def test_all_properties_arrive_as_they_were_sent(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    sent = Message(
        b"body",
        headers={"h": 1},
        content_type="text/plain",
        content_encoding="identity",
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=7,
        correlation_id="correlation",
        reply_to="somewhere",
        expiration=datetime.timedelta(seconds=70),
        message_id="message",
        timestamp=datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC),
        type="kind",
        user_id="guest",
        app_id="interop",
    )
    await channel.default_exchange.publish(sent, queue.name)
    got = await queue.get(no_ack=True)
    for name in [
        "body",
        "headers",
        "content_type",
        "content_encoding",
        "delivery_mode",
        "priority",
        "correlation_id",
        "reply_to",
        "message_id",
        "timestamp",
        "type",
        "user_id",
        "app_id",
    ]:
        assert getattr(got, name) == getattr(sent, name), name

    assert got.properties.expiration == "70000"


async def test_message_without_properties_arrives_without_any(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    underlay = await channel.get_underlay_channel()
    await underlay.basic_publish(b"", routing_key=queue.name)
    got = await queue.get(no_ack=True)
    assert got.body == b""
    # aiormq itself adds a message_id and a delivery_mode.
    for name in ("content_type", "headers", "correlation_id", "reply_to", "expiration", "app_id"):
        assert not getattr(got.properties, name), name


async def test_headers_of_every_type_survive(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    headers: HeadersType = {
        "bool": True,
        "small": 5,
        "negative": -300,  # pamqp 3.3 cannot encode -128..-1.
        "int": 2**31 - 1,
        "long": 2**62,
        "float": 0.5,
        "decimal": Decimal("3.14"),
        "text": "snowman ☃",
        "bytes": bytearray(b"\x00\xff\x80"),
        "none": None,
        "time": datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC),
        "array": [1, "two", [3, None], {"four": False}],
        "table": {"nested": {"deeper": {"deepest": 1}}, "empty": {}},
        "": "empty key",
    }
    await channel.default_exchange.publish(Message(b"", headers=headers), queue.name)
    got = await queue.get(no_ack=True)
    assert got.headers == headers


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 262_144, 1_000_003, 9_000_000])
async def test_body_of_size_arrives_whole(channel: AbstractChannel, size: int) -> None:
    queue = await channel.declare_queue(exclusive=True)
    body = hashlib.shake_128(b"%d" % size).digest(size)
    await channel.default_exchange.publish(Message(body), queue.name)
    got = await queue.get(no_ack=True)
    assert got.body_size == size
    assert got.body == body


async def test_large_and_small_bodies_of_two_channels_do_not_mix(
    connection: AbstractConnection,
) -> None:
    large, small = await connection.channel(), await connection.channel()
    large_queue = await large.declare_queue(exclusive=True)
    small_queue = await small.declare_queue(exclusive=True)
    body = bytes(range(256)) * 12_000
    await asyncio.gather(
        *(large.default_exchange.publish(Message(body), large_queue.name) for _ in range(3)),
        *(small.default_exchange.publish(Message(b"s"), small_queue.name) for _ in range(100)),
    )
    for _ in range(3):
        assert (await large_queue.get(no_ack=True)).body == body

    for _ in range(100):
        assert (await small_queue.get(no_ack=True)).body == b"s"


async def test_cc_and_bcc_route_and_bcc_is_hidden(channel: AbstractChannel) -> None:
    to, cc, bcc = [await channel.declare_queue(exclusive=True) for _ in range(3)]
    headers: HeadersType = {"CC": [cc.name], "BCC": [bcc.name]}
    await channel.default_exchange.publish(Message(b"m", headers=headers), to.name)
    for queue in (to, cc, bcc):
        got = await queue.get(no_ack=True)
        assert got.headers == {"CC": [cc.name]}
        assert got.routing_key == to.name


@pytest.mark.parametrize(
    ("message", "text"),
    [
        pytest.param(
            Message(b"", user_id="somebody"),
            "user_id property set to 'somebody' but authenticated user was 'guest'",
            id="another user's name",
        ),
        pytest.param(
            Message(b"", headers={"CC": "text"}), "unacceptable_type_in_header", id="CC no array"
        ),
    ],
)
async def test_message_the_broker_cannot_accept_closes_the_channel_with_406(
    channel: AbstractChannel, message: Message, text: str
) -> None:
    with pytest.raises((ChannelPreconditionFailed, ChannelClosed), match=text):
        await channel.default_exchange.publish(message, "key")


async def test_transaction_shows_nothing_before_commit(connection: AbstractConnection) -> None:
    channel = await connection.channel(publisher_confirms=False)
    observer = await connection.channel()
    queue = await observer.declare_queue(exclusive=True)
    transaction = channel.transaction()
    await transaction.select()
    await channel.default_exchange.publish(Message(b"one"), queue.name)
    await channel.default_exchange.publish(Message(b"two"), queue.name)
    # A round trip on the publishing channel: the broker has seen both by now.
    await channel.declare_queue(exclusive=True)
    assert await queue.get(no_ack=True, fail=False) is None
    await transaction.commit()
    assert (await queue.get(no_ack=True)).body == b"one"
    assert (await queue.get(no_ack=True)).body == b"two"


async def test_transaction_context_rolls_back_on_error(connection: AbstractConnection) -> None:
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(exclusive=True)

    async def fail_midway() -> None:
        async with channel.transaction():
            await channel.default_exchange.publish(Message(b"never"), queue.name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_midway()

    async with channel.transaction():
        await channel.default_exchange.publish(Message(b"kept"), queue.name)

    assert (await queue.get(no_ack=True)).body == b"kept"
    assert await queue.get(no_ack=True, fail=False) is None


async def test_acks_of_a_transaction_take_effect_at_commit(connection: AbstractConnection) -> None:
    channel = await connection.channel(publisher_confirms=False)
    observer = await connection.channel()
    queue = await observer.declare_queue(exclusive=True)
    for body in (b"one", b"two"):
        await observer.default_exchange.publish(Message(body), queue.name)

    transaction = channel.transaction()
    await transaction.select()
    own = await channel.get_queue(queue.name)
    for _ in range(2):
        await (await own.get()).ack()

    await transaction.rollback()
    # Rolled back acks leave the messages unacked: closing gives them back.
    await channel.close()

    async def both() -> bool:
        return (
            await observer.declare_queue(queue.name, passive=True)
        ).declaration_result.message_count == 2

    await eventually_async(both)
