"""Celery. It confirms no sending unless asked; results are ignored, as by the others."""

from __future__ import annotations

from celery import Celery

from scripts.task_bench.apps.marks import URL, mark

app = Celery("task-bench", broker=URL.replace("amqp://", "pyamqp://"))
app.conf.update(
    task_default_queue="task-bench-celery",
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    broker_connection_retry_on_startup=True,
)


@app.task(name="work")
def work(number: int) -> int:
    return mark(number)


def send(count: int) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(count):
            work.apply_async((number,), producer=producer)


def worker_command(workers: int, concurrency: int) -> list[str]:
    return [
        *("-m", "celery", "-A", "scripts.task_bench.apps.celery", "worker", "-l", "warning"),
        *("--pool", "prefork", "--concurrency", str(workers)),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]
