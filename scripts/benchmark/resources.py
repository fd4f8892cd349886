"""Scenarios that measure time to answer, time to start and memory."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import BrokerError, Client, raise_file_limit
from scripts.benchmark.frames import measure_delivery, publish
from scripts.benchmark.machine import resident_bytes
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.publisher import PublisherPlan, PublisherResult, run_publisher
from scripts.benchmark.throughput import scratch_queues, wait_for_count
from scripts.benchmark.workers import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.benchmark.brokers import Running

__all__ = [
    "run_connections",
    "run_idle_memory",
    "run_million_ready",
    "run_queues",
    "run_round_trip",
    "run_start",
]

SETTLE_S: Final = 1.0
FILL_LIMIT_S: Final = 300.0
ROUND_TRIPS_MAX: Final = 50_000
WARM_UP_ROUND_TRIPS: Final = 200
_MB: Final = 1e6
_READ_BYTES: Final = 65_536


def run_round_trip(running: Running, options: Options) -> list[Measurement]:
    """Publish a message on one connection, wait for it on another, again and again."""
    with (
        scratch_queues(running, "round-trip", 1) as (_, names),
        Client(running.target) as sender,
        Client(running.target) as receiver,
    ):
        receiver.consume(names[0], "c", auto_ack=True)
        message = publish(
            "", names[0], bytes(100), is_persistent=False, frame_bytes_max=sender.frame_bytes_max
        )
        times = _round_trip_times(sender, receiver, message, options.seconds)
        receiver.cancel("c")

    times = sorted(times[WARM_UP_ROUND_TRIPS:])
    if not times:
        raise BrokerError("too few round trips in the time given")

    middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
    return [
        Measurement("round-trip-p50", middle * 1e6, "us"),
        Measurement("round-trip-p99", late * 1e6, "us"),
    ]


def _round_trip_times(
    sender: Client, receiver: Client, message: bytes, seconds: float
) -> list[float]:
    send, receive, clock = sender.sock.sendall, receiver.sock.recv, time.perf_counter
    times: list[float] = []
    size = 0
    deadline = clock() + seconds
    while len(times) < ROUND_TRIPS_MAX:
        begin = clock()
        if begin > deadline:
            break

        send(message)
        data = receive(_READ_BYTES)
        while not data or len(data) < size or (not size and not measure_delivery(data)):
            more = receive(_READ_BYTES)
            if not more:
                raise BrokerError("the broker hung up")

            data += more

        times.append(clock() - begin)
        if not size:
            size = measure_delivery(data)

        if len(data) != size:
            raise BrokerError(f"{len(data)} bytes came, not the {size} of a delivery")

    return times


def run_start(running: Running, options: Options) -> list[Measurement]:
    """From exec to the first accepted connection; only of a broker that was started here."""
    if running.start_s is None:
        return []

    return [Measurement("start", running.start_s * 1e3, "ms")]


def run_idle_memory(running: Running, options: Options) -> list[Measurement]:
    """Resident memory after one connection came and went."""
    if not running.pids:
        return []

    with Client(running.target):
        pass

    time.sleep(SETTLE_S)
    return [Measurement("idle-memory", resident_bytes(running.pids) / _MB, "MB")]


def run_million_ready(running: Running, options: Options) -> list[Measurement]:
    """Resident memory with many small transient messages waiting."""
    if not running.pids:
        return []

    with scratch_queues(running, "ready", 1) as (client, names):
        before = resident_bytes(running.pids)
        plan = PublisherPlan(
            running.target, "", (names[0],), 100, False, 0, FILL_LIMIT_S, options.messages
        )
        with Crew() as crew:
            publisher = crew.start(run_publisher, plan, SETTLE_S * 30)
            publisher.tell("go")
            result = publisher.hear(FILL_LIMIT_S)
            if not isinstance(result, PublisherResult):
                raise BrokerError(f"not a publisher's result: {result!r}")

        wait_for_count(client, names[0], options.messages)
        time.sleep(SETTLE_S)
        after = resident_bytes(running.pids)
        client.purge_queue(names[0])

    return [
        Measurement("ready-memory", after / _MB, "MB"),
        Measurement("ready-bytes-each", (after - before) / options.messages, "B"),
    ]


def run_connections(running: Running, options: Options) -> list[Measurement]:
    """Memory of idle connections with one channel each, and how fast they open."""
    if not running.pids:
        return []

    raise_file_limit()
    before = resident_bytes(running.pids)
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(running.target)) for _ in range(options.connections)]
        elapsed_s = time.monotonic() - begin
        time.sleep(SETTLE_S)
        after = resident_bytes(running.pids)
        # A broker that dropped some of them would look lean.
        for client in clients:
            client.set_prefetch(0)

    return [
        Measurement("connections-opened", options.connections / elapsed_s, "connections/s"),
        Measurement("connection-memory", (after - before) / options.connections / 1e3, "KB"),
    ]


def run_queues(running: Running, options: Options) -> list[Measurement]:
    """Memory of empty queues, and how fast they are declared and deleted one by one."""
    if not running.pids:
        return []

    before = resident_bytes(running.pids)
    begin = time.monotonic()
    with _timed_queues(running, options.queues):
        declared_s = time.monotonic() - begin
        time.sleep(SETTLE_S)
        after = resident_bytes(running.pids)
        begin = time.monotonic()

    deleted_s = time.monotonic() - begin
    return [
        Measurement("queues-declared", options.queues / declared_s, "queues/s"),
        Measurement("queues-deleted", options.queues / deleted_s, "queues/s"),
        Measurement("queue-memory", (after - before) / options.queues / 1e3, "KB"),
    ]


@contextlib.contextmanager
def _timed_queues(running: Running, count: int) -> Iterator[None]:
    names = [f"leveret-bench-many-{place}" for place in range(count)]
    with Client(running.target) as client:
        try:
            for name in names:
                client.declare_queue(name)

            yield
        finally:
            for name in names:
                client.delete_queue(name)
