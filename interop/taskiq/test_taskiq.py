"""taskiq: tasks by taskiq-aio-pika, on quorum and on classic queues, now and later."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import aio_pika
import pytest
import pytest_asyncio
from taskiq import InMemoryBroker
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.exchange import Exchange
from taskiq_aio_pika.queue import Queue, QueueType

from interop.support.names import unique_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.asyncio
KINDS = [pytest.param(kind, id=kind.value) for kind in (QueueType.QUORUM, QueueType.CLASSIC)]
WITHIN_S = 20


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> QueueType:
    found: QueueType = request.param
    return found


@pytest_asyncio.fixture
async def broker(url: str, kind: QueueType) -> AsyncIterator[AioPikaBroker]:
    """A broker whose results stay in this process, where its receiver runs too."""
    base = unique_name("taskiq")
    names = {part: f"{base}.{part}" for part in ("tasks", "dead", "later")}
    broker = AioPikaBroker(
        url,
        exchange=Exchange(name=base),
        task_queues=[Queue(name=names["tasks"], type=kind)],
        dead_letter_queue=Queue(name=names["dead"], type=kind),
        delay_queue=Queue(name=names["later"], type=kind),
    )
    broker = broker.with_result_backend(InMemoryBroker().result_backend)
    broker.is_worker_process = True
    await broker.startup()
    yield broker
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        for name in names.values():
            await channel.queue_delete(name)

        await channel.exchange_delete(base)

    await broker.shutdown()


@contextlib.asynccontextmanager
async def receiver(broker: AioPikaBroker) -> AsyncIterator[None]:
    task = asyncio.create_task(run_receiver_task(broker))
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_tasks_give_their_results(broker: AioPikaBroker) -> None:
    @broker.task(task_name="add")
    async def add(one: int, other: int) -> int:
        return one + other

    async with receiver(broker):
        tasks = [await add.kiq(number, 1) for number in range(20)]
        results = [await task.wait_result(timeout=WITHIN_S) for task in tasks]

    assert [result.return_value for result in results] == list(range(1, 21))


async def test_failed_task_gives_its_error(broker: AioPikaBroker) -> None:
    @broker.task(task_name="fail")
    async def fail() -> None:
        raise LookupError("nothing there")

    async with receiver(broker):
        result = await (await fail.kiq()).wait_result(timeout=WITHIN_S)

    assert result.is_err
    assert isinstance(result.error, LookupError)


async def test_delayed_task_waits(broker: AioPikaBroker) -> None:
    @broker.task(task_name="late")
    async def late() -> float:
        return time.monotonic()

    async with receiver(broker):
        sent = time.monotonic()
        task = await late.kicker().with_labels(delay=0.5).kiq()
        result = await task.wait_result(timeout=WITHIN_S)

    assert result.return_value - sent >= 0.5
