"""Keys of tasks: what is done, kept and cancelled under one, and what is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.client import connect
from broker.tasks import MemoryOnce, Status, TaskCancelled, Worker
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.tasks import ResultBackend, Tasks
    from broker.tasks.once.base import Claim, Effect

WAIT_S = 10


async def test_one_key_of_two_tasks_is_two_things_to_do(make: Callable[..., Tasks]) -> None:
    tasks = make(guarantee="effectively_once", once=MemoryOnce(), results=None)
    runs: list[str] = []

    @tasks.task
    async def sell(order: int) -> None:
        runs.append(f"sold {order}")

    @tasks.task
    async def refund(order: int) -> None:
        runs.append(f"refunded {order}")

    @tasks.task
    async def end() -> None:
        runs.append("end")

    async with tasks, Worker(tasks, concurrency=1):
        for _ in range(2):
            await sell.using(key="order-7").q(7)
            await refund.using(key="order-7").q(7)

        await end.q()
        await until(lambda: "end" in runs)

    assert runs == ["sold 7", "refunded 7", "end"]


async def test_one_key_of_two_tasks_is_two_results(
    make: Callable[..., Tasks], results: ResultBackend
) -> None:
    tasks = make(results=results)

    @tasks.task
    async def sell(order: int) -> str:
        return f"sold {order}"

    @tasks.task
    async def refund(order: int) -> str:
        return f"refunded {order}"

    async with tasks, Worker(tasks):
        sold = await sell.using(key="order-7").q(7)
        refunded = await refund.using(key="order-7").q(7)
        assert (sold.id, refunded.id) == ("order-7", "order-7")
        assert await refunded.result(timeout=WAIT_S) == "refunded 7"
        assert await sold.result(timeout=WAIT_S) == "sold 7"
        assert await refund.handle("order-7").result(timeout=WAIT_S) == "refunded 7"
        assert await sell.handle("order-7").result(timeout=WAIT_S) == "sold 7"
        await sold.forget()
        assert await sell.handle("order-7").status() is Status.PENDING
        assert await refund.handle("order-7").status() is Status.SUCCEEDED


@pytest.mark.parametrize("is_named", [True, False], ids=["one", "all-of-that-id"])
async def test_who_cancels_one_task_does_not_cancel_another(
    make: Callable[..., Tasks], is_named: bool
) -> None:
    tasks = make()
    release = asyncio.Event()
    begun: list[str] = []

    @tasks.task
    async def sell() -> str:
        begun.append("sell")
        await release.wait()
        return "sold"

    @tasks.task
    async def refund() -> str:
        begun.append("refund")
        await release.wait()
        return "refunded"

    async with tasks, Worker(tasks, concurrency=2):
        sold = await sell.using(key="order-7").q()
        refunded = await refund.using(key="order-7").q()
        await until(lambda: len(begun) == 2)
        if is_named:
            await sold.cancel()
        else:
            await tasks.cancel("order-7")

        with pytest.raises(TaskCancelled):
            await sold.result(timeout=WAIT_S)

        release.set()
        outcome = await refunded.wait(WAIT_S)
        assert outcome.status is (Status.SUCCEEDED if is_named else Status.CANCELLED)


async def test_a_cancel_of_an_earlier_version_names_the_id_alone(
    make: Callable[..., Tasks], url: str
) -> None:
    tasks = make()
    begun = asyncio.Event()

    @tasks.task
    async def sell() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with tasks, Worker(tasks), connect(url) as client:
        handle = await sell.q()
        await begun.wait()
        await client.publish(f"{tasks.name}.control.cancel", handle.id)
        assert (await handle.wait(WAIT_S)).status is Status.CANCELLED


async def test_what_is_forgotten_is_done_again(make: Callable[..., Tasks]) -> None:
    tasks = make(guarantee="effectively_once", once=MemoryOnce())
    runs: list[int] = []

    @tasks.task
    async def sell() -> int:
        runs.append(1)
        return len(runs)

    async with tasks, Worker(tasks):
        handle = await sell.using(key="order-7").q()
        assert await handle.result(timeout=WAIT_S) == 1
        await handle.forget()
        again = await sell.using(key="order-7").q()
        assert await again.result(timeout=WAIT_S) == 2


class AwayOnce(MemoryOnce):
    """A store that cannot be reached when a task has been done, before its mark or after it."""

    def __init__(self, *, is_marked: bool) -> None:
        super().__init__()
        self._is_marked = is_marked
        self.failures = 3

    async def claim(self, key: str, owner: str, *, lease_s: float) -> Claim:
        if self.failures in {1, 2}:
            self.failures -= 1
            raise ConnectionResetError

        return await super().claim(key, owner, lease_s=lease_s)

    async def complete(
        self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect] = ()
    ) -> bool:
        if self.failures == 3:
            self.failures -= 1
            if self._is_marked:
                await super().complete(key, owner, outcome, effects)

            raise ConnectionResetError

        return await super().complete(key, owner, outcome, effects)


@pytest.mark.parametrize("is_marked", [False, True], ids=["before its mark", "after its mark"])
async def test_what_is_done_while_its_store_goes_away_is_done_once(
    make: Callable[..., Tasks], is_marked: bool
) -> None:
    store = AwayOnce(is_marked=is_marked)
    tasks = make(guarantee="effectively_once", once=store)
    runs: list[int] = []

    @tasks.task
    async def sell(order: int) -> int:
        runs.append(order)
        return order

    async with tasks, Worker(tasks):
        assert await (await sell.using(key="order-7").q(7)).result(timeout=WAIT_S) == 7

    assert runs == [7]
    assert not store.failures


async def test_a_task_is_cancelled_in_its_event_loop(make: Callable[..., Tasks]) -> None:
    tasks = make()
    has_begun = asyncio.Event()
    # In debug mode asyncio refuses what is called from another thread.
    asyncio.get_running_loop().set_debug(True)

    @tasks.task
    async def endless() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async with tasks, Worker(tasks):
        handle = await endless.q()
        await has_begun.wait()
        await handle.cancel()
        assert (await handle.wait(timeout=WAIT_S)).status is Status.CANCELLED
