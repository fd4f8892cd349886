"""The consuming process: counts deliveries by arithmetic on the bytes that came.

All deliveries of a connection are equally long, so their number is bytes divided by size. One
delivery tag in every read is compared with that number: a lost, doubled or foreign frame shows.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError, Client, Target
from scripts.benchmark.frames import ack, measure_delivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.benchmark.workers import Pipe

__all__ = ["ConsumerPlan", "ConsumerResult", "DeliveryCounter", "run_consumer"]

READ_BYTES: Final = 262_144
WAKE_BYTES: Final = 32_768
"""A sleeping consumer is woken for so many bytes, not for each packet."""
WAKE_S: Final = 0.01
"""What came is taken after so long at the latest."""
_TAG_HEAD_BYTES: Final = 7 + 4 + 1


class ConsumerPlan(NamedTuple):
    """A consumer per queue, all in one process: each with a connection of its own, or all on one.

    On one connection the names of the queues must be equally long, and a queue may come twice.
    """

    target: Target
    queues: tuple[str, ...]
    prefetch: int
    ack_every: int
    """Deliveries per acknowledgement; 0 consumes with auto-ack."""
    limit_s: float
    is_shared: bool = False
    """Whether one channel of one connection has all of the consumers."""


class ConsumerResult(NamedTuple):
    """What came; times are of the machine's monotonic clock."""

    received: tuple[int, ...]
    started_s: float
    last_s: float
    cpu_s: float


class DeliveryCounter:
    """Counts the deliveries of one consumer in its stream of bytes."""

    __slots__ = ("_head", "_received_bytes", "_tag_offset", "size")

    def __init__(self, consumer_tag: str) -> None:
        self._head = bytearray()
        self._received_bytes = 0
        self._tag_offset = _TAG_HEAD_BYTES + len(consumer_tag)
        self.size = 0

    @property
    def deliveries(self) -> int:
        """How many whole deliveries came."""
        return self._received_bytes // self.size if self.size else 0

    @property
    def is_between_deliveries(self) -> bool:
        """Whether the last byte that came ended a delivery."""
        return not self._head and (not self.size or self._received_bytes % self.size == 0)

    def feed(self, data: memoryview) -> None:
        """Count what was read."""
        if not self.size:
            self._head += data
            self.size = measure_delivery(self._head)
            if not self.size:
                return

            data = memoryview(bytes(self._head))
            self._head.clear()

        start = -self._received_bytes % self.size
        if start + self._tag_offset + 8 <= len(data):
            (tag,) = struct.unpack_from(">Q", data, start + self._tag_offset)
            expected = (self._received_bytes + start) // self.size + 1
            if data[start] != 1 or tag != expected:
                raise BrokerError(f"delivery {expected} is not where it should be (tag {tag})")

        self._received_bytes += len(data)


class _Consumer:
    __slots__ = ("_ack_every", "acked", "client", "counter", "tag", "wake_bytes")

    def __init__(self, plan: ConsumerPlan, place: int) -> None:
        self.client = Client(plan.target)
        self.tag = f"c{place:05}"
        self.counter = DeliveryCounter(self.tag)
        self._ack_every = plan.ack_every
        self.acked = 0
        self.wake_bytes = 0
        if plan.prefetch:
            self.client.set_prefetch(plan.prefetch)

    def start(self, queue: str) -> None:
        self.client.consume(queue, self.tag, auto_ack=not self._ack_every)
        self._take(memoryview(self.client.take_buffered()))

    def start_many(self, queues: Sequence[str]) -> None:
        tags = [f"c{place:05}" for place in range(len(queues))]
        self.client.consume_all(queues, tags, 0 if self._ack_every else 2)
        self._take(memoryview(self.client.take_buffered()))

    def read(self, view: memoryview) -> bool:
        """Take what is there; say whether there was anything."""
        try:
            count = self.client.sock.recv_into(view, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

        if not count:
            raise BrokerError("the broker hung up on a consumer")

        self._take(view[:count])
        return True

    def _take(self, data: memoryview) -> None:
        counter = self.counter
        counter.feed(data)
        if not self.wake_bytes and counter.size:
            self._set_wake_bytes()

        if self._ack_every and counter.deliveries - self.acked >= self._ack_every:
            self.settle()

    def settle(self) -> None:
        if self._ack_every and self.counter.deliveries > self.acked:
            self.acked = self.counter.deliveries
            self.client.sock.sendall(ack(self.acked))

    def _set_wake_bytes(self) -> None:
        # Sleeping for more than the next ack needs would stall the broker at its prefetch limit.
        limit = self._ack_every * self.counter.size or WAKE_BYTES
        self.wake_bytes = min(WAKE_BYTES, limit)
        self.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self.wake_bytes)

    def finish(self) -> None:
        self.settle()
        self.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        with self.client as client:
            # With several on the channel, the other ones end with it.
            client.cancel(self.tag)
            if client.skipped_frames or client.take_buffered():
                raise BrokerError("more came after the last delivery")


def run_consumer(plan: ConsumerPlan, pipe: Pipe) -> None:
    """Connect, wait for the start signal, consume until the announced counts are in, report."""
    count = 1 if plan.is_shared else len(plan.queues)
    consumers = [_Consumer(plan, place) for place in range(count)]
    pipe.send("ready")
    pipe.recv()
    started_s = time.monotonic()
    cpu_s = time.process_time()
    if plan.is_shared:
        consumers[0].start_many(plan.queues)
    else:
        for consumer, queue in zip(consumers, plan.queues, strict=True):
            consumer.start(queue)

    pipe.send("consuming")
    last_s = _consume(consumers, pipe, time.monotonic() + plan.limit_s)
    cpu_s = time.process_time() - cpu_s
    received = tuple(consumer.counter.deliveries for consumer in consumers)
    for consumer in consumers:
        consumer.finish()

    pipe.send(ConsumerResult(received, started_s, last_s, cpu_s))


def _consume(consumers: list[_Consumer], pipe: Pipe, deadline: float) -> float:
    poll = select.epoll()
    by_file = {consumer.client.sock.fileno(): consumer for consumer in consumers}
    for file in by_file:
        poll.register(file, select.EPOLLIN)

    poll.register(pipe.fileno(), select.EPOLLIN)
    view = memoryview(bytearray(READ_BYTES))
    expected: list[int] | None = None
    last_s = 0.0
    while True:
        has_data = False
        ready = poll.poll(WAKE_S)
        for file, _ in ready:
            if file in by_file:
                has_data |= by_file[file].read(view)
            else:
                expected = pipe.recv()

        if not ready:
            for consumer in consumers:
                has_data |= consumer.read(view)

        now_s = time.monotonic()
        if has_data:
            last_s = now_s

        if expected is not None and _is_complete(consumers, expected):
            return last_s

        if now_s > deadline:
            counts = [consumer.counter.deliveries for consumer in consumers]
            raise BrokerError(f"messages lost or late: {counts} came of {expected}")


def _is_complete(consumers: list[_Consumer], expected: list[int]) -> bool:
    for consumer, count in zip(consumers, expected, strict=True):
        counter = consumer.counter
        if counter.deliveries > count:
            raise BrokerError(f"{counter.deliveries} deliveries of {count} messages")

        if counter.deliveries < count or not counter.is_between_deliveries:
            return False

    return True
