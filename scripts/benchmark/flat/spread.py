"""Does a message cost more when there are many queues, connections or consumers?"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import BrokerError, Client, raise_file_limit
from scripts.benchmark.consumer import ConsumerPlan, run_consumer
from scripts.benchmark.flat.curve import Reader, Stopwatch, probe_count, repeat, sizes_of
from scripts.benchmark.frames import publish, short_string, table
from scripts.benchmark.publisher import ConfirmCounter, PublisherPlan
from scripts.benchmark.traffic import (
    DRAIN_LIMIT_S,
    PREFIX,
    SETUP_LIMIT_S,
    Traffic,
    run_traffic,
    scratch_queues,
)
from scripts.benchmark.workers import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.benchmark.brokers import Running
    from scripts.benchmark.measurement import Measurement, Options

__all__ = ["run_connections", "run_consumers", "run_queues"]

BODY_BYTES: Final = 100
QUEUE_SIZES: Final = (1, 100, 10_000)
CONNECTION_SIZES: Final = (1, 100, 5_000)
CONSUMER_SIZES: Final = (1, 10, 1_000)
BURST: Final = 50
"""Messages that a connection sends at once, before the next connection has its turn."""
PREFETCH: Final = 500
ACK_EVERY: Final = 100
_READ_BYTES: Final = 65_536


@contextlib.contextmanager
def _many_queues(running: Running, names: Sequence[str]) -> Iterator[Client]:
    encoded = [short_string(name) for name in names]
    with Client(running.target) as client:
        client.call_many(50, 10, [b"\0\0" + name + b"\0" + table({}) for name in encoded])
        try:
            yield client
        finally:
            client.call_many(50, 40, [b"\0\0" + name + b"\0" for name in encoded])


def _pass_on(
    running: Running, keys: Sequence[str], count: int, consumed: Sequence[str] = (), **ack: int
) -> Traffic:
    """Send so many messages to these queues in turn, and consume them on one channel."""
    publisher = PublisherPlan(
        running.target, "", tuple(keys), BODY_BYTES, False, 0, DRAIN_LIMIT_S, count
    )
    consumer = ConsumerPlan(
        running.target,
        tuple(consumed or keys),
        ack.get("prefetch", 0),
        ack.get("every", 0),
        DRAIN_LIMIT_S * 2,
        is_shared=True,
    )
    return run_traffic(running, [publisher], consumer)


def run_queues(running: Running, options: Options) -> list[Measurement]:
    """Traffic through one of many queues, then through all of them in turn."""
    found: list[Measurement] = []
    count = probe_count(options)
    for size in sizes_of(options, *QUEUE_SIZES):
        names = [f"{PREFIX}-flat-{place:06}" for place in range(size)]
        with _many_queues(running, names):
            one = partial(_pass_on, running, names[:1], count)
            found.append(repeat("queues-idle", size, one))
            found.append(repeat("queues-used", size, partial(_pass_on, running, names, count)))

    return found


def run_connections(running: Running, options: Options) -> list[Measurement]:
    """Traffic of one pair beside idle connections, then bursts of all connections in turn."""
    raise_file_limit()
    found: list[Measurement] = []
    count = probe_count(options)
    queue = f"{PREFIX}-flat-connections"
    with scratch_queues(running, [queue]), contextlib.ExitStack() as stack:
        clients: list[Client] = []
        for size in sizes_of(options, *CONNECTION_SIZES):
            while len(clients) < size:
                clients.append(stack.enter_context(Client(running.target)))
                clients[-1].select_confirms()

            idle = partial(_pass_on, running, [queue], count)
            found.append(repeat("connections-idle", size, idle))
            turns = _Turns(running, queue, clients, count // BURST)
            found.append(repeat("connections-used", size, turns.run))

    return found


class _Turns:
    """Bursts of confirmed publishes, each on the next connection, one at a time."""

    def __init__(self, running: Running, queue: str, clients: list[Client], bursts: int) -> None:
        self._running = running
        self._queue = queue
        self._clients = clients
        self._bursts = bursts
        message = publish(
            "", queue, bytes(BODY_BYTES), is_persistent=False, frame_bytes_max=131_072
        )
        self._data = message * BURST

    def run(self) -> Traffic:
        for client in self._clients:
            client.reopen_channel()
            client.select_confirms()

        counters = [ConfirmCounter() for _ in self._clients]
        plan = ConsumerPlan(self._running.target, (self._queue,), 0, 0, DRAIN_LIMIT_S)
        with Crew() as crew:
            consumer = crew.start(run_consumer, plan, SETUP_LIMIT_S)
            consumer.tell("go")
            consumer.hear(SETUP_LIMIT_S)
            watch = Stopwatch(self._running)
            for burst in range(self._bursts):
                place = burst % len(self._clients)
                self._burst(self._clients[place], counters[place])

            traffic = watch.stop(self._bursts * BURST)
            consumer.tell([self._bursts * BURST])
            consumer.hear(DRAIN_LIMIT_S)

        return traffic

    def _burst(self, client: Client, counter: ConfirmCounter) -> None:
        wanted = counter.confirmed + BURST
        client.sock.sendall(self._data)
        while counter.confirmed < wanted:
            data = client.sock.recv(_READ_BYTES)
            if not data:
                raise BrokerError("the broker hung up on a publisher")

            counter.feed(data)


def run_consumers(running: Running, options: Options) -> list[Measurement]:
    """Many consumers on one queue: all take, all take and settle, all but one are full."""
    found: list[Measurement] = []
    count = probe_count(options)
    queue = f"{PREFIX}-flat-consumers"
    for size in sizes_of(options, *CONSUMER_SIZES):
        same = [queue] * size
        with scratch_queues(running, [queue]):
            auto = partial(_pass_on, running, [queue], count, same)
            found.append(repeat("consumers-auto-ack", size, auto))
            manual = partial(
                _pass_on, running, [queue], count, same, prefetch=PREFETCH, every=ACK_EVERY
            )
            found.append(repeat("consumers-manual-ack", size, manual))
            with _stuck_consumers(running, queue, size - 1):
                one = partial(_pass_on, running, [queue], count)
                found.append(repeat("consumers-stuck", size, one))

            with Client(running.target) as client:
                client.purge_queue(queue)

    return found


@contextlib.contextmanager
def _stuck_consumers(running: Running, queue: str, count: int) -> Iterator[None]:
    """Have consumers that hold all they may and settle none of it."""
    with Client(running.target) as client:
        if count:
            client.set_prefetch(1)
            tags = [f"s{place:05}" for place in range(count)]
            client.consume_all([queue] * count, tags, 0)
            message = publish(
                "", queue, bytes(BODY_BYTES), is_persistent=False, frame_bytes_max=131_072
            )
            client.sock.sendall(message * count)
            Reader(client, tags[0]).wait_for(count)

        yield
