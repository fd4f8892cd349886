"""dramatiq."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from scripts.task_bench.apps.marks import URL, mark

broker = RabbitmqBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="task-bench-dramatiq", max_retries=0)
def work(number: int) -> int:
    return mark(number)


def send(count: int) -> None:
    for number in range(count):
        work.send(number)


def worker_command(workers: int, concurrency: int) -> list[str]:
    return [
        *("-m", "dramatiq", "scripts.task_bench.apps.dramatiq", "--processes", str(workers)),
        *("--threads", str(min(concurrency, 8)), "--skip-logging"),
    ]
