"""Core: messages read back from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.durable import StoredMessage
from broker.errors import StoreError
from broker.limits import COLD_READ_BYTES_MAX
from broker.store.records import RECORD_HEADER_BYTES, record_end, record_is_whole

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.deadlines import Deadlines
    from broker.core.message import Address, Message
    from broker.store.api import Log

__all__ = ["LogReader"]

ADDRESSES_MAX: Final = 1_024
"""Addresses of messages that were read back, remembered."""

SMALL_READ_BYTES: Final = 4_096
"""Read behind the start of the last message that is wanted, so that it is mostly whole."""


class LogReader:
    """Reads messages of one log.

    Args:
        log: has them.
        deadlines: the node's time, which deadlines are told in.

    Attributes:
        count: messages that were ever read back.

    """

    __slots__ = ("_addresses", "_deadlines", "_log", "count")

    def __init__(self, log: Log, deadlines: Deadlines) -> None:
        self._log = log
        self._deadlines = deadlines
        self._addresses: dict[bytes, Address] = {}
        self.count: i64 = 0

    def load(self, holder: Destination, positions: list[int]) -> list[Message]:
        """The messages at the first few of these positions, at least one, for their holder.

        Raises:
            StoreError: the log cannot be read, or is damaged.

        """
        first: i64 = positions[0]
        last: i64 = first
        count: i64 = 0
        for position in positions:
            if position < last or position - first >= COLD_READ_BYTES_MAX:
                break

            last = position
            count += 1

        size: i64 = last - first + SMALL_READ_BYTES
        buffer = self._log.read_at(first, size)
        messages: list[Message] = []
        place: i64 = 0
        while place < count:
            position = positions[place]
            start: i64 = position - first
            if start + RECORD_HEADER_BYTES > len(buffer) or record_end(buffer, start) > len(buffer):
                if messages:
                    break

                buffer = self._read_large(first, buffer)

            messages.append(self._message_at(holder, buffer, start, position))
            place += 1

        self.count += count
        return messages

    def _read_large(self, position: i64, buffer: bytes) -> bytes:
        """One record that did not fit into what was read at first."""
        size: i64 = RECORD_HEADER_BYTES
        if len(buffer) >= RECORD_HEADER_BYTES:
            size = record_end(buffer, 0)

        return self._log.read_at(position, size)

    def _message_at(self, holder: Destination, buffer: bytes, start: i64, position: i64) -> Message:
        if not record_is_whole(buffer, start, len(buffer)):
            raise StoreError(f"{self._log.place_of(position)}: the message there is damaged")

        if len(self._addresses) > ADDRESSES_MAX:
            self._addresses.clear()

        body: i64 = start + RECORD_HEADER_BYTES
        stored = StoredMessage(buffer, body, record_end(buffer, start))
        message = stored.to_message(self._addresses)
        message.record = position
        deadline: i64 = stored.deadline_of(holder.log_id)
        if deadline:
            message.deadline_ms = max(deadline - self._deadlines.wall_offset_ms, 1)

        return message
