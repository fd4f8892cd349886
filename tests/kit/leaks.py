"""Many brokers, one after the other, each with a client: what do they leave behind?

``python -m tests.kit.leaks 1000`` prints it; a test does the same with fewer.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import NamedTuple

from broker.testing import Broker
from tests.helpers.untyped import pika

__all__ = ["Traces", "run", "traces"]

WARM_UP = 10
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Traces(NamedTuple):
    """What a process has of everything that a broker could leave."""

    threads: int
    descriptors: int
    objects: int
    resident_bytes: int


def traces() -> Traces:
    """Count what there is."""
    gc.collect()
    try:
        descriptors = len(os.listdir("/proc/self/fd"))
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * PAGE_BYTES
    except OSError:
        descriptors = resident = 0

    return Traces(threading.active_count(), descriptors, len(gc.get_objects()), resident)


def use_one() -> None:
    """A broker, and a client that publishes, gets and acknowledges one message."""
    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            channel.basic_publish("", "q", b"hare")
            method, _, _ = channel.basic_get("q")
            channel.basic_ack(method.delivery_tag)

        broker.wait_idle()
        broker.queue("q").assert_acked(1)


def run(count: int) -> tuple[Traces, Traces]:
    """Use brokers; what there was before, and after."""
    for _ in range(WARM_UP):
        use_one()

    before = traces()
    for _ in range(count):
        use_one()

    return before, traces()


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else 1_000
    started_s = time.monotonic()
    before, after = run(count)
    seconds = time.monotonic() - started_s
    sys.stdout.write(f"{count} brokers in {seconds:.1f} s, {seconds / count * 1e3:.1f} ms each\n")
    for name in Traces._fields:
        sys.stdout.write(f"{name}: {getattr(before, name)} -> {getattr(after, name)}\n")

    return int(after.threads > before.threads or after.descriptors > before.descriptors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
