"""How many messages of a queue outlive the broker. Pure: it is counted when somebody asks.

Nothing is counted where messages are published and settled. Invariant: however deep a queue is,
few messages are looked at; where there are more, those stand for the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message import GONE
from broker.core.queue.cold import TRANSIENT

if TYPE_CHECKING:
    from array import array

    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.metrics.unacked_bytes import UnackedSizes

__all__ = ["COUNTED_MAX", "Lasting", "lasting_of"]

COUNTED_MAX: Final = 1_000
"""Messages in memory that are looked at for one queue: a tenth of a millisecond."""

CHUNKS_MAX: Final = 4
"""Chunks of positions on disk that are looked at for one queue: 4,096 in each, in some 20 us."""

POSITION_BYTES: Final = 8
MARK_AT: Final = POSITION_BYTES - 1 if sys.byteorder == "little" else 0
"""In which octet of a position the mark stands."""

MARKED: Final = bytes(octet for octet in range(256) if octet & (TRANSIENT >> 56))


class Lasting(NamedTuple):
    """Messages that outlive the broker, and their bodies together."""

    messages: int
    size: int


def lasting_of(queue: Queue, unacked: UnackedSizes) -> Lasting:
    """Count them: exactly, or in proportion where more are in memory than are looked at.

    Args:
        queue: whose.
        unacked: what its consumers hold.

    """
    if not queue.durable or queue.journal is None:
        return Lasting(0, 0)

    ready = int(queue.ready_count)
    count = ready + int(queue.unacked_count)
    size = int(queue.ready_bytes) + unacked.size
    if queue.keeps_all or not count:
        return Lasting(count, size)

    chunks = queue.cold_chunks()
    in_memory = max(ready - sum(map(len, chunks)), 0)
    fleeting, fleeting_size = _fleeting_in_memory(queue, in_memory)
    levels = [level for _, level in queue.ready.levels()]
    cold_size = sum(int(one.cold.transient_bytes) for one in levels if one.cold is not None)
    fleeting += unacked.transient_count + (_marked(chunks) if cold_size else 0)
    fleeting_size += unacked.transient_size + cold_size
    return Lasting(max(count - fleeting, 0), max(size - fleeting_size, 0))


def _fleeting_in_memory(queue: Queue, in_memory: int) -> tuple[int, int]:
    """How many of the messages in memory do not outlive the broker, and their bodies."""
    messages: list[Message] = []
    if in_memory <= COUNTED_MAX:
        messages = queue.hot_messages()
    else:
        for _, level in queue.ready.levels():
            messages += level.some(COUNTED_MAX - len(messages))

    present = [one for one in messages if one.deadline_ms != GONE]
    sizes = [int(one.body_size) for one in present if not one.is_persistent]
    if in_memory <= COUNTED_MAX or not present:
        return len(sizes), sum(sizes)

    return len(sizes) * in_memory // len(present), sum(sizes) * in_memory // len(present)


def _marked(chunks: list[array[int]]) -> int:
    """How many of the positions are those of messages that do not outlive the broker."""
    step = -(-len(chunks) // CHUNKS_MAX)
    looked = chunks[::step] if step > 1 else chunks
    total = sum(map(len, chunks))
    return sum(map(_marked_in, looked)) * total // max(sum(map(len, looked)), 1)


def _marked_in(chunk: array[int]) -> int:
    octets = chunk.tobytes()[MARK_AT::POSITION_BYTES]
    return len(octets) - len(octets.translate(None, MARKED))
