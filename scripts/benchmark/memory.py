"""Scenarios of the memory that things take, and of how fast they are made."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import Client, raise_file_limit
from scripts.benchmark.frames import short_string, table
from scripts.benchmark.machine import resident_bytes
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.traffic import PREFIX, fill_queue, scratch_queues

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running

__all__ = [
    "run_connections",
    "run_idle_memory",
    "run_many_queues",
    "run_persistent_ready",
    "run_transient_ready",
]

SETTLE_S: Final = 1.0
_MB: Final = 1e6


def run_idle_memory(running: Running, options: Options) -> list[Measurement]:
    """Resident memory after one connection came and went."""
    with Client(running.target):
        pass

    time.sleep(SETTLE_S)
    return [Measurement("idle-memory", resident_bytes(running.pids) / _MB, "MB")]


def run_transient_ready(running: Running, options: Options) -> list[Measurement]:
    """Resident memory with many small transient messages waiting."""
    queue = f"{PREFIX}-ready"
    with scratch_queues(running, [queue]) as client:
        before = resident_bytes(running.pids)
        fill_queue(running, client, queue, options.messages)
        time.sleep(SETTLE_S)
        after = resident_bytes(running.pids)
        client.purge_queue(queue)

    return [
        Measurement("ready-memory", after / _MB, "MB"),
        Measurement("ready-bytes-each", (after - before) / options.messages, "B"),
    ]


def run_persistent_ready(running: Running, options: Options) -> list[Measurement]:
    """Resident memory with very many small persistent messages waiting, all of them on disk."""
    queue = f"{PREFIX}-persistent"
    count = options.persistent_messages
    with scratch_queues(running, [queue], durable=True) as client:
        before = resident_bytes(running.pids)
        filled = fill_queue(running, client, queue, count, is_persistent=True)
        time.sleep(SETTLE_S)
        after = resident_bytes(running.pids)
        begin = time.monotonic()
        client.purge_queue(queue)
        purge_s = time.monotonic() - begin

    return [
        Measurement("persistent-memory", after / _MB, "MB"),
        Measurement("persistent-bytes-each", (after - before) / count, "B"),
        Measurement("persistent-filled", filled.rate, "msg/s"),
        Measurement("persistent-purge", purge_s * 1e3, "ms"),
    ]


def run_connections(running: Running, options: Options) -> list[Measurement]:
    """Memory of idle connections with one channel each, and how fast they open."""
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


def run_many_queues(running: Running, options: Options) -> list[Measurement]:
    """Memory of empty queues, and how fast they are declared and deleted."""
    names = [short_string(f"{PREFIX}-many-{place:06}") for place in range(options.queues)]
    before = resident_bytes(running.pids)
    with Client(running.target) as client:
        begin = time.monotonic()
        try:
            client.call_many(50, 10, [b"\0\0" + name + b"\0" + table({}) for name in names])
            declared_s = time.monotonic() - begin
            time.sleep(SETTLE_S)
            after = resident_bytes(running.pids)
        finally:
            begin = time.monotonic()
            client.call_many(50, 40, [b"\0\0" + name + b"\0" for name in names])

        deleted_s = time.monotonic() - begin

    return [
        Measurement("queues-declared", options.queues / declared_s, "queues/s"),
        Measurement("queues-deleted", options.queues / deleted_s, "queues/s"),
        Measurement("queue-memory", (after - before) / options.queues / 1e3, "KB"),
    ]
