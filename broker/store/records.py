"""How the log lies on disk: segments hold batches, batches hold records (docs/durability.md).

::

    segment   header (32 bytes): magic, number, salt, crc; then batches
    batch     header (32 bytes): salt, number, size, flags, crc; records; trailer (32 bytes)
    record    size (4), crc (4), then that many bytes: kind (1) and payload

All integers are little-endian. A batch is what the broker did in one turn of its loop: it counts as
a whole or not at all, which makes transactions and dead-lettering atomic. Its trailer is zero until
the batch is known to be synced. Numbers of batches are consecutive over all segments of a log, and
the salt of a segment is drawn by chance, so that nothing a client publishes looks like a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final
from zlib import crc32

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = [
    "BATCH_HEADER_BYTES",
    "CHECKPOINT_MAGIC",
    "FLAG_END",
    "FLAG_SYNCED",
    "FORMAT_VERSION",
    "RECORD_HEADER_BYTES",
    "SALT_BYTES",
    "SEGMENT_HEADER_BYTES",
    "SEGMENT_MAGIC",
    "TRAILER_BYTES",
    "RecordSink",
    "Scan",
    "batch_header",
    "batch_trailer",
    "count_records",
    "frame_record",
    "header_is_whole",
    "record_end",
    "record_is_whole",
    "scan_batches",
    "segment_header",
    "segment_salt",
    "u32_at",
    "u64_at",
    "whole_batch_end",
]

FORMAT_VERSION: Final = 1
SEGMENT_MAGIC: Final = b"LEVLOG\x00\x01"
CHECKPOINT_MAGIC: Final = b"LEVCHK\x00\x01"
"""The last octet is the version of the format."""

SEGMENT_HEADER_BYTES: Final = 32
BATCH_HEADER_BYTES: Final = 32
TRAILER_BYTES: Final = 32
RECORD_HEADER_BYTES: Final = 8
SALT_BYTES: Final = 8

FLAG_SYNCED: Final = 1
"""Everything before this batch was synced before this was written."""

FLAG_END: Final = 2
"""The last batch of a checkpoint: what has none was not finished."""

TRAILER_SIZE: Final = 0xFFFFFFFF
"""In the place of a batch's size: this is no batch, but the trailer of one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RecordSink(ABC):
    """Takes the records of a log, in order."""

    __slots__ = ()

    @abstractmethod
    def take(self, buffer: bytes, start: i64, end: i64, position: i64) -> None:
        """Take one record.

        Args:
            buffer: holds it.
            start: where its kind stands, the payload following.
            end: behind the payload.
            position: of the record in the log.

        """


class Scan:
    """How far a segment can be read.

    Attributes:
        end: behind the last whole batch, with the room for its trailer.
        batch_number: of the batch to come next.
        batch_count: whole batches found.
        fault: what is wrong at `end`; empty where the segment ends as it should.
        is_damage: something that was synced is unreadable, so the fault is no torn tail.
        has_end: the last batch was marked as the last of a checkpoint.

    """

    __slots__ = ("batch_count", "batch_number", "end", "fault", "has_end", "is_damage")

    def __init__(self, end: i64, batch_number: i64) -> None:
        self.end = end
        self.batch_number = batch_number
        self.batch_count: i64 = 0
        self.fault = ""
        self.is_damage = False
        self.has_end = False


def u32_at(buffer: bytes, start: i64) -> i64:
    """Four octets, the least significant first."""
    return (
        buffer[start]
        | (buffer[start + 1] << 8)
        | (buffer[start + 2] << 16)
        | (buffer[start + 3] << 24)
    )


def u64_at(buffer: bytes, start: i64) -> i64:
    """Eight octets, the least significant first."""
    low: i64 = u32_at(buffer, start)
    high: i64 = u32_at(buffer, start + 4)
    return low | (high << 32)


def _with_crc(raw: bytes) -> bytes:
    return raw + crc32(raw).to_bytes(4, "little") + bytes(4)


def segment_header(magic: bytes, number: int, salt: bytes) -> bytes:
    """The first 32 bytes of a file."""
    return _with_crc(magic + number.to_bytes(8, "little") + salt)


def segment_salt(header: bytes, magic: bytes, number: int) -> bytes | None:
    """The salt of a file of that kind and number; None where its header is damaged."""
    salt = header[16:24]
    return salt if header == segment_header(magic, number, salt) else None


def batch_header(salt: bytes, number: int, size: int, flags: int) -> bytes:
    """What stands in front of a batch of so many bytes of records."""
    fields = number.to_bytes(8, "little") + size.to_bytes(4, "little") + flags.to_bytes(4, "little")
    return _with_crc(salt + fields)


def batch_trailer(salt: bytes, number: int) -> bytes:
    """What stands behind a batch that is known to be synced."""
    return batch_header(salt, number, TRAILER_SIZE, FLAG_SYNCED)


def frame_record(body: bytes) -> bytes:
    """A record of that kind and payload."""
    return len(body).to_bytes(4, "little") + crc32(body).to_bytes(4, "little") + body


def record_end(buffer: bytes, start: i64) -> i64:
    """Where the record that starts there ends."""
    return start + RECORD_HEADER_BYTES + u32_at(buffer, start)


def record_is_whole(buffer: bytes, start: i64, end: i64) -> bool:
    """Whether a record lies there with all its bytes as they were written."""
    body: i64 = start + RECORD_HEADER_BYTES
    if body >= end:
        return False

    stop: i64 = record_end(buffer, start)
    if stop <= body or stop > end:
        return False

    crc: i64 = crc32(buffer[body:stop])
    return crc == u32_at(buffer, start + 4)


def header_is_whole(buffer: bytes, start: i64) -> bool:
    """Whether a batch header or a trailer lies there."""
    if start + BATCH_HEADER_BYTES > len(buffer):
        return False

    crc: i64 = crc32(buffer[start : start + 24])
    return crc == u32_at(buffer, start + 24) and buffer[start + 28 : start + 32] == bytes(4)


def scan_batches(
    buffer: bytes, salt: bytes, base: i64, batch_number: i64, sink: RecordSink
) -> Scan:
    """Hand all records of the whole batches of a segment on, and tell where that ended.

    Args:
        buffer: the segment, its header included.
        salt: out of that header.
        base: position of the segment's first byte in the log.
        batch_number: that the first batch must have; -1 takes any.
        sink: takes the records.

    """
    scan = Scan(SEGMENT_HEADER_BYTES, batch_number)
    size: i64 = len(buffer)
    while scan.end < size:
        start: i64 = scan.end
        if not _is_batch(buffer, start, salt):
            if buffer[start : start + 64].strip(b"\x00") or buffer[start:].strip(b"\x00"):
                _tell_fault(scan, buffer, salt, "this is no batch")

            return scan

        number: i64 = u64_at(buffer, start + 8)
        if scan.batch_number >= 0 and number != scan.batch_number:
            _tell_fault(scan, buffer, salt, f"batch {number} where {scan.batch_number} is due")
            scan.is_damage = True
            return scan

        first: i64 = start + BATCH_HEADER_BYTES
        stop: i64 = first + u32_at(buffer, start + 16)
        if stop > size or not _records_are_whole(buffer, first, stop):
            _tell_fault(scan, buffer, salt, f"batch {number} is not whole")
            return scan

        place: i64 = first
        while place < stop:
            behind: i64 = record_end(buffer, place)
            sink.take(buffer, place + RECORD_HEADER_BYTES, behind, base + place)
            place = behind

        scan.has_end = u32_at(buffer, start + 20) & FLAG_END != 0
        scan.batch_number = number + 1
        scan.batch_count += 1
        scan.end = min(stop + TRAILER_BYTES, size)

    return scan


def whole_batch_end(buffer: bytes, start: i64, salt: bytes) -> i64:
    """Where the records of a batch end that lies there, whole; -1 where none does."""
    if not _is_batch(buffer, start, salt):
        return -1

    first: i64 = start + BATCH_HEADER_BYTES
    stop: i64 = first + u32_at(buffer, start + 16)
    return stop if stop <= len(buffer) and _records_are_whole(buffer, first, stop) else -1


def count_records(buffer: bytes, start: i64, stop: i64) -> i64:
    """How many records lie between there; they must be whole."""
    count: i64 = 0
    while start < stop:
        start = record_end(buffer, start)
        count += 1

    return count


def _is_batch(buffer: bytes, start: i64, salt: bytes) -> bool:
    return (
        buffer[start : start + SALT_BYTES] == salt
        and header_is_whole(buffer, start)
        and u32_at(buffer, start + 16) != TRAILER_SIZE
    )


def _records_are_whole(buffer: bytes, start: i64, stop: i64) -> bool:
    place: i64 = start
    while place < stop:
        if not record_is_whole(buffer, place, stop):
            return False

        place = record_end(buffer, place)

    return place == stop


def _tell_fault(scan: Scan, buffer: bytes, salt: bytes, fault: str) -> None:
    """Say what is wrong, and whether something behind it proves that it was once synced."""
    scan.fault = fault
    place = buffer.find(salt, int(scan.end) + 1)
    while place >= 0:
        if header_is_whole(buffer, place) and u32_at(buffer, place + 20) & FLAG_SYNCED:
            scan.is_damage = True
            return

        place = buffer.find(salt, place + 1)
