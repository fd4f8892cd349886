"""Takes entries that cannot be read out of what a checkpoint tells of a stream. Layer: rim.

The offsets of a stream have no holes. Those behind a loss stay what they are, and those before it
grow by what is lost, so that whoever reads on from an offset misses nothing that is there.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.durable import STREAM_TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["without_lost_entries"]

BASE: Final = slice(5, 13)
COUNT: Final = slice(13, 17)
FIRST_MS: Final = slice(17, 25)
SIZES: Final = (slice(25, 33), slice(33, 41))
"""Bytes with all that belongs to an entry, and bytes of bodies."""

TIMES_START: Final = 41
TIME_BYTES: Final = 4
PLACE_BYTES: Final = 8
MARK_BYTES: Final = 2


class _Part(NamedTuple):
    """A segment of a stream."""

    body: bytes
    kept: list[int]
    """Which of its entries can be read."""

    entries: int


def without_lost_entries(
    holder: int, bodies: list[bytes], can_read: Callable[[int], bool]
) -> tuple[list[bytes], int]:
    """The records of one stream's segments without what is lost, and how many entries that is.

    Args:
        holder: the stream's identity.
        bodies: of all its segments, in order.
        can_read: whether an entry at a position can be.

    """
    parts = [_part_of(body, can_read) for body in bodies]
    behind = 0
    found: list[bytes] = []
    for part in reversed(parts):
        behind += part.entries - len(part.kept)
        if part.kept:
            found.append(_rebuilt(part, behind) if behind else part.body)

    found.reverse()
    if parts and not found:
        # Nothing is left but the offset that comes next.
        end = int.from_bytes(parts[-1].body[BASE], "little") + parts[-1].entries
        head = bytes((STREAM_TRUNCATED,)) + holder.to_bytes(4, "little")
        found.append(head + end.to_bytes(8, "little"))

    return found, behind


def _part_of(body: bytes, can_read: Callable[[int], bool]) -> _Part:
    count = int.from_bytes(body[COUNT], "little")
    start = TIMES_START + TIME_BYTES * count
    places = array("Q")
    places.frombytes(body[start : start + PLACE_BYTES * count])
    return _Part(body, [one for one in range(count) if can_read(places[one])], count)


def _rebuilt(part: _Part, shift: int) -> bytes:
    """The segment with the entries that are left, its offsets moved on."""
    body, kept, count = part
    places_start = TIMES_START + TIME_BYTES * count
    marks_start = places_start + PLACE_BYTES * count
    times = array("I")
    times.frombytes(body[TIMES_START:places_start])
    first_ms = int.from_bytes(body[FIRST_MS], "little") + times[kept[0]]
    sizes = [int.from_bytes(body[one], "little") * len(kept) // count for one in SIZES]
    has_marks = len(body) > marks_start
    return b"".join(
        [
            body[: BASE.start],
            (int.from_bytes(body[BASE], "little") + shift).to_bytes(8, "little"),
            len(kept).to_bytes(4, "little"),
            first_ms.to_bytes(8, "little"),
            # What the lost ones had of it nobody knows: the others' share is as good.
            *[one.to_bytes(8, "little") for one in sizes],
            array("I", [times[one] - times[kept[0]] for one in kept]).tobytes(),
            _rows(body, places_start, PLACE_BYTES, kept),
            _rows(body, marks_start, MARK_BYTES, kept) if has_marks else b"",
        ]
    )


def _rows(body: bytes, start: int, size: int, kept: list[int]) -> bytes:
    return b"".join(body[start + size * one : start + size * (one + 1)] for one in kept)
