"""Micro-benchmarks of routing: one key, so many bindings."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange.registry import create_exchange
from broker.core.routing import route
from broker.wire.tables import Arguments, Field
from scripts.benchmark.micro.knob import Act, Micro
from scripts.benchmark.micro.stage import Stage

if TYPE_CHECKING:
    from broker.core.exchange.base import Exchange

__all__ = ["MICROS"]

QUEUES: Final = 10
FRESH_KEYS: Final = 20_000
"""More than are remembered: each comes again when it was forgotten long ago."""


@functools.cache
def _exchange(kind: str, bindings: int) -> Exchange:
    """An exchange whose binding ``place`` wants ``key.<place>``, or that header."""
    stage = Stage()
    queues = [stage.declare(f"queue-{place}") for place in range(QUEUES)]
    exchange = create_exchange(ExchangeSettings("micro", kind, False, False, False, {}))
    for place in range(bindings):
        arguments: Arguments = {"number": Field("I", place)} if kind == "headers" else {}
        key = f"*.{place:06}.#" if kind == "topic" and place % 2 else f"key.{place:06}"
        exchange.add_binding(queues[place % QUEUES], key, arguments)

    return exchange


def _repeated(kind: str, bindings: int, operations: int) -> Act:
    exchange = _exchange(kind, bindings)
    keys = ["key.000002"]
    headers: Arguments | None = {"number": Field("I", 2)} if kind == "headers" else None

    def act() -> int:
        for _ in range(operations):
            route({}, exchange, keys, headers)

        return operations

    return act


def _direct(bindings: int, operations: int) -> Act:
    return _repeated("direct", bindings, operations)


def _topic(bindings: int, operations: int) -> Act:
    return _repeated("topic", bindings, operations)


def _headers(bindings: int, operations: int) -> Act:
    return _repeated("headers", bindings, operations)


def _topic_fresh(bindings: int, operations: int) -> Act:
    exchange = _exchange("topic", bindings)
    keys = [[f"key.{place % bindings:06}.{place:06}"] for place in range(FRESH_KEYS)]

    def act() -> int:
        for place in range(operations):
            route({}, exchange, keys[place % FRESH_KEYS], None)

        return operations

    return act


def _topic_words(words: int, operations: int) -> Act:
    """Patterns that match anything, against keys of so many words."""
    stage = Stage()
    exchange = create_exchange(ExchangeSettings("micro", "topic", False, False, False, {}))
    for place, pattern in enumerate(("#", "*.#", "#.*", "#.last", "*.#.last", "#.*.#")):
        exchange.add_binding(stage.declare(f"queue-{place}"), pattern, {})

    keys = [
        [".".join([f"w{place:06}", *["word"] * (words - 2), "last"])] for place in range(FRESH_KEYS)
    ]

    def act() -> int:
        for place in range(operations):
            route({}, exchange, keys[place % FRESH_KEYS], None)

        return operations

    return act


MICROS: Final = (
    Micro("route-direct", "bindings", (10, 1_000, 100_000), 10_000, _direct),
    Micro("route-topic-repeated", "bindings", (10, 1_000, 100_000), 10_000, _topic),
    Micro("route-topic-fresh", "bindings", (10, 1_000, 100_000), 3_000, _topic_fresh),
    Micro("route-topic-hashes", "words", (2, 5, 20), 1_000, _topic_words),
    Micro("route-headers", "bindings", (10, 1_000, 100_000), 5_000, _headers),
)
