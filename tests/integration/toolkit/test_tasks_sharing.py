"""Tasks with a broker: what workers, threads and connections share, and full queues."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from broker.client.errors import (
    QueueFull,
    ResultTimeout,
    TaskFailed,
)
from broker.client.spec import QueueSpec
from broker.tasks import (
    Fixed,
    Retry,
    Tasks,
    Worker,
    current,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tasks import Handle


WAIT_S = 10


@pytest.mark.parametrize("blocking", [True, False])
async def test_an_async_function_in_a_plain_wrapper_is_awaited(
    make: Callable[..., Tasks], blocking: bool
) -> None:
    tasks = make()

    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    @functools.wraps(double)
    def inner(*args: Any) -> Any:
        return double(*args)

    wrapped = tasks.task(blocking=blocking)(inner)
    async with tasks, Worker(tasks):
        assert await (await wrapped.q(4)).result(timeout=WAIT_S) == 8


async def test_the_time_of_a_task_begins_when_it_begins(make: Callable[..., Tasks]) -> None:
    tasks = make()
    release = threading.Event()

    @tasks.task(timeout=0.2)
    def hang() -> None:
        release.wait(WAIT_S)

    @tasks.task(timeout=0.2)
    def quick() -> str:
        return "done"

    async with tasks, Worker(tasks, concurrency=1):
        try:
            with pytest.raises(TaskFailed, match="TaskTimeout"):
                await (await hang.q()).result(timeout=WAIT_S)

            handle = await quick.q()
            # The only thread is not free for longer than the task may take.
            with pytest.raises(ResultTimeout):
                await handle.result(timeout=0.6)
        finally:
            release.set()

        assert await handle.result(timeout=WAIT_S) == "done"


async def test_a_retry_survives_that_its_queue_is_full(make: Callable[..., Tasks]) -> None:
    tasks = make(spec=QueueSpec(max_length=3), retry=Retry(3, Fixed(0.3)))
    attempts: list[int] = []
    failed, release = asyncio.Event(), asyncio.Event()

    @tasks.task
    async def fail_once() -> str:
        attempts.append(current().attempt)
        if len(attempts) == 1:
            failed.set()
            raise OSError("not yet")

        return "done"

    @tasks.task
    async def hold() -> None:
        await release.wait()

    async with tasks, Worker(tasks, concurrency=2, grace=0):
        handle = await fail_once.q()
        await asyncio.wait_for(failed.wait(), WAIT_S)
        # The queue is full when the retry is due.
        others = []
        for _ in range(60):
            with contextlib.suppress(QueueFull):
                others.append(await hold.q())

        assert await handle.result(timeout=3) == "done"
        release.set()
        for one in others:
            await one.result(timeout=WAIT_S)

    assert attempts == [1, 2]


async def test_a_result_can_be_had_when_the_worker_has_stopped(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task
    async def add(x: int, y: int) -> int:
        return x + y

    async with Worker(tasks):
        handle = await add.q(1, 2)

    async with Worker(tasks):
        assert await handle.result(timeout=3) == 3


async def test_a_worker_that_stops_leaves_the_others_their_connection(
    make: Callable[..., Tasks],
) -> None:
    tasks = make()

    @tasks.task
    async def inner() -> int:
        return 3

    @tasks.task
    async def outer() -> int:
        await inner.q()
        return 4

    first, second = Worker(tasks), Worker(tasks)
    await first.start()
    await second.start()
    await first.stop()
    assert tasks.current_link() is not None
    sender = make(name=tasks.name)
    sender_task = sender.task(name=outer.name)(lambda: 0)
    handle = await sender_task.q()
    assert await handle.result(timeout=3) == 4
    await second.stop()
    # Only workers, and a task of theirs, have used it.
    assert tasks.current_link() is None


async def test_retries_of_a_full_queue_do_not_stop_its_only_worker(
    make: Callable[..., Tasks],
) -> None:
    tasks = make(spec=QueueSpec(max_length=3), retry=Retry(2, Fixed(0.1)))
    release = asyncio.Event()

    @tasks.task
    async def fail() -> None:
        await release.wait()
        raise OSError("no")

    async with tasks, Worker(tasks, concurrency=1, grace=0):
        handles = []
        for _ in range(60):
            with contextlib.suppress(QueueFull):
                handles.append(await fail.q())

        release.set()
        for handle in handles:
            with pytest.raises(TaskFailed, match="no"):
                await handle.result(timeout=3)


@pytest.mark.parametrize("when", [None, 0.05], ids=["at-once", "later"])
async def test_a_queue_that_goes_with_its_last_worker_is_made_again(
    make: Callable[..., Tasks], when: float | None
) -> None:
    tasks = make(spec=QueueSpec(auto_delete=True))

    @tasks.task
    async def double(x: int) -> int:
        return 2 * x

    async def send(x: int) -> Handle[int]:
        return await double.q(x) if when is None else await double.later(when, x)

    async with tasks:
        for x in (1, 2):
            handle = await send(x)
            async with Worker(tasks):
                assert await handle.result(timeout=WAIT_S) == 2 * x


async def test_a_function_that_holds_up_the_loop_has_a_timeout_too(
    make: Callable[..., Tasks],
) -> None:
    tasks = make()

    @tasks.task(blocking=False, timeout=0.01)
    def hold_up() -> None:
        threading.Event().wait(0.05)

    async with tasks, Worker(tasks):
        with pytest.raises(TaskFailed, match="it took more than"):
            await (await hold_up.q()).result(timeout=WAIT_S)
