"""What the flatness scenarios share: sizes to try, and points made of several samples."""

from __future__ import annotations

import select
import statistics
import time
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import BrokerError, Client, blunt_client
from scripts.benchmark.consumer import DeliveryCounter
from scripts.benchmark.frames import ack
from scripts.benchmark.machine import cpu_seconds
from scripts.benchmark.measurement import Measurement
from scripts.benchmark.traffic import Traffic, wait_until_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scripts.benchmark.brokers import Running
    from scripts.benchmark.measurement import Options

__all__ = [
    "PROBE_MESSAGES_MIN",
    "REPEATS",
    "TAKE_LEFT",
    "Reader",
    "Stopwatch",
    "point",
    "probe_count",
    "repeat",
    "sizes_of",
    "take_messages",
]

PROBE_MESSAGES: Final = 200_000
PROBE_MESSAGES_MIN: Final = 2_000
REPEATS: Final = 3
TAKE_PREFETCH: Final = 1_000
TAKE_LEFT: Final = 2 * TAKE_PREFETCH
"""So many more than are taken must be in the queue."""
WAIT_S: Final = 60.0
_READ_BYTES: Final = 262_144


def sizes_of(options: Options, *sizes: int) -> list[int]:
    """The sizes to try, each once, smallest first; 1 stays 1 on any scale."""
    return sorted({options.scaled(size) for size in sizes})


def probe_count(options: Options) -> int:
    """How many messages one sample takes."""
    return max(PROBE_MESSAGES_MIN, options.scaled(PROBE_MESSAGES))


def repeat(name: str, size: int, sample: Callable[[], Traffic]) -> Measurement:
    """Take a few samples and make the middle one a point of a curve; the first warms up."""
    sample()
    return point(name, size, [sample() for _ in range(REPEATS)])


def point(name: str, size: int, samples: Iterable[Traffic]) -> Measurement:
    """Microseconds and CPU microseconds a message, at this size."""
    taken = list(samples)
    return Measurement(
        name,
        statistics.median(1e6 / sample.rate for sample in taken),
        "us",
        statistics.median(sample.cpu_s_per_million for sample in taken),
        size=size,
    )


class Stopwatch:
    """Wall and CPU time since it was made, of work that this process asks for itself."""

    def __init__(self, running: Running) -> None:
        self._pids = running.pids
        self._begin_s = time.monotonic()
        self._begin_cpu_s = cpu_seconds(self._pids)
        self._own_cpu_s = time.process_time()

    def stop(self, messages: int) -> Traffic:
        """What so many messages took."""
        elapsed_s = time.monotonic() - self._begin_s
        cpu_s = cpu_seconds(self._pids) - self._begin_cpu_s
        return Traffic(messages, elapsed_s, cpu_s, time.process_time() - self._own_cpu_s, 0.0, 0.0)


class Reader:
    """Counts the deliveries of one channel and sends at the same time, so that nobody waits."""

    def __init__(self, client: Client, consumer_tag: str) -> None:
        self._client = client
        self._counter = DeliveryCounter(consumer_tag)
        self._view = memoryview(bytearray(_READ_BYTES))
        self._counter.feed(memoryview(client.take_buffered()))

    @property
    def deliveries(self) -> int:
        """How many whole ones came."""
        return self._counter.deliveries

    def wait_for(self, deliveries: int, data: bytes = b"") -> int:
        """Send ``data`` and wait for so many deliveries in all; return how many came."""
        sock = self._client.sock
        left = memoryview(data)
        poll = select.poll()
        poll.register(sock, select.POLLIN | select.POLLOUT if data else select.POLLIN)
        sock.setblocking(False)
        try:
            while left or self._counter.deliveries < deliveries:
                ready = poll.poll(WAIT_S * 1e3)
                if not ready:
                    raise BrokerError(f"{self.deliveries} deliveries of {deliveries} came")

                events = ready[0][1]
                if events & select.POLLIN:
                    self._read()

                if left and events & select.POLLOUT:
                    left = left[sock.send(left) :]
                    if not left:
                        poll.modify(sock, select.POLLIN)
        finally:
            sock.setblocking(True)

        return self._counter.deliveries

    def _read(self) -> None:
        count = self._client.sock.recv_into(self._view)
        if not count:
            raise BrokerError("the broker hung up on a consumer")

        self._counter.feed(self._view[:count])


def take_messages(running: Running, control: Client, queue: str, count: int) -> Traffic:
    """Consume and acknowledge so many messages from the head of a queue that holds more."""
    step = TAKE_PREFETCH // 2
    with blunt_client(running.target) as client:
        client.set_prefetch(TAKE_PREFETCH)
        watch = Stopwatch(running)
        client.consume(queue, "c", auto_ack=False)
        reader = Reader(client, "c")
        settled = 0
        while settled < count:
            settled += step
            reader.wait_for(settled)
            client.sock.sendall(ack(settled))

        reader.wait_for(settled + step)
        traffic = watch.stop(settled)

    # What was unacked goes back to where it was.
    wait_until_left(control, queue)
    return traffic
