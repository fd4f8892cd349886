"""aio-pika: its ready-made patterns, and request and reply by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.exceptions import MessageProcessError
from aio_pika.patterns import RPC, Master, NackMessage, RejectMessage

from interop.support.deadline import WITHIN_S

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


async def test_rpc_returns_results_and_raises_errors(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def fail() -> None:
        raise ValueError("as told")

    multiply_name, fail_name = make_name("multiply"), make_name("fail")
    server = await RPC.create(await connection.channel(), durable=True, auto_delete=True)
    client = await RPC.create(await connection.channel(), durable=True, auto_delete=True)
    await server.register(multiply_name, multiply, durable=True, auto_delete=True)
    await server.register(fail_name, fail, durable=True, auto_delete=True)

    calls = [client.call(multiply_name, kwargs={"x": n, "y": n}) for n in range(50)]
    assert await asyncio.gather(*calls) == [n * n for n in range(50)]
    with pytest.raises(ValueError, match="as told"):
        await client.call(fail_name)

    for rpc in (client, server):
        await rpc.close()


async def test_rpc_call_to_nobody_fails_at_once(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    client = await RPC.create(await connection.channel(), durable=True)
    with pytest.raises(MessageProcessError):
        await client.call(make_name("nobody"))

    await client.close()


async def test_rpc_call_expires_through_the_dead_letter_exchange(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    """The callee's queue is there but nobody reads it: the broker's TTL ends the call."""
    name = make_name("asleep")
    client = await RPC.create(await connection.channel(), durable=True)
    channel = await connection.channel()
    await channel.declare_queue(
        name, durable=True, arguments={"x-dead-letter-exchange": RPC.DLX_NAME}
    )
    call = asyncio.ensure_future(client.call(name, expiration=0))
    done, _ = await asyncio.wait([call], timeout=WITHIN_S)
    assert done
    # What RPC makes of a request that comes back dead.
    assert isinstance(call.exception(), TimeoutError)

    await client.close()


async def test_master_distributes_tasks_and_retries_a_nacked_one(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    name = make_name("tasks")
    done: asyncio.Queue[int] = asyncio.Queue()
    attempts: dict[int, int] = {}

    async def work(*, task: int) -> None:
        attempts[task] = attempts.get(task, 0) + 1
        if task == 3 and attempts[task] == 1:
            raise NackMessage(requeue=True)

        if task == 4:
            raise RejectMessage(requeue=False)

        done.put_nowait(task)

    master = Master(await connection.channel())
    workers = []
    for _ in range(2):
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        workers.append(await Master(channel).create_worker(name, work, durable=True))

    for task in range(10):
        await master.create_task(name, kwargs={"task": task})

    async with asyncio.timeout(WITHIN_S):
        results = [await done.get() for _ in range(9)]

    assert sorted(results) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert attempts[3] == 2
    for worker in workers:
        await worker.close()


async def test_request_and_reply_by_an_exclusive_queue(
    url: str, connection: AbstractConnection
) -> None:
    server = await connection.channel()
    requests = await server.declare_queue(exclusive=True)

    async def answer(message: AbstractIncomingMessage) -> None:
        async with message.process():
            assert message.reply_to is not None
            await server.default_exchange.publish(
                Message(message.body.upper(), correlation_id=message.correlation_id),
                message.reply_to,
            )

    await requests.consume(answer)
    async with await aio_pika.connect(url) as other:
        client = await other.channel()
        replies = await client.declare_queue(exclusive=True)
        await client.default_exchange.publish(
            Message(b"hello", correlation_id="c", reply_to=replies.name), requests.name
        )
        async with replies.iterator(timeout=WITHIN_S) as incoming:
            reply = await incoming.__anext__()

    assert (reply.body, reply.correlation_id) == (b"HELLO", "c")


async def test_direct_reply_to_needs_no_queue(channel: AbstractChannel) -> None:
    requests = await channel.declare_queue(exclusive=True)
    replies: asyncio.Queue[Any] = asyncio.Queue()
    underlay = await channel.get_underlay_channel()

    async def on_reply(message: Any) -> None:
        replies.put_nowait(message)

    await underlay.basic_consume("amq.rabbitmq.reply-to", on_reply, no_ack=True)
    await channel.default_exchange.publish(
        Message(b"question", reply_to="amq.rabbitmq.reply-to"), requests.name
    )
    request = await requests.get(no_ack=True)
    assert request.reply_to is not None
    assert request.reply_to.startswith("amq.rabbitmq.reply-to.")
    # Not mandatory: RabbitMQ 3.10 returns a reply as unroutable although it delivers it.
    await channel.default_exchange.publish(Message(b"answer"), request.reply_to, mandatory=False)
    reply = await asyncio.wait_for(replies.get(), WITHIN_S)
    assert reply.body == b"answer"
