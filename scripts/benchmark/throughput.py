"""Scenarios that count messages a second, each a row of a table."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError, Client
from scripts.benchmark.consumer import ConsumerPlan, ConsumerResult, run_consumer
from scripts.benchmark.machine import cpu_seconds
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.publisher import PublisherPlan, PublisherResult, run_publisher
from scripts.benchmark.workers import Crew, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.benchmark.brokers import Running

__all__ = ["FLOWS", "Flow", "run_backlog", "run_flow", "scratch_queues"]

SETUP_LIMIT_S: Final = 30.0
DRAIN_LIMIT_S: Final = 90.0
"""What is still on its way when the publishers stop must arrive within this."""
BACKLOG_MESSAGES: Final = 300_000
_PREFIX: Final = "leveret-bench"
_POLL_S: Final = 0.002


class Flow(NamedTuple):
    """Publishers and consumers that run at once."""

    name: str
    title: str
    body_bytes: int = 100
    is_persistent: bool = False
    window: int = 0
    prefetch: int = 0
    ack_every: int = 0
    queues: int = 1
    publishers: int = 1
    exchange_type: str = ""


FLOWS: Final = (
    Flow("auto-ack", "1 publisher, 1 consumer, 100 B, auto-ack"),
    Flow(
        "manual-ack",
        "the same, acknowledged every 100, prefetch 500",
        prefetch=500,
        ack_every=100,
    ),
    Flow("confirms", "the same with auto-ack and confirms, window 1000", window=1000),
    Flow(
        "persistent-1000",
        "1 KB persistent, durable queue, confirms, window 1000",
        body_bytes=1024,
        is_persistent=True,
        window=1000,
        prefetch=1000,
        ack_every=100,
    ),
    Flow(
        "persistent-100",
        "the same, window 100",
        body_bytes=1024,
        is_persistent=True,
        window=100,
        prefetch=1000,
        ack_every=100,
    ),
    Flow("four-queues", "4 queues, 4 publishers, 4 consumers", queues=4, publishers=4),
    Flow("fanout", "fan-out to 10 queues (deliveries)", queues=10, exchange_type="fanout"),
    Flow("topic", "topic to 10 queues (deliveries)", queues=10, exchange_type="topic"),
    Flow("large-bodies", "64 KiB bodies, auto-ack", body_bytes=65_536),
)

_TOPIC_KEYS: Final = tuple(
    f"shop.{region}.order.{n:02}" for region in ("eu", "us") for n in range(50)
)
_TOPIC_PATTERNS: Final = (
    "#",
    "shop.#",
    "shop.*.order.*",
    "*.*.order.#",
    "#.order.*",
    "shop.*.*.*",
    "*.*.*.*",
    "shop.#.order.#",
    "*.#.order.*",
    "#.order.#",
)
"""Each of them matches every key, each in another way."""


@contextlib.contextmanager
def scratch_queues(
    running: Running, scenario: str, count: int, *, durable: bool = False
) -> Iterator[tuple[Client, list[str]]]:
    """Have empty queues of our own while the context lasts.

    The names are fixed, so that what a killed run left behind is removed by the next one.
    Leftover messages after a run that succeeded are an error.
    """
    names = [f"{_PREFIX}-{scenario}-{place}" for place in range(count)]
    with Client(running.target) as client:
        for name in names:
            client.delete_queue(name)
            client.declare_queue(name, durable=durable)

        try:
            yield client, names
        except BaseException:
            with contextlib.suppress(BrokerError, OSError):
                for name in names:
                    client.delete_queue(name)

            raise

        left = sum(client.delete_queue(name) for name in names)
        if left:
            raise BrokerError(f"{left} messages were left in the queues")


def run_flow(flow: Flow, running: Running, options: Options) -> list[Measurement]:
    """Publish for the time given, wait until all has arrived, check the counts."""
    exchange = f"{_PREFIX}-{flow.name}" if flow.exchange_type else ""
    with scratch_queues(running, flow.name, flow.queues, durable=flow.is_persistent) as (
        client,
        names,
    ):
        if exchange:
            client.delete_exchange(exchange)
            client.declare_exchange(exchange, flow.exchange_type)
            for place, name in enumerate(names):
                client.bind_queue(name, exchange, _TOPIC_PATTERNS[place])

        try:
            return [_measure_flow(flow, running, options, exchange, names)]
        finally:
            if exchange:
                client.delete_exchange(exchange)


def _measure_flow(
    flow: Flow, running: Running, options: Options, exchange: str, names: list[str]
) -> Measurement:
    limit_s = options.seconds + DRAIN_LIMIT_S
    with Crew() as crew:
        consumer_plan = ConsumerPlan(
            running.target, tuple(names), flow.prefetch, flow.ack_every, limit_s
        )
        consumer = crew.start(run_consumer, consumer_plan, SETUP_LIMIT_S)
        publishers = [
            crew.start(
                run_publisher,
                _publisher_plan(flow, running, options.seconds, exchange, names, place),
                SETUP_LIMIT_S,
            )
            for place in range(flow.publishers)
        ]
        consumer.tell("go")
        consumer.hear(SETUP_LIMIT_S)
        cpu_s = cpu_seconds(running.pids)
        for publisher in publishers:
            publisher.tell("go")

        sent = [_published(publisher, limit_s) for publisher in publishers]
        if exchange:
            expected = [sum(result.sent for result in sent)] * flow.queues
        else:
            expected = [result.sent for result in sent]

        consumer.tell(expected)
        received = _consumed(consumer, limit_s)
        cpu_s = cpu_seconds(running.pids) - cpu_s

    total = sum(received.received)
    elapsed_s = received.last_s - min(result.started_s for result in sent)
    client_cpu_s = received.cpu_s + sum(result.cpu_s for result in sent)
    return Measurement(
        flow.name,
        total / elapsed_s,
        "msg/s",
        cpu_s / total * 1e6 if running.pids else None,
        client_cpu_s / elapsed_s,
    )


def _publisher_plan(
    flow: Flow, running: Running, seconds: float, exchange: str, names: list[str], place: int
) -> PublisherPlan:
    keys = _TOPIC_KEYS if exchange else (names[place],)
    return PublisherPlan(
        running.target,
        exchange,
        keys,
        flow.body_bytes,
        flow.is_persistent,
        flow.window,
        seconds,
    )


def _published(worker: Worker, limit_s: float) -> PublisherResult:
    result = worker.hear(limit_s)
    if not isinstance(result, PublisherResult):
        raise BrokerError(f"not a publisher's result: {result!r}")

    return result


def _consumed(worker: Worker, limit_s: float) -> ConsumerResult:
    result = worker.hear(limit_s)
    if not isinstance(result, ConsumerResult):
        raise BrokerError(f"not a consumer's result: {result!r}")

    return result


def run_backlog(running: Running, options: Options) -> list[Measurement]:
    """Fill a queue that nobody reads, then drain it."""
    with scratch_queues(running, "backlog", 1) as (client, names):
        return [_fill(running, client, names[0]), _drain(running, names[0])]


def _fill(running: Running, client: Client, queue: str) -> Measurement:
    plan = PublisherPlan(
        running.target, "", (queue,), 100, False, 0, DRAIN_LIMIT_S, BACKLOG_MESSAGES
    )
    with Crew() as crew:
        publisher = crew.start(run_publisher, plan, SETUP_LIMIT_S)
        cpu_s = cpu_seconds(running.pids)
        publisher.tell("go")
        result = _published(publisher, DRAIN_LIMIT_S)
        # The publisher's last byte is not the queue's last message: ask until all are there.
        wait_for_count(client, queue, BACKLOG_MESSAGES)
        elapsed_s = time.monotonic() - result.started_s
        cpu_s = cpu_seconds(running.pids) - cpu_s

    return _backlog_measurement("fill", running, elapsed_s, cpu_s, result.cpu_s)


def _drain(running: Running, queue: str) -> Measurement:
    plan = ConsumerPlan(running.target, (queue,), 0, 0, DRAIN_LIMIT_S)
    with Crew() as crew:
        consumer = crew.start(run_consumer, plan, SETUP_LIMIT_S)
        cpu_s = cpu_seconds(running.pids)
        consumer.tell("go")
        consumer.tell([BACKLOG_MESSAGES])
        consumer.hear(SETUP_LIMIT_S)
        result = _consumed(consumer, DRAIN_LIMIT_S)
        cpu_s = cpu_seconds(running.pids) - cpu_s

    elapsed_s = result.last_s - result.started_s
    return _backlog_measurement("drain", running, elapsed_s, cpu_s, result.cpu_s)


def _backlog_measurement(
    name: str, running: Running, elapsed_s: float, cpu_s: float, client_cpu_s: float
) -> Measurement:
    return Measurement(
        name,
        BACKLOG_MESSAGES / elapsed_s,
        "msg/s",
        cpu_s / BACKLOG_MESSAGES * 1e6 if running.pids else None,
        client_cpu_s / elapsed_s,
    )


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
