"""Every operation of tasks is cancelled after so many steps of the event loop.

Goal and method are those of the test of the client's operations: who gives up waiting does so at
once, and other tasks of the same program are sent, run and answered as if nothing had been.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from broker.tasks import AmqpResults, Status, Tasks, Worker
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.tasks import Handle, Task

AT_ONCE_S: Final = 5.0
STEPS: Final = (*range(10), *(round(10 * 1.35**n) for n in range(1, 14)))


class Place:
    """What an operation is tried on."""

    def __init__(self, tasks: Tasks, double: Task[[int], int, Any], done: Handle[int]) -> None:
        self.tasks = tasks
        self.double = double
        self.done = done


async def working(place: Place) -> None:
    async with Worker(place.tasks, concurrency=1):
        pass


async def connecting(place: Place) -> None:
    async with Tasks(place.tasks.url, name="toolkit-test.others") as others:
        await (await others.link()).client()


async def listening(place: Place) -> None:
    end = await place.tasks.listen(lambda _: None, "succeeded")
    await end()


async def sending_and_waiting(place: Place) -> None:
    assert await (await place.double.q(2)).result(timeout=AT_ONCE_S) == 4


async def forgetting(place: Place) -> None:
    handle = place.double.handle("none")
    await handle.forget()


NAMED: dict[str, Callable[[Place], Coroutine[Any, Any, object]]] = {
    "send": lambda place: place.double.q(1),
    "send-later": lambda place: place.double.later(0.01, 1),
    "send-many": lambda place: place.tasks.send_many(place.double, [((n,), {}) for n in range(3)]),
    "result": sending_and_waiting,
    "result-that-is-there": lambda place: place.done.result(timeout=AT_ONCE_S),
    "status": lambda place: place.done.status(),
    "cancel": lambda place: place.double.handle("none").cancel(),
    "forget": forgetting,
    "listen": listening,
    "connect": connecting,
    "work": working,
}


@pytest.mark.parametrize("operation", NAMED)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
async def test_who_is_cancelled_is_so_at_once_and_other_tasks_go_on(
    operation: str, shared: bool, make: Callable[..., Tasks], caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    caplog.set_level(logging.WARNING)
    tasks = make(results=AmqpResults(shared=shared))

    @tasks.task
    async def double(number: int) -> int:
        return number * 2

    async with Worker(tasks):
        link = await tasks.link()
        place = Place(tasks, double, await double.q(21))
        assert await place.done.result(timeout=AT_ONCE_S) == 42
        work, others = link.port.work_channel, asyncio.all_tasks()
        client = await link.client()
        for steps in STEPS:
            innocent = asyncio.create_task(innocents(double, place.done))
            is_done = await cancelled_after(steps, NAMED[operation](place))
            async with asyncio.timeout(AT_ONCE_S):
                await innocent
                await innocents(double, place.done)

            if is_done:
                break

        assert await tasks.link() is link
        assert link.port.work_channel is work
        assert client.connected
        try:
            await until(lambda: not left_tasks(others), AT_ONCE_S)
        except TimeoutError:
            pytest.fail(f"left: {left_tasks(others)}")

    assert not problems
    assert not [record.getMessage() for record in caplog.records]


async def innocents(double: Task[[int], int, Any], done: Handle[int]) -> None:
    """Ask what has one right answer alone."""
    handle = await double.q(2)
    assert await handle.result(timeout=AT_ONCE_S) == 4
    assert await done.status() is Status.SUCCEEDED
    assert await double.handle("never").status() is Status.PENDING


async def cancelled_after(steps: int, work: Coroutine[Any, Any, object]) -> bool:
    """Cancel something after so many steps; say whether it has ended by then."""
    task = asyncio.create_task(work)
    for _ in range(steps):
        if task.done():
            break

        await asyncio.sleep(0)

    is_done = not task.cancel()
    await asyncio.wait((task,), timeout=AT_ONCE_S)
    assert task.done()
    if is_done:
        task.result()
    else:
        assert task.cancelled()

    return is_done


def left_tasks(others: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Return what was begun since, except what channels are made of."""
    begun = asyncio.all_tasks() - others - {asyncio.current_task()}
    return {task for task in begun if "Channel._reader" not in repr(task.get_coro())}
