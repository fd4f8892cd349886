"""Scenarios that count transient messages a second, each a row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError
from scripts.benchmark.consumer import ConsumerPlan, ConsumerResult, run_consumer
from scripts.benchmark.machine import cpu_seconds
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.publisher import PublisherPlan
from scripts.benchmark.traffic import (
    DRAIN_LIMIT_S,
    PREFIX,
    SETUP_LIMIT_S,
    Traffic,
    fill_queue,
    run_traffic,
    scratch_queues,
)
from scripts.benchmark.workers import Crew

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running

__all__ = ["FLOWS", "Flow", "figure_of", "run_backlog", "run_flow"]

BACKLOG_MESSAGES: Final = 300_000


class Flow(NamedTuple):
    """Publishers and consumers that run at once."""

    name: str
    title: str
    body_bytes: int = 100
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


def run_flow(flow: Flow, running: Running, options: Options) -> list[Measurement]:
    """Publish for the time given, wait until all has arrived, check the counts."""
    exchange = f"{PREFIX}-{flow.name}" if flow.exchange_type else ""
    names = tuple(f"{PREFIX}-{flow.name}-{place}" for place in range(flow.queues))
    consumers = ConsumerPlan(
        running.target, names, flow.prefetch, flow.ack_every, options.seconds + DRAIN_LIMIT_S
    )
    publishers = [
        PublisherPlan(
            running.target,
            exchange,
            _TOPIC_KEYS if exchange else (names[place],),
            flow.body_bytes,
            False,
            flow.window,
            options.seconds,
        )
        for place in range(flow.publishers)
    ]
    with scratch_queues(running, names) as client:
        if exchange:
            client.delete_exchange(exchange)
            client.declare_exchange(exchange, flow.exchange_type)
            for place, name in enumerate(names):
                client.bind_queue(name, exchange, _TOPIC_PATTERNS[place])

        try:
            copies = flow.queues if exchange else 0
            return [
                figure_of(
                    flow.name, running, run_traffic(running, publishers, consumers, copies=copies)
                )
            ]
        finally:
            if exchange:
                client.delete_exchange(exchange)


def figure_of(name: str, running: Running, traffic: Traffic) -> Measurement:
    """Make the rate of a run a figure, with what it took of the processors."""
    return Measurement(
        name,
        traffic.rate,
        "msg/s",
        traffic.cpu_s_per_million if running.pids else None,
        traffic.client_cpu_s / traffic.elapsed_s,
    )


def run_backlog(running: Running, options: Options) -> list[Measurement]:
    """Fill a queue that nobody reads, then drain it."""
    queue = f"{PREFIX}-backlog"
    count = options.scaled(BACKLOG_MESSAGES)
    with scratch_queues(running, [queue]) as client:
        filled = fill_queue(running, client, queue, count)
        return [
            figure_of("fill", running, filled),
            figure_of("drain", running, _drain(running, queue, count)),
        ]


def _drain(running: Running, queue: str, count: int) -> Traffic:
    plan = ConsumerPlan(running.target, (queue,), 0, 0, DRAIN_LIMIT_S)
    with Crew() as crew:
        consumer = crew.start(run_consumer, plan, SETUP_LIMIT_S)
        cpu_s = cpu_seconds(running.pids)
        consumer.tell("go")
        consumer.tell([count])
        consumer.hear(SETUP_LIMIT_S)
        result = consumer.hear(DRAIN_LIMIT_S)
        if not isinstance(result, ConsumerResult):
            raise BrokerError(f"not a consumer's result: {result!r}")

        cpu_s = cpu_seconds(running.pids) - cpu_s

    return Traffic(count, result.last_s - result.started_s, cpu_s, result.cpu_s, 0.0, 0.0)
