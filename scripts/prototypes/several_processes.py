"""Measures several processes behind one port against one that does everything.

Run ``python -P -m scripts.prototypes.several_processes`` with PYTHONPATH naming the build first and
the checkout second. It starts a front with workers, then a single process, each with two virtual
hosts, and prints what both take to open a connection and to pass messages on in both hosts at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.build import build_kind
from scripts.benchmark.brokers import Running
from scripts.benchmark.client import Client, Target
from scripts.benchmark.consumer import ConsumerPlan
from scripts.benchmark.latency import percentile
from scripts.benchmark.machine import cpu_seconds
from scripts.benchmark.publisher import PublisherPlan
from scripts.benchmark.traffic import DRAIN_LIMIT_S, PREFIX, Traffic, run_traffic, scratch_queues
from scripts.prototypes.handover import Front, Worker, make_channels, serve_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import ForkProcess

VHOSTS: Final = ("left", "right")
STOP_LIMIT_S: Final = 5.0
_CONTEXT: Final = multiprocessing.get_context("fork")


class _Figures(NamedTuple):
    """Of one arrangement of processes."""

    processes: int
    connect_p50_ms: float
    connect_cpu_ms: float
    """Of all its processes, for one connection."""
    one_vhost: float
    both_vhosts: float
    """Messages a second, all together."""
    cpu_s_per_million: float


def main() -> int:
    """Measure both arrangements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=2_000)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found: dict[str, object] = {"build": build_kind(), "cores": os.cpu_count()}
    for name, workers in (
        ("one process", 0),
        (f"front and {given.workers} workers", given.workers),
    ):
        figures = _measure(workers, given.seconds, given.connections)
        found[name] = figures._asdict()

    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


def _measure(workers: int, seconds: float, connections: int) -> _Figures:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port = listener.getsockname()[1]
    processes = list(_start(listener, workers))
    listener.close()
    pids = tuple(process.pid for process in processes if process.pid is not None)
    runs = [
        Running(Target("127.0.0.1", port, "guest", "guest", vhost), pids, None) for vhost in VHOSTS
    ]
    try:
        for running in runs:
            Client(running.target).sock.close()

        cpu_s = cpu_seconds(pids)
        times = _connect_times(runs, connections)
        connect_cpu_s = cpu_seconds(pids) - cpu_s
        one = _pass_on(runs[:1], seconds)[0]
        cpu_s = cpu_seconds(pids)
        both = _pass_on(runs, seconds)
        cpu_s = cpu_seconds(pids) - cpu_s
        total = sum(traffic.messages for traffic in both)
        return _Figures(
            len(processes),
            percentile(times, 0.5) * 1e3,
            connect_cpu_s / connections * 1e3,
            one.rate,
            sum(traffic.rate for traffic in both),
            cpu_s / total * 1e6,
        )
    finally:
        for process in processes:
            process.terminate()

        for process in processes:
            process.join(STOP_LIMIT_S)


def _start(listener: socket.socket, workers: int) -> Iterator[ForkProcess]:
    if not workers:
        yield _fork(_run_alone, listener)
        return

    pairs = make_channels(workers)
    for _, theirs in pairs:
        yield _fork(_run_worker, theirs)

    yield _fork(_run_front, listener, *[ours for ours, _ in pairs])
    for pair in pairs:
        for end in pair:
            end.close()


def _fork(run: Callable[..., None], *sockets: socket.socket) -> ForkProcess:
    process = _CONTEXT.Process(target=run, args=sockets, daemon=True)
    process.start()
    return process


def _run_alone(listener: socket.socket) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(serve_alone(listener, VHOSTS))


def _run_worker(channel: socket.socket) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(Worker(channel, VHOSTS).serve())


def _run_front(listener: socket.socket, *channels: socket.socket) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(Front(listener, channels, VHOSTS).serve())


def _connect_times(runs: list[Running], count: int) -> list[float]:
    times = []
    for place in range(count):
        begin = time.perf_counter()
        with Client(runs[place % len(runs)].target):
            times.append(time.perf_counter() - begin)

    return times


def _pass_on(runs: list[Running], seconds: float) -> list[Traffic]:
    """A publisher and a consumer in each virtual host, all at once."""
    with ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(lambda running: _pass_on_in(running, seconds), runs))


def _pass_on_in(running: Running, seconds: float) -> Traffic:
    name = f"{PREFIX}-several"
    publisher = PublisherPlan(running.target, "", (name,), 100, False, 0, seconds)
    consumer = ConsumerPlan(running.target, (name,), 0, 0, seconds + DRAIN_LIMIT_S)
    with scratch_queues(running, [name]):
        return run_traffic(running, [publisher], consumer)


if __name__ == "__main__":
    sys.exit(main())
