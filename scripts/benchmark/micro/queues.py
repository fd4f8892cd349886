"""Micro-benchmarks of queues: from the bytes of a publish to those of a delivery, and the ack."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from broker.core.message import Address, Message
from broker.core.unacked import Unacked
from scripts.benchmark.frames import ack, long_string, method, publish, short_string
from scripts.benchmark.micro.knob import Act, Micro
from scripts.benchmark.micro.stage import Caller, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MICROS"]

BODY: Final = bytes(100)
FRAME_BYTES_MAX: Final = 131_072
_PURGE: Final = method(1, 50, 30, b"\0\0" + short_string("q") + b"\0")


def _publish(key: str) -> bytes:
    return publish("", key, BODY, is_persistent=False, frame_bytes_max=FRAME_BYTES_MAX)


def _consume(flags: int, prefetch: int) -> bytes:
    qos = method(1, 60, 10, struct.pack(">IHB", 0, prefetch, 0))
    names = short_string("q") + short_string("c")
    return qos + method(1, 60, 20, b"\0\0" + names + bytes([flags]) + long_string(b""))


def _reads(data: bytes, each: int, operations: int) -> list[bytes]:
    """So many publishes in a read, and as many reads as that takes."""
    return [data * each] * max(1, operations // each)


def _enqueue(each: int, operations: int) -> Act:
    """To a queue that nobody consumes."""
    stage = Stage()
    stage.declare("q")
    caller = Caller(stage)
    reads = _reads(_publish("q"), each, operations)

    def act() -> int:
        for read in reads:
            caller.send(read)

        return len(reads) * each

    return act


def _pass_on(each: int, operations: int) -> Act:
    """To a consumer that waits, with auto-ack."""
    stage = Stage()
    stage.declare("q")
    publisher, consumer = Caller(stage), Caller(stage)
    consumer.send(_consume(2, 0))
    reads = _reads(_publish("q"), each, operations)

    def act() -> int:
        for read in reads:
            publisher.send(read)

        return len(reads) * each

    return act


def _take_and_ack(prefetch: int, operations: int) -> Act:
    """Deliveries out of a full queue, a prefetch of them settled by each ack."""
    stage = Stage()
    stage.declare("q")
    caller = Caller(stage)
    caller.send(_publish("q") * (operations + prefetch))
    caller.send(_consume(0, prefetch))
    acks = [ack(tag) for tag in range(prefetch, operations + 1, prefetch)]

    def act() -> int:
        for one in acks:
            caller.send(one)

        return len(acks) * prefetch

    return act


def _ack_singly(each: int, operations: int) -> Act:
    """Acks of single deliveries, so many in a read; nothing is delivered in their place."""
    stage = Stage()
    stage.declare("q")
    caller = Caller(stage)
    caller.send(_publish("q") * operations)
    caller.send(_consume(0, 0))
    acks = [method(1, 60, 80, struct.pack(">QB", tag, 0)) for tag in range(1, operations + 1)]
    reads = [b"".join(acks[start : start + each]) for start in range(0, operations, each)]

    def act() -> int:
        for read in reads:
            caller.send(read)

        return operations

    return act


def _unacked(size: int, operations: int, take: Callable[[Unacked, int, int], object]) -> Act:
    """Add so many and take all of them, again and again."""
    address = Address("", "q")
    messages = [Message(address, b"", 0, False, -1) for _ in range(size)]
    rounds = max(1, operations // size)

    def act() -> int:
        unacked = Unacked()
        tag = 1
        for _ in range(rounds):
            first = tag
            for message in messages:
                message.delivery_tag = tag
                unacked.add(message)
                tag += 1

            take(unacked, first, tag)

        return rounds * size

    return act


def _in_order(size: int, operations: int) -> Act:
    def take(unacked: Unacked, first: int, stop: int) -> None:
        for tag in range(first, stop):
            unacked.take(tag)

    return _unacked(size, operations, take)


def _reversed(size: int, operations: int) -> Act:
    def take(unacked: Unacked, first: int, stop: int) -> None:
        for tag in range(stop - 1, first - 1, -1):
            unacked.take(tag)

    return _unacked(size, operations, take)


def _until(size: int, operations: int) -> Act:
    return _unacked(size, operations, lambda unacked, _, stop: unacked.take_until(stop - 1))


_SIZES: Final = (1, 1_000, 100_000)
_IN_A_READ: Final = (1, 10, 100)

MICROS: Final = (
    Micro("enqueue", "in a read", _IN_A_READ, 20_000, _enqueue),
    Micro("pass-on", "in a read", _IN_A_READ, 20_000, _pass_on),
    Micro("take-and-ack", "prefetch", _IN_A_READ, 20_000, _take_and_ack),
    Micro("ack-singly", "in a read", _IN_A_READ, 20_000, _ack_singly),
    Micro("unacked-in-order", "unacked", _SIZES, 100_000, _in_order),
    Micro("unacked-reversed", "unacked", _SIZES, 100_000, _reversed),
    Micro("unacked-until", "unacked", _SIZES, 100_000, _until),
)
