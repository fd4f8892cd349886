"""taskiq."""

from __future__ import annotations

import asyncio

from taskiq_aio_pika import AioPikaBroker

from scripts.task_bench.apps.marks import URL, mark

try:
    from taskiq_aio_pika import Queue

    broker = AioPikaBroker(URL, qos=100).with_queue(Queue(name="task-bench-taskiq"))
except ImportError:
    broker = AioPikaBroker(URL, qos=100, queue_name="task-bench-taskiq")


@broker.task("work")
async def work(number: int) -> int:
    return mark(number)


async def _send(count: int) -> None:
    await broker.startup()
    for start in range(0, count, 500):
        await asyncio.gather(
            *(work.kiq(number) for number in range(start, min(start + 500, count)))
        )

    await broker.shutdown()


def send(count: int) -> None:
    asyncio.run(_send(count))


def worker_command(workers: int, concurrency: int) -> list[str]:
    return [
        *("-m", "taskiq", "worker", "scripts.task_bench.apps.taskiq:broker"),
        *("--workers", str(workers), "--max-async-tasks", str(concurrency)),
        *("--log-level", "WARNING", "--no-configure-logging"),
    ]
