"""Keys of tasks: what is done under one, and what is not."""

from __future__ import annotations

import time

from broker.tasks import MemoryOnce, Tasks, Worker
from tests.helpers.waiting import until


async def test_one_key_of_two_tasks_is_two_things_to_do(url: str) -> None:
    name = f"toolkit-test.keys-{time.time_ns():x}"
    tasks = Tasks(url, name=name, guarantee="effectively_once", once=MemoryOnce(), results=None)
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
