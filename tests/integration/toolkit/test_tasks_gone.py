"""Tasks whose queues somebody deletes beneath them, and those that end themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.client import InvalidValue, connect
from broker.tasks import Fixed, Retry, Status, Worker
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tasks import Tasks

WAIT_S = 10


async def delete(url: str, *queues: str) -> None:
    async with connect(url) as client:
        for queue in queues:
            await client.delete(queue, with_dead=True)


async def test_a_worker_makes_its_queue_anew(make: Callable[..., Tasks], url: str) -> None:
    tasks = make()

    @tasks.task
    async def double(number: int) -> int:
        return number * 2

    async with tasks, Worker(tasks):
        assert await (await double.q(21)).result(timeout=WAIT_S) == 42
        for number in range(3):
            await delete(url, tasks.name)
            handle = await double.q(number)
            assert await handle.result(timeout=WAIT_S) == number * 2


async def test_so_it_does_while_nobody_sends(make: Callable[..., Tasks], url: str) -> None:
    tasks = make()

    @tasks.task
    async def double(number: int) -> int:
        return number * 2

    async with tasks, Worker(tasks), connect(url) as client:
        for _ in range(2):
            await delete(url, tasks.name)
            for _ in range(WAIT_S * 20):
                if await client.exists(tasks.name) and (await client.stats(tasks.name)).consumers:
                    break

                await asyncio.sleep(0.05)
            else:
                pytest.fail("nobody consumes the queue")


async def test_a_sender_makes_the_queue_anew(make: Callable[..., Tasks], url: str) -> None:
    tasks = make()

    @tasks.task
    async def double(number: int) -> int:
        return number * 2

    async with tasks:
        await double.q(1)
        await delete(url, tasks.name)
        handle = await double.q(21)
        async with Worker(tasks):
            assert await handle.result(timeout=WAIT_S) == 42


async def test_results_come_though_their_queue_was_deleted(
    make: Callable[..., Tasks], url: str
) -> None:
    tasks = make()
    may_end = asyncio.Event()
    queues: list[str] = []

    @tasks.task
    async def double(number: int) -> int:
        await may_end.wait()
        return number * 2

    async with tasks, Worker(tasks), connect(url) as client:
        first = await double.q(21)
        link = await tasks.link()
        intake = link.port._work_intake
        assert intake is not None
        queues += [queue for queue, _ in intake.handlers.values() if ".results." in queue]
        assert len(queues) == 1
        await client.delete(queues[0])
        for _ in range(WAIT_S * 20):
            if await client.exists(queues[0]):
                break

            await asyncio.sleep(0.05)

        may_end.set()
        assert await first.result(timeout=WAIT_S) == 42


async def test_ticks_come_though_the_queue_of_the_beat_was_deleted(
    make: Callable[..., Tasks], url: str
) -> None:
    tasks = make()
    ticks: list[int] = []

    @tasks.every(0.2)
    async def tick() -> None:
        ticks.append(len(ticks))

    async with tasks, Worker(tasks):
        await until(lambda: len(ticks) > 1, WAIT_S)
        await delete(url, f"{tasks.name}.beat", tasks.name)
        known = len(ticks) + 1  # one may be under way
        await until(lambda: len(ticks) > known + 1, WAIT_S)


async def test_a_task_that_cancels_itself_has_failed(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task(retry=Retry(2, Fixed(0)))
    async def suicidal() -> None:
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        await asyncio.sleep(WAIT_S)

    async with tasks, Worker(tasks, concurrency=1):
        outcome = await (await suicidal.q()).wait(timeout=WAIT_S)
        assert outcome.status is Status.FAILED
        assert outcome.attempt == 2


async def test_an_error_that_cannot_be_told_is_a_failure(make: Callable[..., Tasks]) -> None:
    tasks = make()

    def broken(_error: object) -> str:
        raise RuntimeError

    odd = type("OddError", (Exception,), {"__str__": broken, "__traceback__": property(broken)})

    @tasks.task
    async def fail() -> None:
        raise odd

    async with tasks, Worker(tasks):
        outcome = await (await fail.q()).wait(timeout=WAIT_S)
        assert outcome.status is Status.FAILED


@pytest.mark.parametrize("task_id", ["", 5, None, "x" * 256, "\udc80"])
async def test_a_handle_of_what_cannot_be_is_refused(
    make: Callable[..., Tasks], task_id: str
) -> None:
    tasks = make()

    @tasks.task
    async def double(number: int) -> int:
        return number * 2

    with pytest.raises(InvalidValue):
        double.handle(task_id)
