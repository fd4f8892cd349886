"""Core: the records of a checkpoint that tell where a holder's messages stand."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.core.durable import INDEX, returned_body

if TYPE_CHECKING:
    from broker.core.binding import Destination
    from broker.core.message import Message

__all__ = ["LevelState", "append_index", "append_returned"]

INDEX_CHUNKS: Final = 64
"""Chunks of positions in one record of a checkpoint."""


class LevelState:
    """What a holder has in one level.

    Attributes:
        level: of priority; 0 where there are none.
        messages: those in memory, in serving order; what has no record is passed over.
        chunks: positions of those behind them.
        redelivered_count: how many of the first were delivered before.
        body_bytes: of all bodies that are not told of with another level.
        has_deadlines: whether some of the messages may have one.

    """

    __slots__ = ("body_bytes", "chunks", "has_deadlines", "level", "messages", "redelivered_count")

    def __init__(self, level: int, messages: list[Message]) -> None:
        self.level = level
        self.messages = messages
        self.chunks: list[array[int]] = []
        self.redelivered_count = 0
        self.body_bytes = 0
        self.has_deadlines = False


def append_index(records: list[list[bytes]], holder: Destination, state: LevelState) -> None:
    """Add the records that tell what a holder has in one level."""
    first = array("Q", [int(one.record) for one in state.messages if one.record > 0])
    head = bytes((INDEX,)) + int(holder.log_id).to_bytes(4, "little")
    # The level has one octet, what may have deadlines the next.
    head += bytes((state.level, state.has_deadlines, 0, 0))
    about = state.redelivered_count.to_bytes(8, "little") + state.body_bytes.to_bytes(8, "little")
    pieces = [first.tobytes()]
    chunks = state.chunks
    place = 0
    while True:
        pieces += [chunk.tobytes() for chunk in chunks[place : place + INDEX_CHUNKS]]
        records.append([head, about, *pieces])
        place += INDEX_CHUNKS
        if place >= len(chunks):
            return

        pieces = []
        about = bytes(16)


def append_returned(
    records: list[list[bytes]], holder: Destination, message: Message, due_wall_ms: int
) -> None:
    """Add the record that tells how often a message was given back."""
    records.append([returned_body(int(holder.log_id), message, due_wall_ms)])
