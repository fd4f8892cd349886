"""Fuzzing without a tool: inputs changed at random, the same ones for the same seed.

It knows nothing of coverage; what it has instead is pieces of other inputs and values that are
limits of something.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Found", "mutated", "search"]

INTERESTING: Final = [
    bytes(4),
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xce",
    b"\x00",
    b"\xff",
    b"\x00\x00\x00\x01",
    b"\x00\x10\x00\x01",
]
CHANGES_MAX: Final = 6
PIECE_MAX: Final = 24


class Found(Exception):
    """An input that a target did not come back from as it should.

    Attributes:
        data: the input.

    """

    def __init__(self, data: bytes) -> None:
        super().__init__(f"{len(data)} octets")
        self.data = data


def mutated(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """The input with a few octets changed, added, moved or taken away."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at = chance.randint(0, len(changed))
        kind = chance.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(changed):
            changed[at] = chance.randrange(256)
        elif kind == 2:
            changed[at:at] = chance.randbytes(chance.randint(1, 4))
        elif kind == 3:
            del changed[at : at + chance.randint(1, PIECE_MAX)]
        elif kind == 4:
            value = chance.choice(INTERESTING)
            changed[at : at + len(value)] = value
        else:
            other = chance.choice(others)
            start = chance.randint(0, len(other))
            changed[at:at] = other[start : start + chance.randint(1, PIECE_MAX)]

    return bytes(changed)


def search(
    target: Callable[[bytes], None],
    seeds: Sequence[bytes],
    *,
    seed: int,
    seconds: float,
    count_max: int | None = None,
) -> int:
    """Try changed inputs until the time is over, or there were that many; returns how many.

    Raises:
        Found: the target failed; the error it failed with is the cause.

    """
    chance = random.Random(seed)
    end_s = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end_s and count != count_max:
        data = mutated(chance.choice(seeds), seeds, chance)
        count += 1
        try:
            target(data)
        except Exception as error:
            raise Found(data) from error

    return count
