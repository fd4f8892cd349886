"""What aio-pika's own suite wants of a broker in a container, written anew for the fixture.

Its patterns (calls and workers), its timeouts, and its robust connections, which that suite leads
through a proxy to break them: here faults do it, and the clock is moved where the original sleeps.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import RPC, Master, NackMessage, RejectMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aio_pika.abc import AbstractRobustConnection

    from broker.testing import Broker

# A socket that was lost is left to the garbage collector by aio-pika, which complains.
pytestmark = [pytest.mark.asyncio, pytest.mark.filterwarnings("ignore")]

HOUR_S = 3_600


@pytest.fixture
async def connection(leveret_url: str) -> AsyncIterator[AbstractRobustConnection]:
    connection = await aio_pika.connect_robust(leveret_url, reconnect_interval=0.01)
    yield connection
    await connection.close()


# -- calls


async def test_a_call_has_the_answer_of_who_is_called(connection: AbstractRobustConnection) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        await rpc.register("multiply", multiply, auto_delete=True)
        assert await rpc.proxy.multiply(x=6, y=7) == 42
        results = await asyncio.gather(*[rpc.proxy.multiply(x=n, y=2) for n in range(50)])
        assert results == [2 * n for n in range(50)]


async def test_a_call_raises_what_its_function_raises(connection: AbstractRobustConnection) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("no hare")

    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        await rpc.register("fail", fail, auto_delete=True)
        with pytest.raises(ZeroDivisionError):
            await rpc.call("fail")


async def test_a_call_to_nobody_is_returned(connection: AbstractRobustConnection) -> None:
    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        with pytest.raises(aio_pika.exceptions.MessageProcessError):
            await rpc.call("nobody")


async def test_a_call_that_nobody_answers_in_time_comes_to_its_end(
    leveret: Broker, connection: AbstractRobustConnection
) -> None:
    """It expires in its queue, and the dead letter exchange brings it back to the caller."""
    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        await channel.declare_queue("slow", arguments={"x-dead-letter-exchange": RPC.DLX_NAME})
        call = asyncio.create_task(rpc.call("slow", expiration=HOUR_S))
        await leveret.wait_for(lambda: leveret.queue("slow").assert_ready(1))
        await leveret.clock.advance(HOUR_S - 1)
        assert not call.done()

        await leveret.clock.advance(2)
        with pytest.raises(TimeoutError):
            await call

    leveret.queue("slow").assert_dead_lettered(1, reason="expired")


# -- workers


@pytest.mark.parametrize(
    ("problem", "again"),
    [
        pytest.param(RejectMessage(requeue=False), False, id="reject"),
        pytest.param(RejectMessage(requeue=True), True, id="reject-requeue"),
        pytest.param(NackMessage(requeue=False), False, id="nack"),
        pytest.param(NackMessage(requeue=True), True, id="nack-requeue"),
    ],
)
async def test_a_worker_can_give_a_task_back(
    leveret: Broker, connection: AbstractRobustConnection, problem: Exception, again: bool
) -> None:
    tries: list[int] = []

    async def work(*, task: int) -> None:
        tries.append(task)
        if len(tries) == 1:
            raise problem

    async with connection.channel() as channel:
        master = Master(channel)
        worker = await master.create_worker("work", work, auto_delete=True)
        await master.proxy.work(task=7)
        await leveret.wait_for(lambda: leveret.queue("work").assert_empty())
        await leveret.wait_idle()
        await worker.close()

    assert tries == ([7, 7] if again else [7])
    assert len(leveret.history.requeued(queue="work")) == int(again)


# -- publishes


async def test_a_message_for_nobody_is_an_error(connection: AbstractRobustConnection) -> None:
    async with connection.channel(on_return_raises=True) as channel:
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"hare"), "nowhere")


async def test_a_publish_that_is_refused_is_an_error(
    leveret: Broker, connection: AbstractRobustConnection
) -> None:
    async with connection.channel() as channel:
        await channel.declare_queue("q")
        leveret.faults.nack_confirms()
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"hare"), "q")


async def test_a_confirm_that_does_not_come_is_waited_for_no_longer_than_wanted(
    leveret: Broker, connection: AbstractRobustConnection
) -> None:
    async with connection.channel() as channel:
        await channel.declare_queue("q")
        held = leveret.faults.hold_confirms()
        exchange = channel.default_exchange
        publish = asyncio.create_task(exchange.publish(aio_pika.Message(b"hare"), "q"))
        await leveret.wait_for(lambda: held.count == 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publish, 0.01)

        held.release()

    leveret.queue("q").assert_ready(1)


# -- robust connections


@pytest.mark.parametrize("fault", ["drop", "close", "restart"])
async def test_everything_is_declared_again_after(
    leveret: Broker, connection: AbstractRobustConnection, fault: str
) -> None:
    heard: list[bytes] = []

    async def on_message(message: Any) -> None:
        async with message.process():
            heard.append(message.body)

    channel = await connection.channel(publisher_confirms=False)
    exchange = await channel.declare_exchange("news", "topic", auto_delete=True)
    queue = await channel.declare_queue("own", exclusive=True)
    await queue.bind(exchange, "hare.#")
    await queue.consume(on_message)
    before = leveret.connections[0].name

    if fault == "drop":
        leveret.faults.drop_connections()
    elif fault == "close":
        leveret.faults.close_connections()
    else:
        await leveret.faults.restart()

    await leveret.wait_for(lambda: [one.name for one in leveret.connections] not in ([], [before]))
    await leveret.wait_for(lambda: leveret.queue("own").assert_consumers(1))
    async with await aio_pika.connect(leveret.url) as other, other.channel() as publisher:
        again = await publisher.get_exchange("news")
        await again.publish(aio_pika.Message(b"again"), "hare.quick")

    await leveret.wait_for(lambda: leveret.queue("own").assert_acked(1))
    assert heard == [b"again"]


async def test_a_channel_that_was_closed_by_a_mistake_leaves_the_others(
    connection: AbstractRobustConnection,
) -> None:
    async with connection.channel() as good:
        bad = await connection.channel()
        await good.declare_queue("q", auto_delete=True)
        with pytest.raises(ChannelPreconditionFailed):
            await bad.declare_queue("q", auto_delete=False)

        assert (await good.declare_queue("q", auto_delete=True)).name == "q"
