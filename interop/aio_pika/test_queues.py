"""aio-pika: what a queue is declared with, and what that does to its messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
)
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from interop.support.deadline import eventually_async

if TYPE_CHECKING:
    from aio_pika.abc import (
        AbstractChannel,
        AbstractConnection,
        AbstractIncomingMessage,
        AbstractQueue,
    )
    from pamqp.common import FieldTable

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


async def fill(channel: AbstractChannel, queue: AbstractQueue, bodies: list[bytes]) -> None:
    for body in bodies:
        await channel.default_exchange.publish(Message(body), queue.name)


async def bodies_of(queue: AbstractQueue) -> list[bytes]:
    bodies = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        bodies.append(message.body)

    return bodies


async def ignore(message: AbstractIncomingMessage) -> None:
    """Consume without a use for the messages."""


async def is_gone(connection: AbstractConnection, name: str) -> bool:
    """Ask for the queue on a channel of its own, which a 404 closes."""
    async with connection.channel() as channel:
        try:
            await channel.declare_queue(name, passive=True)
        except ChannelNotFoundEntity:
            return True

        return False


async def test_server_named_queue_has_an_amq_gen_name(channel: AbstractChannel) -> None:
    first = await channel.declare_queue(exclusive=True)
    second = await channel.declare_queue(exclusive=True)
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", first.name)
    assert first.name != second.name


async def test_declare_counts_ready_messages_and_consumers(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    name = make_name("q")
    queue = await channel.declare_queue(name, durable=True)
    assert queue.declaration_result.message_count == 0
    await fill(channel, queue, [b"1", b"2", b"3"])
    assert await queue.get(no_ack=False)
    again = await channel.declare_queue(name, durable=True)
    assert again.declaration_result.message_count == 2
    assert again.declaration_result.consumer_count == 0


async def test_redeclared_queue_must_be_the_same(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    name = make_name("q")
    await channel.declare_queue(name, durable=True, arguments={"x-max-length": 10})
    with pytest.raises(
        ChannelPreconditionFailed,
        match=f"inequivalent arg 'x-max-length' for queue '{name}' in vhost '/':"
        " received '20' but current is '10'",
    ):
        await channel.declare_queue(name, durable=True, arguments={"x-max-length": 20})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-message-ttl": -300}, "invalid arg 'x-message-ttl' .*{value_negative,-300}"),
        ({"x-expires": 0}, "invalid arg 'x-expires' .*{value_zero,0}"),
        ({"x-max-length": "ten"}, 'invalid arg .*"expected integer, got longstr"'),
        ({"x-max-priority": 256}, "invalid arg .*{max_value_exceeded,256}"),
        ({"x-overflow": "spill"}, "invalid arg 'x-overflow' .*invalid_overflow"),
        ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({"x-queue-type": "foo"}, "unsupported queue type 'foo'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_bad_argument_is_refused(
    channel: AbstractChannel, make_name: NameMaker, arguments: FieldTable, text: str
) -> None:
    with pytest.raises(ChannelPreconditionFailed, match=text):
        await channel.declare_queue(make_name("q"), durable=True, arguments=arguments)


async def test_reserved_queue_name_is_refused(channel: AbstractChannel) -> None:
    with pytest.raises(ChannelAccessRefused, match=r"contains reserved prefix 'amq\.\*'"):
        await channel.declare_queue("amq.mine", durable=True)


async def test_exclusive_queue_is_locked_to_others_and_goes_with_its_connection(
    url: str, connection: AbstractConnection, make_name: NameMaker
) -> None:
    name = make_name("q")
    owner = await aio_pika.connect(url)
    await (await owner.channel()).declare_queue(name, exclusive=True)
    other = await connection.channel()
    with pytest.raises(ChannelLockedResource, match="cannot obtain exclusive access to locked"):
        await other.declare_queue(name, passive=True)

    await owner.close()

    async def gone() -> bool:
        return await is_gone(connection, name)

    # RabbitMQ 4.3 may take some milliseconds.
    await eventually_async(gone)


async def test_auto_delete_queue_goes_with_its_last_consumer(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    channel = await connection.channel()
    queue = await channel.declare_queue(make_name("q"), durable=True, auto_delete=True)
    first = await queue.consume(ignore, no_ack=True)
    second = await queue.consume(ignore, no_ack=True)
    await queue.cancel(first)
    assert not await is_gone(connection, queue.name)
    await queue.cancel(second)
    assert await is_gone(connection, queue.name)


async def test_queue_ttl_drops_old_messages(channel: AbstractChannel, make_name: NameMaker) -> None:
    arguments: FieldTable = {"x-message-ttl": 50}
    queue = await channel.declare_queue(make_name("q"), durable=True, arguments=arguments)
    await fill(channel, queue, [b"1", b"2"])

    async def empty() -> bool:
        again = await channel.declare_queue(queue.name, passive=True)
        return again.declaration_result.message_count == 0

    await eventually_async(empty)
    assert await bodies_of(queue) == []


async def test_expired_message_behind_the_head_is_not_delivered(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    clock = await channel.declare_queue(exclusive=True)
    for body, ttl_s in ((b"stays", None), (b"expires", 0.01), (b"last", None)):
        await channel.default_exchange.publish(Message(body, expiration=ttl_s), queue.name)

    # The same expiration, published later, at the head of another queue tells the time.
    await channel.default_exchange.publish(Message(b"", expiration=0.02), clock.name)

    async def empty() -> bool:
        declared = await channel.declare_queue(clock.name, passive=True)
        return declared.declaration_result.message_count == 0

    await eventually_async(empty)
    assert await bodies_of(queue) == [b"stays", b"last"]


async def test_queue_expires_when_nobody_uses_it(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    channel = await connection.channel()
    name = make_name("q")
    queue = await channel.declare_queue(name, durable=True, arguments={"x-expires": 100})
    tag = await queue.consume(ignore, no_ack=True)
    await queue.cancel(tag)
    observed = make_name("observer")
    bystander = await channel.declare_queue(observed, durable=True)

    async def gone() -> bool:
        # A declare would renew the lease, a mandatory publish does not.
        channel = await connection.channel(on_return_raises=True)
        try:
            await channel.default_exchange.publish(Message(b""), name, mandatory=True)
        except DeliveryError:
            return True
        finally:
            await channel.close()

        return False

    await eventually_async(gone)
    assert await is_gone(connection, name)
    assert not await is_gone(connection, bystander.name)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        pytest.param({"x-max-length": 2}, [b"22", b"333"], id="drop-head by number"),
        pytest.param({"x-max-length-bytes": 5}, [b"22", b"333"], id="drop-head by bytes"),
        pytest.param(
            {"x-max-length": 1, "x-max-length-bytes": 100}, [b"333"], id="the tighter of both"
        ),
        pytest.param({"x-max-length": 0}, [], id="nothing is kept"),
    ],
)
async def test_full_queue_drops_its_head(
    channel: AbstractChannel,
    make_name: NameMaker,
    arguments: FieldTable,
    kept: list[bytes],
) -> None:
    queue = await channel.declare_queue(make_name("q"), durable=True, arguments=arguments)
    await fill(channel, queue, [b"1", b"22", b"333"])
    assert await bodies_of(queue) == kept


@pytest.mark.parametrize("mode", ["reject-publish", "reject-publish-dlx"])
async def test_full_queue_nacks_the_publish(
    channel: AbstractChannel, make_name: NameMaker, mode: str
) -> None:
    refused = await channel.declare_queue(exclusive=True)
    arguments: FieldTable = {
        "x-max-length": 1,
        "x-overflow": mode,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": refused.name,
    }
    queue = await channel.declare_queue(make_name("q"), durable=True, arguments=arguments)
    await fill(channel, queue, [b"fits"])
    with pytest.raises(DeliveryError):
        await fill(channel, queue, [b"too many"])

    assert await bodies_of(queue) == [b"fits"]
    await fill(channel, queue, [b"room again"])
    expected = [b"too many"] if mode == "reject-publish-dlx" else []
    assert await bodies_of(refused) == expected


async def test_priority_queue_serves_the_highest_first(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    arguments: FieldTable = {"x-max-priority": 5}
    queue = await channel.declare_queue(make_name("q"), durable=True, arguments=arguments)
    for priority in (None, 1, 5, 3, 200, 5, 0, 3):
        body = str(priority).encode()
        await channel.default_exchange.publish(Message(body, priority=priority), queue.name)

    assert await bodies_of(queue) == [b"5", b"200", b"5", b"3", b"3", b"1", b"None", b"0"]


async def test_purge_counts_and_takes_ready_messages_only(channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await fill(channel, queue, [b"unacked", b"2", b"3"])
    held = await queue.get(no_ack=False)
    assert (await queue.purge()).message_count == 2
    await held.reject(requeue=True)
    assert await bodies_of(queue) == [b"unacked"]


async def test_delete_honours_if_empty_and_if_unused(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    name = make_name("q")
    owner = await connection.channel()
    queue = await owner.declare_queue(name, durable=True)
    await fill(owner, queue, [b"1"])
    async with connection.channel() as channel:
        with pytest.raises(ChannelPreconditionFailed, match=f"queue '{name}' .* not empty"):
            await channel.queue_delete(name, if_empty=True)

    await queue.purge()
    tag = await queue.consume(ignore)
    async with connection.channel() as channel:
        with pytest.raises(ChannelPreconditionFailed, match=f"queue '{name}' .* in use"):
            await channel.queue_delete(name, if_unused=True)

    await queue.cancel(tag)
    assert (await queue.delete(if_unused=True, if_empty=True)).message_count == 0
    assert await is_gone(connection, name)


async def test_unbind_and_delete_of_what_is_not_there_are_answered(
    channel: AbstractChannel, make_name: NameMaker
) -> None:
    queue = await channel.declare_queue(exclusive=True)
    await queue.unbind("amq.direct", "never bound")
    assert (await channel.queue_delete(make_name("missing"))).message_count == 0
    await channel.exchange_delete(make_name("missing"))
