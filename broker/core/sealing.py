"""Core: the records of a batch: messages, which learn their positions, and settlements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from broker.core.binding import NO_ROWS
from broker.core.durable import MESSAGE, SETTLED, encode_head, encode_tail, returned_body
from broker.core.message import NO_DEADLINE, PENDING, Message
from broker.store.records import RECORD_HEADER_BYTES, frame_record

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.store.api import Segment

__all__ = ["MessageSeal", "seal_returned", "seal_settled"]

ROWS_MAX: Final = 255
"""Holders in one record: their number is one octet."""


class MessageSeal:
    """Adds the records of messages to a batch.

    Args:
        pieces: of the batch; they are appended there.
        offset: the position that the next record has.
        segment: the one that the batch goes to.
        wall_offset_ms: what makes a time of the world of one of the node's clock.

    Attributes:
        offset: the position behind all records so far.
        count: messages that have a record.

    """

    __slots__ = ("_pieces", "_segment", "_wall_offset_ms", "count", "offset")

    def __init__(
        self, pieces: list[bytes], offset: i64, segment: Segment, wall_offset_ms: i64
    ) -> None:
        self._pieces = pieces
        self._segment = segment
        self._wall_offset_ms = wall_offset_ms
        self.offset: i64 = offset
        self.count: i64 = 0

    def add_all(self, messages: list[Message], holders: list[Destination]) -> None:
        """Add those that are still pending: neighbours that are copies share a record."""
        count: i64 = len(messages)
        place: i64 = 0
        while place < count:
            message = messages[place]
            if message.record != PENDING:
                place += 1
                continue

            stop: i64 = place + 1
            while (
                stop < count
                and stop - place < ROWS_MAX
                and _is_twin(message, messages[stop])
                and holders[stop].log_id > 0
            ):
                stop += 1

            if stop == place + 1 and message.deadline_ms == NO_DEADLINE:
                self._add_plain(message, holders[place])
            else:
                self._add_shared(messages[place:stop], holders[place:stop])

            place = stop

    def _add_plain(self, message: Message, holder: Destination) -> None:
        """One holder and no deadline: nearly always."""
        content = message.logged_content()
        head = _head_of(message, holder)
        crc: i64 = crc32(content, message.address.log_crc)
        message.record = self.offset
        self._append(head, content, crc, 1)

    def _add_shared(self, messages: list[Message], holders: list[Destination]) -> None:
        rows: list[bytes] = []
        place: i64 = 0
        count: i64 = len(messages)
        first: Message | None = None
        while place < count:
            message = messages[place]
            if message.record == PENDING:
                first = message
                message.record = self.offset
                rows.append(_row(holders[place], message, self._wall_offset_ms))

            place += 1

        assert first is not None
        content = first.logged_content()
        live: i64 = len(rows)
        head = encode_head(first, live, MESSAGE) + b"".join(rows) + encode_tail(first)
        self._append(head, content, crc32(content, crc32(head)), live)

    def _append(self, head: bytes, content: bytes, crc: i64, live: i64) -> None:
        size: i64 = len(head) + len(content)
        pieces = self._pieces
        pieces.append(_record_header(size, crc))
        pieces.append(head)
        pieces.append(content)
        self.offset += RECORD_HEADER_BYTES + size
        self.count += 1
        self._segment.live += live
        self._segment.total += live


def seal_returned(pieces: list[bytes], returned: list[tuple[Destination, Message, int]]) -> None:
    """Add what tells how often messages were given back, and when they are ready again."""
    for holder, message, due_wall_ms in returned:
        if message.record > 0 and holder.log_id > 0:
            body = returned_body(int(holder.log_id), message, due_wall_ms)
            pieces.append(frame_record(body))


def seal_settled(pieces: list[bytes], holders: list[Destination]) -> None:
    """Add which messages have left their holders."""
    for holder in holders:
        rows = holder.settled_rows
        holder.settled_rows = NO_ROWS
        if rows and holder.log_id > 0:
            head = bytes((SETTLED,)) + int(holder.log_id).to_bytes(4, "little")
            pieces.append(frame_record(head + rows.tobytes()))


def _is_twin(first: Message, other: Message) -> bool:
    """Whether another message of the batch is the same one, for another queue."""
    return (
        other.content is first.content
        and other.address is first.address
        and other.history is first.history
    )


def _head_of(message: Message, holder: Destination) -> bytes:
    """All in front of the content of a message with one holder and no deadline.

    It is the same for message after message, so it is kept with the address.

    """
    address = message.address
    if message.history is None and (
        address.log_holder is holder
        and address.log_is_persistent == message.is_persistent
        and address.log_priority == message.priority
    ):
        return address.log_head

    head = (
        encode_head(message, 1, MESSAGE)
        + max(int(holder.log_id), 0).to_bytes(4, "little")
        + bytes(8)
        + encode_tail(message)
    )
    # The one for a message with a history is not looked up again, but for its checksum.
    address.log_holder = holder if message.history is None else None
    address.log_is_persistent = message.is_persistent
    address.log_priority = message.priority
    address.log_head = head
    address.log_crc = crc32(head)
    return head


def _row(holder: Destination, message: Message, wall_offset_ms: i64) -> bytes:
    deadline: i64 = message.deadline_ms
    if deadline != NO_DEADLINE:
        deadline += wall_offset_ms

    return max(int(holder.log_id), 0).to_bytes(4, "little") + int(deadline).to_bytes(8, "little")


def _record_header(size: i64, crc: i64) -> bytes:
    return bytes(
        (
            size & 255,
            (size >> 8) & 255,
            (size >> 16) & 255,
            (size >> 24) & 255,
            crc & 255,
            (crc >> 8) & 255,
            (crc >> 16) & 255,
            (crc >> 24) & 255,
        )
    )
