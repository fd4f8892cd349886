"""Toolkit, tasks: which of several queues a task goes to.

Invariant: the same key goes to the same partition in every process, on every machine and in every
version of Python: nothing here uses ``hash()``, which differs from process to process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from broker.client.checks import check_callable, check_count, shown
from broker.client.errors import InvalidValue

__all__ = ["PARTITIONS_MAX", "Partitions", "partition_of", "stable_hash"]

PARTITIONS_MAX: Final = 1024
"""A queue each, and in each worker a consumer each."""

JUMP: Final = 2862933555777941757
MASK: Final = (1 << 64) - 1

Key = Callable[..., object]


def stable_hash(key: str | bytes | int) -> int:
    """Return 64 bits that depend on the key alone. 7 and "7" are different keys."""
    if isinstance(key, bytes):
        data = b"b" + key
    elif isinstance(key, str):
        data = b"s" + key.encode("utf-8", "surrogatepass")
    else:
        data = b"i%d" % key

    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def partition_of(key: str | bytes | int, count: int) -> int:
    """Return the partition of a key, from 0 to ``count - 1``.

    With another count few keys move: of n partitions one more takes every (n + 1)-th key and the
    others stay (the jump consistent hash of Lamping and Veach).
    """
    check_count("count", count, high=PARTITIONS_MAX)
    state = stable_hash(key)
    chosen, candidate = 0, 0
    while candidate < count:
        chosen = candidate
        state = (state * JUMP + 1) & MASK
        candidate = int((chosen + 1) * (float(1 << 31) / float((state >> 33) + 1)))

    return chosen


@dataclass(frozen=True, slots=True)
class Partitions:
    """Splits the tasks of a queue among ``count`` queues, in each of which they run one by one.

    Args:
        count: how many queues. Each has one active consumer among all workers.
        by: a function of the task's arguments that returns the key: what has the same key runs in
            the order in which it was sent. Without it, tasks go round.

    """

    count: int
    by: Key | None = None
    _turns: itertools.count[int] = field(
        default_factory=itertools.count, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_count("count", self.count, high=PARTITIONS_MAX)
        if self.by is not None:
            check_callable("by", self.by)

    def queue_for(self, queue: str, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """Return the queue that a call with these arguments goes to."""
        if self.by is None:
            return self.name(queue, next(self._turns) % self.count)

        key = self.by(*args, **kwargs)
        if not isinstance(key, str | bytes | int):
            raise InvalidValue(f"the key of a partition is a str, bytes or int, not {shown(key)}")

        return self.name(queue, partition_of(key, self.count))

    def queues(self, queue: str) -> list[str]:
        """Return the names of all its queues."""
        return [self.name(queue, number) for number in range(self.count)]

    @staticmethod
    def name(queue: str, number: int) -> str:
        """Return the name of one of its queues."""
        return f"{queue}.{number}"
