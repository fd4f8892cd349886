"""dramatiq: actors, retries, delays, priorities and what cannot be done, by a worker in threads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import dramatiq
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import AgeLimit, Retries, TimeLimit

from interop.support.deadline import eventually
from interop.support.names import unique_name

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_MS = 20_000


@pytest.fixture
def queue() -> str:
    return unique_name("dramatiq")


@pytest.fixture
def broker(url: str, queue: str) -> Iterator[RabbitmqBroker]:
    middleware = [AgeLimit(), TimeLimit(), Retries(min_backoff=50, max_backoff=200)]
    broker = RabbitmqBroker(url=url, confirm_delivery=True, max_priority=5, middleware=middleware)
    yield broker
    for name in (queue, f"{queue}.DQ", f"{queue}.XQ"):
        broker.channel.queue_delete(name)

    broker.close()


@pytest.fixture
def worker(broker: RabbitmqBroker) -> Iterator[dramatiq.Worker]:
    worker = dramatiq.Worker(broker, worker_threads=2, worker_timeout=100)
    yield worker
    worker.stop()


def counts(broker: RabbitmqBroker, queue: str) -> tuple[int, int, int]:
    found: tuple[int, int, int] = broker.get_queue_message_counts(queue)
    return found


def test_work_is_done(broker: RabbitmqBroker, worker: dramatiq.Worker, queue: str) -> None:
    done: list[int] = []
    actor = dramatiq.actor(done.append, actor_name="add", queue_name=queue, broker=broker)
    for number in range(50):
        actor.send(number)

    worker.start()
    broker.join(queue, timeout=TIMEOUT_MS)
    eventually(lambda: sorted(done) == list(range(50)))
    assert counts(broker, queue) == (0, 0, 0)


def test_failed_work_is_tried_again(
    broker: RabbitmqBroker, worker: dramatiq.Worker, queue: str
) -> None:
    tries: list[float] = []
    succeeded = threading.Event()

    def fail_twice() -> None:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise RuntimeError("not yet")

        succeeded.set()

    actor = dramatiq.actor(fail_twice, actor_name="fail", queue_name=queue, broker=broker)
    worker.start()
    actor.send()
    assert succeeded.wait(TIMEOUT_MS / 1000)
    assert len(tries) == 3


def test_delayed_work_waits(broker: RabbitmqBroker, worker: dramatiq.Worker, queue: str) -> None:
    done: list[float] = []
    actor = dramatiq.actor(
        lambda: done.append(time.monotonic()), actor_name="late", queue_name=queue, broker=broker
    )
    worker.start()
    sent = time.monotonic()
    actor.send_with_options(delay=500)
    eventually(lambda: done)
    assert done[0] - sent >= 0.5


def test_work_that_always_fails_goes_to_the_dead_letters(
    broker: RabbitmqBroker, worker: dramatiq.Worker, queue: str
) -> None:
    def fail() -> None:
        raise RuntimeError("never")

    actor = dramatiq.actor(fail, actor_name="never", queue_name=queue, broker=broker, max_retries=1)
    worker.start()
    actor.send()
    eventually(lambda: counts(broker, queue) == (0, 0, 1))


def test_broker_priority_goes_first(
    broker: RabbitmqBroker, worker: dramatiq.Worker, queue: str
) -> None:
    done: list[Any] = []
    actor = dramatiq.actor(done.append, actor_name="ranked", queue_name=queue, broker=broker)
    for priority in (1, 5, 3):
        actor.send_with_options(args=(priority,), broker_priority=priority)

    eventually(lambda: counts(broker, queue)[0] == 3)
    message = broker.consume(queue, prefetch=1, timeout=5000)
    first = next(message)
    assert first.args == (5,)
    message.nack(first)
    message.close()


def test_lost_queue_is_declared_again(
    broker: RabbitmqBroker, worker: dramatiq.Worker, queue: str
) -> None:
    done = threading.Event()
    actor = dramatiq.actor(done.set, actor_name="lost", queue_name=queue, broker=broker)
    broker.declare_queue(queue, ensure=True)
    broker.channel.queue_delete(queue)
    actor.send()
    worker.start()
    assert done.wait(TIMEOUT_MS / 1000)
