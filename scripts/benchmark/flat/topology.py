"""Does a message cost more when there are many bindings, and an object when there are many?"""

from __future__ import annotations

import itertools
import random
from functools import partial
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import Client
from scripts.benchmark.consumer import ConsumerPlan
from scripts.benchmark.flat.curve import Stopwatch, point, probe_count, repeat, sizes_of
from scripts.benchmark.frames import short_string, table
from scripts.benchmark.publisher import PublisherPlan
from scripts.benchmark.traffic import DRAIN_LIMIT_S, PREFIX, Traffic, run_traffic, scratch_queues

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scripts.benchmark.brokers import Running
    from scripts.benchmark.measurement import Measurement, Options

__all__ = ["run_bindings", "run_objects"]

BINDING_SIZES: Final = (10, 1_000, 100_000)
OBJECTS: Final = 100_000
OBJECTS_MIN: Final = 500
DURABLE_PART: Final = 10
"""Of the objects, so many times fewer are durable queues: each waits for the disk."""
PARTS: Final = 10
"""The objects are made in so many parts; the first, the middle and the last are told."""
QUEUES: Final = 10
REPEATED_KEYS: Final = 100
BODY_BYTES: Final = 100
SEED: Final = 1


def _pattern(place: int) -> str:
    """One of three forms, so that a key has exactly one binding, of the first form."""
    first, second = f"a{place // 300:04}", f"b{place % 300:03}"
    return (f"{first}.{second}.*", f"{first}.*.{second}", f"*.{first}.{second}")[place % 3]


def _keys(bindings: int, count: int) -> list[str]:
    """Keys that never came before, each of them of one binding, drawn evenly from all."""
    numbers = random.Random(SEED)  # noqa: S311 - the same ones in every run
    serial = itertools.count()
    found = []
    for _ in range(count):
        place = numbers.randrange(0, bindings, 3)
        found.append(f"a{place // 300:04}.b{place % 300:03}.{next(serial):08}")

    return found


def run_bindings(running: Running, options: Options) -> list[Measurement]:
    """Publish to a topic exchange, the same few keys again and again, then ever new ones."""
    exchange = f"{PREFIX}-flat-topic"
    queues = [f"{PREFIX}-flat-topic-{place}" for place in range(QUEUES)]
    count = probe_count(options)
    found: list[Measurement] = []
    bound = 0
    with scratch_queues(running, queues) as client:
        client.delete_exchange(exchange)
        client.declare_exchange(exchange, "topic")
        try:
            sizes = sizes_of(options, *BINDING_SIZES)
            for size in sorted({max(size, QUEUES) for size in sizes}):
                _bind(client, exchange, queues, range(bound, size))
                bound = size
                for name, keys in (
                    ("bindings-repeated-keys", _keys(size, REPEATED_KEYS)),
                    ("bindings-fresh-keys", _keys(size, count)),
                ):
                    sample = partial(_publish, running, exchange, keys, queues, count)
                    found.append(repeat(name, size, sample))
        finally:
            client.delete_exchange(exchange)

    return found


def _bind(client: Client, exchange: str, queues: list[str], places: Iterable[int]) -> None:
    client.call_many(
        50,
        20,
        [
            b"\0\0"
            + short_string(queues[place % QUEUES])
            + short_string(exchange)
            + short_string(_pattern(place))
            + b"\0"
            + table({})
            for place in places
        ],
    )


def _publish(
    running: Running, exchange: str, keys: list[str], queues: list[str], count: int
) -> Traffic:
    publisher = PublisherPlan(
        running.target, exchange, tuple(keys), BODY_BYTES, False, 0, DRAIN_LIMIT_S, count
    )
    consumer = ConsumerPlan(running.target, tuple(queues), 0, 0, DRAIN_LIMIT_S * 2, is_shared=True)
    return run_traffic(running, [publisher], consumer)


def run_objects(running: Running, options: Options) -> list[Measurement]:
    """Declare, bind and delete very many objects; does the last one cost more than the first?"""
    count = max(OBJECTS_MIN, options.scaled(OBJECTS))
    names = [short_string(f"{PREFIX}-object-{place:06}") for place in range(count)]
    home, topic = short_string(f"{PREFIX}-object-home"), short_string(f"{PREFIX}-object-topic")
    durable = names[: max(OBJECTS_MIN, count // DURABLE_PART)]
    none = table({})
    with Client(running.target) as client:
        client.call(50, 10, b"\0\0" + home + b"\0" + none)
        client.call(40, 10, b"\0\0" + topic + short_string("topic") + b"\0" + none)
        bindings = [b"\0\0" + home + topic + name for name in names]
        kind = short_string("direct")
        steps = (
            ("queue-declare", 50, 10, [b"\0\0" + name + b"\0" + none for name in names]),
            ("queue-delete", 50, 40, [b"\0\0" + name + b"\0" for name in names]),
            ("durable-declare", 50, 10, [b"\0\0" + name + b"\2" + none for name in durable]),
            ("durable-delete", 50, 40, [b"\0\0" + name + b"\0" for name in durable]),
            ("exchange-declare", 40, 10, [b"\0\0" + name + kind + b"\0" + none for name in names]),
            ("exchange-delete", 40, 20, [b"\0\0" + name + b"\0" for name in names]),
            ("bind", 50, 20, [one + b"\0" + none for one in bindings]),
            ("unbind", 50, 50, [one + none for one in bindings]),
        )
        found: list[Measurement] = []
        for name, class_id, method_id, arguments in steps:
            found += _timed(running, client, f"objects-{name}", (class_id, method_id), arguments)

        client.call(40, 20, b"\0\0" + topic + b"\0")
        client.call(50, 40, b"\0\0" + home + b"\0")

    return found


def _timed(
    running: Running, client: Client, name: str, ids: tuple[int, int], arguments: list[bytes]
) -> list[Measurement]:
    step = len(arguments) // PARTS
    taken: list[Traffic] = []
    for start in range(0, step * PARTS, step):
        watch = Stopwatch(running)
        client.call_many(*ids, arguments[start : start + step])
        taken.append(watch.stop(step))

    client.call_many(*ids, arguments[step * PARTS :])
    told = (0, PARTS // 2, PARTS - 1)
    return [point(name, step * (place + 1), [taken[place]]) for place in told]
