"""Toolkit: tasks: functions that run elsewhere, or later, or again and again; over AMQP.

::

    tasks = Tasks("amqp://guest:guest@localhost/")

    @tasks.task(retry=Retry(3, Exponential(1)))
    async def add(x: int, y: int) -> int:
        return x + y

    @tasks.every(60)
    async def tidy_up() -> None: ...

    handle = await add.q(2, 3)              # leveret worker app:tasks does it
    assert await handle.result(timeout=10) == 5
"""

from broker.client.errors import ResultTimeout, TaskFailed
from broker.client.retry import NO_RETRY, Exponential, Fixed, Linear, Retry
from broker.client.schedule import Cron, Every
from broker.tasks.app import Tasks
from broker.tasks.current import Again, NoTask, Running, current
from broker.tasks.events import Event
from broker.tasks.handle import Handle
from broker.tasks.once.base import IdempotencyStore
from broker.tasks.once.memory import MemoryOnce
from broker.tasks.once.postgres import PostgresOnce
from broker.tasks.once.redis import RedisOnce
from broker.tasks.once.sqlite import SqliteOnce
from broker.tasks.outcome import Outcome, Status, TaskCancelled, TaskExpired
from broker.tasks.partition import Partitions, partition_of, stable_hash
from broker.tasks.results.amqp import AmqpResults
from broker.tasks.results.base import ResultBackend
from broker.tasks.results.memory import MemoryResults
from broker.tasks.results.postgres import PostgresResults
from broker.tasks.results.redis import RedisResults
from broker.tasks.task import Task
from broker.tasks.worker import Worker

__all__ = [
    "NO_RETRY",
    "Again",
    "AmqpResults",
    "Cron",
    "Event",
    "Every",
    "Exponential",
    "Fixed",
    "Handle",
    "IdempotencyStore",
    "Linear",
    "MemoryOnce",
    "MemoryResults",
    "NoTask",
    "Outcome",
    "Partitions",
    "PostgresOnce",
    "PostgresResults",
    "RedisOnce",
    "RedisResults",
    "ResultBackend",
    "ResultTimeout",
    "Retry",
    "Running",
    "SqliteOnce",
    "Status",
    "Task",
    "TaskCancelled",
    "TaskExpired",
    "TaskFailed",
    "Tasks",
    "Worker",
    "current",
    "partition_of",
    "stable_hash",
]
