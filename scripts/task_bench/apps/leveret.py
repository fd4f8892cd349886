"""Leveret's tasks."""

from __future__ import annotations

import asyncio

from broker.tasks import Tasks
from scripts.task_bench.apps.marks import URL, mark

tasks = Tasks(URL, name="task-bench-leveret", results=None)


@tasks.task(name="work")
async def work(number: int) -> int:
    return mark(number)


async def _send(count: int) -> None:
    async with tasks:
        await work.q_many((number,) for number in range(count))


def send(count: int) -> None:
    asyncio.run(_send(count))


def worker_command(workers: int, concurrency: int) -> list[str]:
    return [
        *("-m", "broker", "worker", "scripts.task_bench.apps.leveret:tasks", "--no-live"),
        *("--workers", str(workers), "--concurrency", str(concurrency), "-l", "warning"),
    ]
