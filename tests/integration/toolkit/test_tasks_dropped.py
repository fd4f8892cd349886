"""Tasks that the broker takes out of their queue: who has sent them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aio_pika
import pytest

from broker.client import QueueSpec, connect
from broker.tasks import (
    AmqpResults,
    MemoryOnce,
    Status,
    TaskExpired,
    TaskFailed,
    Worker,
)
from broker.tasks.dropped import dropped_queue
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.client import Client
    from broker.tasks import ResultBackend, Tasks
    from tests.helpers.proxy import Proxy

WAIT_S = 10


async def sell(order: int) -> str:
    return f"sold {order}"


async def all_told(client: Client, tasks: Tasks, dead: int) -> None:
    """Wait until so many tasks are dead letters, and their senders have been told."""

    async def is_so() -> bool:
        stats = await client.stats(dropped_queue(tasks.name))
        return await client.dead(tasks.queue).count() == dead and stats.ready == 0

    await until(is_so)


async def until_dead(client: Client, queue: str) -> None:
    """Wait until a task is a dead letter."""

    async def is_so() -> bool:
        return await client.dead(queue).count() > 0

    await until(is_so)


async def test_a_task_that_expires_is_expired(
    make: Callable[..., Tasks], results: ResultBackend
) -> None:
    tasks = make(results=results)
    task = tasks.task(sell)
    async with tasks:
        handle = await task.using(ttl=0.05).q(7)
        with pytest.raises(TaskExpired, match="longer than it may"):
            await handle.result(timeout=WAIT_S)

        assert await handle.status() is Status.EXPIRED
        assert await task.handle(handle.id).status() is Status.EXPIRED
        async with Worker(tasks):
            other = await task.using(ttl=60).q(8)
            assert await other.result(timeout=WAIT_S) == "sold 8"


async def test_the_time_to_live_may_be_the_queues(make: Callable[..., Tasks]) -> None:
    tasks = make(spec=QueueSpec(message_ttl=0.05))
    async with tasks:
        handle = await tasks.task(sell).q(7)
        assert (await handle.wait(WAIT_S)).status is Status.EXPIRED


async def test_a_task_that_was_too_many_has_failed(make: Callable[..., Tasks]) -> None:
    tasks = make(spec=QueueSpec(max_length=1, on_full="drop-oldest"))
    task = tasks.task(sell)
    async with tasks:
        first, second = await task.q(1), await task.q(2)
        with pytest.raises(TaskFailed, match=r"dropped it from the queue '.*': maxlen") as caught:
            await first.result(timeout=WAIT_S)

        assert caught.value.error_type.endswith("TaskDropped")
        async with Worker(tasks):
            assert await second.result(timeout=WAIT_S) == "sold 2"


async def test_a_task_that_no_worker_survives_has_failed(
    make: Callable[..., Tasks], url: str
) -> None:
    """A quorum queue counts how often whoever had it was lost."""
    tasks = make(spec=QueueSpec(kind="quorum", arguments={"x-delivery-limit": 1}))
    task = tasks.task(sell)
    async with tasks:
        handle = await task.q(7)
        for _ in range(2):
            connection = await aio_pika.connect(url)
            channel = await connection.channel()
            queue = await channel.get_queue(tasks.queue)
            await queue.get(timeout=WAIT_S)
            await connection.close()

        with pytest.raises(TaskFailed, match="delivery_limit"):
            await handle.result(timeout=WAIT_S)


async def test_a_result_that_is_there_stays(
    make: Callable[..., Tasks], results: ResultBackend, url: str
) -> None:
    """Sent again under one key, it may expire the second time: it was done the first time."""
    tasks = make(results=results, guarantee="effectively_once", once=MemoryOnce())
    task = tasks.task(sell).using(key="order-7", ttl=0.2)
    async with tasks, connect(url) as client:
        handle = await task.q(7)
        async with Worker(tasks):
            assert await handle.result(timeout=WAIT_S) == "sold 7"

        await task.q(7)
        await all_told(client, tasks, 1)
        link = await tasks.link()
        await link.port.barrier()
        assert await handle.result(timeout=WAIT_S) == "sold 7"


async def test_who_comes_later_is_told_by_whoever_is_there(
    make: Callable[..., Tasks], url: str
) -> None:
    sender = make(results=AmqpResults(shared=True))
    task = sender.task(name="sell", ttl=0.05)(sell)
    async with sender:
        task_id = (await task.q(7)).id

    async with connect(url) as client:
        await until_dead(client, sender.queue)

    receiver = make(name=sender.name, results=AmqpResults(shared=True))
    task = receiver.task(name="sell", ttl=0.05)(sell)
    async with receiver, Worker(receiver):
        assert (await task.handle(task_id).wait(WAIT_S)).status is Status.EXPIRED


async def test_what_expires_while_the_connection_is_lost_is_told(
    make: Callable[..., Tasks], proxy: Proxy, url: str
) -> None:
    tasks = make(at=proxy.url, timeout=WAIT_S)
    task = tasks.task(sell)
    async with tasks, connect(url) as client:
        handle = await task.using(ttl=0.3).q(7)
        await proxy.close()
        await until_dead(client, tasks.queue)
        await proxy.open()
        assert (await handle.wait(WAIT_S)).status is Status.EXPIRED


async def test_a_task_that_failed_is_told_once(make: Callable[..., Tasks], url: str) -> None:
    """What a worker makes a dead letter goes the same way, and says by what it failed."""
    tasks = make()

    @tasks.task(ttl=60)
    async def fail() -> None:
        raise ValueError("no good")

    async with tasks, Worker(tasks), connect(url) as client:
        handle = await fail.q()
        with pytest.raises(TaskFailed, match="no good"):
            await handle.result(timeout=WAIT_S)

        await all_told(client, tasks, 1)
        with pytest.raises(TaskFailed, match="no good"):
            await handle.result(timeout=WAIT_S)


async def test_a_run_that_expired_does_not_hold_the_next_one_back(
    make: Callable[..., Tasks], url: str
) -> None:
    """Without a word of its end, the next one waited for an hour."""
    tasks = make()

    @tasks.task(queue=f"{tasks.name}.other", name="other")
    async def other() -> None: ...

    @tasks.every(0.2, name="look", overlap="skip", ttl=0.05, result=False)
    async def look() -> None: ...

    async with tasks, Worker(tasks, queues=other.options.queue), connect(url) as client:

        async def are_several() -> bool:
            return await client.dead(tasks.queue).count() >= 3

        await until(are_several)
