"""Scenarios of persistent messages on durable queues, each confirm after the disk has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.consumer import ConsumerPlan
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.publisher import PublisherPlan
from scripts.benchmark.throughput import figure_of
from scripts.benchmark.traffic import (
    DRAIN_LIMIT_S,
    PREFIX,
    run_traffic,
    scratch_queues,
    wait_for_count,
)

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running

__all__ = ["DURABLE_FLOWS", "QUEUE_TYPES", "DurableFlow", "run_durable"]

QUEUE_TYPES: Final = ("classic", "quorum")
BODY_BYTES: Final = 1024
PREFETCH: Final = 1000
ACK_EVERY: Final = 100


class DurableFlow(NamedTuple):
    """One publisher of 1 KB messages, with or without a consumer."""

    name: str
    title: str
    window: int
    is_consumed: bool


DURABLE_FLOWS: Final = tuple(
    DurableFlow(
        f"durable-{window}{'-consumed' if is_consumed else ''}",
        f"1 KB persistent, confirms, window {window}, "
        + ("consumer with manual ack" if is_consumed else "no consumer"),
        window,
        is_consumed,
    )
    for is_consumed in (False, True)
    for window in (1000, 100)
)


def run_durable(
    flow: DurableFlow, queue_type: str, running: Running, options: Options
) -> list[Measurement]:
    """Publish with confirms for the time given; say how many a second and how late confirms are."""
    name = f"{PREFIX}-{flow.name}-{queue_type}"
    # Classic is what a queue is without more words.
    arguments: dict[str, str | int] = (
        {} if queue_type == "classic" else {"x-queue-type": queue_type}
    )
    publisher = PublisherPlan(
        running.target, "", (name,), BODY_BYTES, True, flow.window, options.seconds
    )
    consumer = None
    if flow.is_consumed:
        limit_s = options.seconds + DRAIN_LIMIT_S
        consumer = ConsumerPlan(running.target, (name,), PREFETCH, ACK_EVERY, limit_s)

    with scratch_queues(
        running, [name], durable=True, arguments=arguments, may_be_left=not flow.is_consumed
    ) as client:
        traffic = run_traffic(running, [publisher], consumer)
        if consumer is None:
            wait_for_count(client, name, traffic.messages)

    return [
        figure_of(flow.name, running, traffic),
        Measurement(f"{flow.name}-confirm-p50", traffic.p50_s * 1e3, "ms"),
        Measurement(f"{flow.name}-confirm-p99", traffic.p99_s * 1e3, "ms"),
    ]
