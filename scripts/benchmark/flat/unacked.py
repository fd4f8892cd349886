"""Does a settlement cost more when much is unacked on the channel?"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import Client, blunt_client
from scripts.benchmark.flat.curve import Reader, Stopwatch, probe_count, repeat, sizes_of
from scripts.benchmark.frames import CHANNEL, FRAME_METHOD, ack, frame
from scripts.benchmark.traffic import (
    PREFIX,
    Traffic,
    fill_queue,
    scratch_queues,
    wait_until_left,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.benchmark.brokers import Running
    from scripts.benchmark.measurement import Measurement, Options

__all__ = ["run_unacked"]

SIZES: Final = (1, 1_000, 100_000)
PREFETCH_MAX: Final = 50_000
ROUNDS_MAX: Final = 1_500
"""One unacked message at a time takes a round trip each: fewer of them are enough."""
_ACK: Final = 80
_NACK: Final = 120
_REQUEUE: Final = 2


def _singles(method_id: int, flags: int, tags: range) -> bytes:
    """A settlement for each of the tags."""
    head = frame(FRAME_METHOD, CHANNEL, struct.pack(">HHQB", 60, method_id, 0, flags))
    before, after = head[:11], head[19:]
    return b"".join(before + tag.to_bytes(8, "big") + after for tag in tags)


def _in_order(tags: range) -> bytes:
    return _singles(_ACK, 0, tags)


def _reversed(tags: range) -> bytes:
    return _singles(_ACK, 0, tags[::-1])


def _multiple(tags: range) -> bytes:
    return ack(tags[-1])


def _requeue(tags: range) -> bytes:
    return _singles(_NACK, _REQUEUE, tags)


_PATTERNS: Final[dict[str, Callable[[range], bytes]]] = {
    "unacked-in-order": _in_order,
    "unacked-reversed": _reversed,
    "unacked-multiple": _multiple,
    "unacked-requeue": _requeue,
}


def run_unacked(running: Running, options: Options) -> list[Measurement]:
    """Let so many messages become unacked, settle all of them one way, and again."""
    queue = f"{PREFIX}-flat-unacked"
    found: list[Measurement] = []
    with scratch_queues(running, [queue], may_be_left=True) as client:
        for size in sizes_of(options, *SIZES):
            rounds = min(ROUNDS_MAX, max(1, probe_count(options) // size))
            for name, settle in _PATTERNS.items():
                sample = partial(_Sample(running, client, queue, size, rounds).run, settle)
                found.append(repeat(name, size, sample))

            closing = _Sample(running, client, queue, size, min(rounds, ROUNDS_MAX // 4))
            found.append(repeat("unacked-close", size, closing.run_closing))

        client.purge_queue(queue)

    return found


class _Sample:
    """One queue, one channel, and ``size`` messages unacked on it at any time."""

    def __init__(
        self, running: Running, client: Client, queue: str, size: int, rounds: int
    ) -> None:
        self._running = running
        self._control = client
        self._queue = queue
        self._size = size
        self._rounds = rounds
        # A prefetch count is of 16 bits: it takes several consumers to hold more.
        self._tags = [f"c{place:02}" for place in range(-(-size // PREFETCH_MAX))]

    def run(self, settle: Callable[[range], bytes]) -> Traffic:
        """Settle round by round; the next round's deliveries come while this one is settled."""
        size, rounds = self._size, self._rounds
        settlements = [
            settle(range(size * place + 1, size * (place + 1) + 1)) for place in range(rounds)
        ]
        self._control.purge_queue(self._queue)
        with blunt_client(self._running.target) as client:
            client.set_prefetch(size // len(self._tags))
            client.consume_all([self._queue] * len(self._tags), self._tags, 0)
            reader = Reader(client, self._tags[0])
            fill_queue(
                self._running,
                self._control,
                self._queue,
                size * (rounds + 1),
                meanwhile=partial(reader.wait_for, size),
            )
            watch = Stopwatch(self._running)
            for place, data in enumerate(settlements, 2):
                reader.wait_for(size * place, data)

            traffic = watch.stop(size * rounds)

        wait_until_left(self._control, self._queue)
        return traffic

    def run_closing(self) -> Traffic:
        """Close the channel over what is unacked, open it and consume again."""
        self._control.purge_queue(self._queue)
        fill_queue(self._running, self._control, self._queue, self._size)
        with blunt_client(self._running.target) as client:
            watch = Stopwatch(self._running)
            for _ in range(self._rounds):
                client.consume(self._queue, self._tags[0], auto_ack=False)
                Reader(client, self._tags[0]).wait_for(self._size)
                client.reopen_channel()

            return watch.stop(self._size * self._rounds)
