"""Publishing and consuming processes at work at once, and the queues they work on."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError, Client
from scripts.benchmark.consumer import ConsumerPlan, ConsumerResult, run_consumer
from scripts.benchmark.machine import cpu_seconds
from scripts.benchmark.publisher import PublisherPlan, PublisherResult, run_publisher
from scripts.benchmark.workers import Crew, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scripts.benchmark.brokers import Running

__all__ = [
    "DRAIN_LIMIT_S",
    "PREFIX",
    "SETUP_LIMIT_S",
    "Traffic",
    "fill_queue",
    "published",
    "run_traffic",
    "scratch_queues",
    "wait_for_count",
    "wait_until_left",
]

PREFIX: Final = "leveret-bench"
SETUP_LIMIT_S: Final = 60.0
DRAIN_LIMIT_S: Final = 90.0
"""What is still on its way when the publishers stop must arrive within this."""
FILL_LIMIT_S: Final = 300.0
FILL_WINDOW: Final = 10_000
FILL_BODY_BYTES: Final = 100
_POLL_S: Final = 0.002


class Traffic(NamedTuple):
    """What came of a run."""

    messages: int
    """Deliveries; where nobody consumes, publishes."""
    elapsed_s: float
    cpu_s: float
    """Of the broker; 0 where it is not on this machine."""
    client_cpu_s: float
    p50_s: float
    p99_s: float
    """From send to confirm, of the first publisher."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.elapsed_s

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds of the broker for a million messages."""
        return self.cpu_s / self.messages * 1e6


@contextlib.contextmanager
def scratch_queues(
    running: Running,
    names: Sequence[str],
    *,
    durable: bool = False,
    arguments: Mapping[str, str | int] | None = None,
    may_be_left: bool = False,
) -> Iterator[Client]:
    """Have empty queues of our own while the context lasts.

    The names are fixed, so that what a killed run left behind is removed by the next one.
    Leftover messages after a run that succeeded are an error unless they ``may_be_left``.
    """
    with Client(running.target) as client:
        for name in names:
            client.delete_queue(name)
            client.declare_queue(name, durable=durable, arguments=arguments)

        try:
            yield client
        except BaseException:
            with contextlib.suppress(BrokerError, OSError):
                for name in names:
                    client.delete_queue(name)

            raise

        left = sum(client.delete_queue(name) for name in names)
        if left and not may_be_left:
            raise BrokerError(f"{left} messages were left in the queues")


def run_traffic(
    running: Running,
    publisher_plans: Sequence[PublisherPlan],
    consumer_plan: ConsumerPlan | None = None,
    *,
    copies: int = 0,
) -> Traffic:
    """Publish until the plans are fulfilled, wait until all has arrived, check the counts.

    Args:
        running: the broker.
        publisher_plans: of each publisher.
        consumer_plan: of the consumers; None where nobody consumes.
        copies: how many of the consumers get every message; 0: the first consumer gets what the
            first publisher sends and so on, or, all on one connection, together they get it all.

    """
    limit_s = max(plan.seconds for plan in publisher_plans) + DRAIN_LIMIT_S
    with Crew() as crew:
        consumer = None
        if consumer_plan is not None:
            consumer = crew.start(run_consumer, consumer_plan, SETUP_LIMIT_S)

        publishers = [crew.start(run_publisher, plan, SETUP_LIMIT_S) for plan in publisher_plans]
        if consumer is not None:
            consumer.tell("go")
            consumer.hear(SETUP_LIMIT_S)

        cpu_s = cpu_seconds(running.pids)
        for publisher in publishers:
            publisher.tell("go")

        sent = [published(publisher, limit_s) for publisher in publishers]
        started_s = min(result.started_s for result in sent)
        client_cpu_s = sum(result.cpu_s for result in sent)
        if consumer is None or consumer_plan is None:
            messages = sum(result.sent for result in sent)
            elapsed_s = max(result.finished_s for result in sent) - started_s
        else:
            consumer.tell(_expected([result.sent for result in sent], consumer_plan, copies))
            received = _consumed(consumer, limit_s)
            messages = sum(received.received)
            elapsed_s = received.last_s - started_s
            client_cpu_s += received.cpu_s

        cpu_s = cpu_seconds(running.pids) - cpu_s

    return Traffic(messages, elapsed_s, cpu_s, client_cpu_s, sent[0].p50_s, sent[0].p99_s)


def _expected(sent: list[int], plan: ConsumerPlan, copies: int) -> list[int]:
    if plan.is_shared:
        return [sum(sent) * (copies or 1)]

    return [sum(sent)] * copies if copies else sent


def published(worker: Worker, limit_s: float) -> PublisherResult:
    """Wait for what a publisher has to report."""
    result = worker.hear(limit_s)
    if not isinstance(result, PublisherResult):
        raise BrokerError(f"not a publisher's result: {result!r}")

    return result


def _consumed(worker: Worker, limit_s: float) -> ConsumerResult:
    result = worker.hear(limit_s)
    if not isinstance(result, ConsumerResult):
        raise BrokerError(f"not a consumer's result: {result!r}")

    return result


def fill_queue(
    running: Running,
    client: Client,
    queue: str,
    count: int,
    *,
    is_persistent: bool = False,
    meanwhile: Callable[[], int] | None = None,
) -> Traffic:
    """Add so many messages to a queue; returns when all of them are there.

    Args:
        running: the broker.
        client: asks how many are there.
        queue: its name.
        count: so many.
        is_persistent: then they are confirmed.
        meanwhile: called once while they are published, where somebody consumes already: it reads
            what is delivered, and returns how many messages that were.

    """
    before, _ = client.declare_queue(queue, passive=True)
    window = min(count, FILL_WINDOW) if is_persistent else 0
    plan = PublisherPlan(
        running.target, "", (queue,), FILL_BODY_BYTES, is_persistent, window, FILL_LIMIT_S, count
    )
    with Crew() as crew:
        publisher = crew.start(run_publisher, plan, SETUP_LIMIT_S)
        cpu_s = cpu_seconds(running.pids)
        publisher.tell("go")
        taken = 0 if meanwhile is None else meanwhile()
        result = published(publisher, FILL_LIMIT_S)
        # The publisher's last byte is not the queue's last message: ask until all are there.
        wait_for_count(client, queue, before + count - taken)
        elapsed_s = time.monotonic() - result.started_s
        cpu_s = cpu_seconds(running.pids) - cpu_s

    return Traffic(count, elapsed_s, cpu_s, result.cpu_s, result.p50_s, result.p99_s)


def wait_until_left(client: Client, queue: str) -> None:
    """Wait until a queue has no consumers, so that what they held is back in it."""
    deadline = time.monotonic() + DRAIN_LIMIT_S
    while client.declare_queue(queue, passive=True)[1]:
        if time.monotonic() > deadline:
            raise BrokerError("consumers stay that have hung up")

        time.sleep(_POLL_S)


def wait_for_count(client: Client, queue: str, count: int) -> None:
    """Wait until a queue holds exactly ``count`` messages."""
    deadline = time.monotonic() + DRAIN_LIMIT_S
    while True:
        messages, _ = client.declare_queue(queue, passive=True)
        if messages == count:
            return

        if time.monotonic() > deadline:
            raise BrokerError(f"{messages} messages are in the queue, not {count}")

        time.sleep(_POLL_S)
