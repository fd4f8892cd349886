"""The publishing process: sends one buffer of joined publishes again and again.

The buffer is built before the clock starts; a confirm costs a few slices per read, not per message.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError, Client, Target, set_wait_limit
from scripts.benchmark.frames import ACK_FRAME_BYTES, publish

if TYPE_CHECKING:
    from scripts.benchmark.workers import Pipe

__all__ = [
    "ConfirmCounter",
    "ConfirmDelays",
    "PublisherPlan",
    "PublisherResult",
    "build_batch",
    "run_publisher",
]

BATCH_BYTES: Final = 131_072
SEND_BUFFER_BYTES: Final = 262_144
"""Unlimited, the kernel would hold seconds' worth of messages after the last one was sent."""
CLOSE_LIMIT_S: Final = 90.0
"""A broker that throttles answers the close after all that it has not read yet."""
_ACK: Final = struct.Struct(">7xIQBx")
_ACK_INDEX: Final = 0x003C0050
_READ_BYTES: Final = 65_536


class PublisherPlan(NamedTuple):
    """What one publisher sends. All routing keys must be of one length."""

    target: Target
    exchange: str
    routing_keys: tuple[str, ...]
    body_bytes: int
    is_persistent: bool
    window: int
    """Unconfirmed messages allowed; 0 publishes without confirms."""
    seconds: float
    total: int = 0
    """Stop after so many messages; they must be out within ``seconds``. 0 is no such limit."""


class PublisherResult(NamedTuple):
    """What one publisher did; times are of the machine's monotonic clock."""

    sent: int
    started_s: float
    finished_s: float
    cpu_s: float
    p50_s: float = 0.0
    p99_s: float = 0.0
    """From the send of a message to its confirm; 0 without confirms."""


class ConfirmDelays:
    """How long confirms took, message by message, from what each send and each read counted.

    The k messages that a read confirms are taken for the k oldest: exact where a broker confirms in
    order, as all do nearly always, and right on average where it does not.
    """

    __slots__ = ("_confirmed", "_delays", "_sends")

    def __init__(self) -> None:
        self._confirmed = 0
        self._sends: deque[tuple[int, float]] = deque()
        self._delays: list[tuple[float, int]] = []

    def sent(self, total: int, now_s: float) -> None:
        """So many messages have gone out by now."""
        self._sends.append((total, now_s))

    def confirmed(self, total: int, now_s: float) -> None:
        """So many messages are confirmed by now."""
        while self._confirmed < total:
            last, sent_s = self._sends[0]
            if last <= total:
                self._sends.popleft()

            reached = min(last, total)
            self._delays.append((now_s - sent_s, reached - self._confirmed))
            self._confirmed = reached

    def percentile(self, part: float) -> float:
        """The delay that ``part`` of the messages did not exceed."""
        left = part * self._confirmed
        for delay_s, count in sorted(self._delays):
            left -= count
            if left <= 0:
                return delay_s

        return 0.0


class ConfirmCounter:
    """Counts confirmed messages exactly, whichever way the broker groups its acks."""

    __slots__ = ("_ahead", "_floor", "_tail")

    def __init__(self) -> None:
        self._floor = 0
        self._ahead: set[int] = set()
        self._tail = b""

    @property
    def confirmed(self) -> int:
        """How many messages are confirmed so far."""
        return self._floor + len(self._ahead)

    def feed(self, data: bytes) -> None:
        """Count the acks in what was read."""
        if self._tail:
            data = self._tail + data

        whole = len(data) // ACK_FRAME_BYTES
        end = whole * ACK_FRAME_BYTES
        self._tail = data[end:]
        # The method id's last octet tells an ack from a nack, a return or a close.
        if data[10:end:ACK_FRAME_BYTES].count(0x50) != whole:
            raise BrokerError("something other than an ack came to a publisher")

        for index, tag, is_multiple in _ACK.iter_unpack(data[:end]):
            if index != _ACK_INDEX:
                raise BrokerError("something other than an ack came to a publisher")

            self._settle(tag, is_multiple)

    def _settle(self, tag: int, is_multiple: int) -> None:
        if is_multiple:
            if tag > self._floor:
                self._floor = tag

            if self._ahead:
                self._ahead = {single for single in self._ahead if single > tag}
        elif tag == self._floor + 1:
            self._floor = tag
        elif tag > self._floor:
            self._ahead.add(tag)

        while self._ahead and self._floor + 1 in self._ahead:
            self._floor += 1
            self._ahead.remove(self._floor)


def build_batch(plan: PublisherPlan, frame_bytes_max: int) -> tuple[bytes, int]:
    """Join publishes to a buffer of about ``BATCH_BYTES``; also return the size of one."""
    body = os.urandom(plan.body_bytes)
    messages = [
        publish(
            plan.exchange,
            key,
            body,
            is_persistent=plan.is_persistent,
            frame_bytes_max=frame_bytes_max,
        )
        for key in plan.routing_keys
    ]
    size = len(messages[0])
    if any(len(message) != size for message in messages):
        raise ValueError("routing keys of one publisher must have one length")

    count = max(len(messages), BATCH_BYTES // size)
    return b"".join(messages[place % len(messages)] for place in range(count)), size


def run_publisher(plan: PublisherPlan, pipe: Pipe) -> None:
    """Connect, wait for the start signal, publish, report."""
    with Client(plan.target) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        batch, size = build_batch(plan, client.frame_bytes_max)
        if plan.window:
            client.select_confirms()

        pipe.send("ready")
        pipe.recv()
        started_s = time.monotonic()
        cpu_s = time.process_time()
        delays = ConfirmDelays()
        if plan.window:
            sent = _publish_confirmed(client, plan, (batch, size), delays)
        else:
            sent = _publish_freely(client, plan, batch, size)

        finished_s = time.monotonic()
        cpu_s = time.process_time() - cpu_s
        set_wait_limit(client.sock, CLOSE_LIMIT_S)

    # Only now, with the channel closed politely, is it known that nothing was refused.
    middle_s, late_s = delays.percentile(0.5), delays.percentile(0.99)
    pipe.send(PublisherResult(sent, started_s, finished_s, cpu_s, middle_s, late_s))


def _publish_freely(client: Client, plan: PublisherPlan, batch: bytes, size: int) -> int:
    view = memoryview(batch)
    each = len(batch) // size
    send = client.sock.sendall
    clock = time.monotonic
    deadline = clock() + plan.seconds
    sent = 0
    while clock() < deadline:
        if plan.total and plan.total - sent <= each:
            send(view[: (plan.total - sent) * size])
            return plan.total

        send(batch)
        sent += each

    if plan.total:
        raise BrokerError(f"only {sent} of {plan.total} messages went out in {plan.seconds:.0f} s")

    return sent


def _publish_confirmed(
    client: Client, plan: PublisherPlan, batch_and_size: tuple[bytes, int], delays: ConfirmDelays
) -> int:
    batch, size = batch_and_size
    view = memoryview(batch)
    each = len(batch) // size
    # Sending for every single ack would be one packet a message: wait for a tenth of the window.
    least = max(1, plan.window // 10)
    counter = ConfirmCounter()
    send, receive = client.sock.sendall, client.sock.recv
    clock = time.monotonic
    deadline = clock() + plan.seconds
    sent = 0
    while True:
        credit = plan.window - (sent - counter.confirmed)
        now_s = clock()
        is_over = sent == plan.total if plan.total else now_s >= deadline
        if is_over and counter.confirmed == sent:
            return sent

        if plan.total and now_s >= deadline:
            raise BrokerError(f"only {sent} of {plan.total} messages went out in time")

        if credit >= least and not is_over:
            step = min(credit, each, plan.total - sent if plan.total else credit)
            sent += step
            delays.sent(sent, now_s)
            send(view[: step * size])
            continue

        data = receive(_READ_BYTES)
        if not data:
            raise BrokerError("the broker hung up on a publisher")

        counter.feed(data)
        if counter.confirmed > sent:
            raise BrokerError(f"{counter.confirmed} confirms for {sent} messages")

        delays.confirmed(counter.confirmed, clock())
