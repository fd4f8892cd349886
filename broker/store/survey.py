"""What can be read of one file of a log, and what cannot: gaps do not end the reading here.

Replay stops at the first fault, which is right for a broker. Who checks or mends wants to know what
lies behind it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.store.records import (
    BATCH_HEADER_BYTES,
    CHECKPOINT_MAGIC,
    FLAG_END,
    FLAG_SYNCED,
    SALT_BYTES,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    TRAILER_BYTES,
    count_records,
    header_is_whole,
    segment_salt,
    u32_at,
    u64_at,
    whole_batch_end,
)

__all__ = ["Batch", "Gap", "Survey", "survey_file"]

SALT_START: Final = 16
"""Of the salt in the header of a file."""


class Batch(NamedTuple):
    """A whole batch."""

    start: int
    """Where its first record begins."""

    stop: int
    """Behind its last record."""

    number: int
    flags: int


class Gap(NamedTuple):
    """Bytes that are no whole batch."""

    start: int
    stop: int
    fault: str


class Survey:
    """One file of a log.

    Attributes:
        batches: that are whole, in order.
        gaps: between and behind them, and where the header should be.
        size: of the file.
        end: behind the last whole batch, with the room for its trailer.
        record_count: of the whole batches.
        has_header: the header is as it should be.
        is_proven_damaged: something in a gap was safe once: what lies behind it was only written
            when that was synced.

    """

    def __init__(self, size: int) -> None:
        self.batches: list[Batch] = []
        self.gaps: list[Gap] = []
        self.size = size
        self.end = min(SEGMENT_HEADER_BYTES, size)
        self.record_count = 0
        self.has_header = True
        self.is_proven_damaged = False

    @property
    def has_end(self) -> bool:
        """Whether the last batch is the last of a checkpoint."""
        return bool(self.batches) and self.batches[-1].flags & FLAG_END != 0

    def first_misnumbered(self) -> int:
        """The index of the first batch whose number does not follow; -1 where all do."""
        for index in range(1, len(self.batches)):
            if self.batches[index].number != self.batches[index - 1].number + 1:
                return index

        return -1


def survey_file(buffer: bytes, number: int, *, is_checkpoint: bool) -> Survey:
    """See what there is.

    Args:
        buffer: the file.
        number: in its name.
        is_checkpoint: or a segment.

    """
    survey = Survey(len(buffer))
    magic = CHECKPOINT_MAGIC if is_checkpoint else SEGMENT_MAGIC
    salt = segment_salt(buffer[:SEGMENT_HEADER_BYTES], magic, number)
    if salt is None:
        survey.has_header = False
        fault = "its header is damaged" if buffer.strip(b"\x00") else "it has no header"
        survey.gaps.append(Gap(0, min(SEGMENT_HEADER_BYTES, len(buffer)), fault))
        salt = _guess_salt(buffer)

    _survey_batches(survey, buffer, salt)
    if not survey.has_header and survey.batches:
        survey.is_proven_damaged = True

    return survey


def _guess_salt(buffer: bytes) -> bytes:
    """The salt of a file without a sound header: what the batches have, or was there."""
    first = buffer[SEGMENT_HEADER_BYTES : SEGMENT_HEADER_BYTES + SALT_BYTES]
    if header_is_whole(buffer, SEGMENT_HEADER_BYTES):
        return first

    return buffer[SALT_START : SALT_START + SALT_BYTES] or first


def _survey_batches(survey: Survey, buffer: bytes, salt: bytes) -> None:
    place = SEGMENT_HEADER_BYTES
    size = len(buffer)
    while place < size:
        stop = int(whole_batch_end(buffer, place, salt))
        if stop >= 0:
            _add_batch(survey, buffer, place, stop)
            place = survey.end
            continue

        if not buffer[place : place + 64].strip(b"\x00") and not buffer[place:].strip(b"\x00"):
            return

        behind = _next_batch(survey, buffer, place, salt)
        survey.gaps.append(Gap(place, behind, _fault_at(buffer, place, salt)))
        place = behind


def _add_batch(survey: Survey, buffer: bytes, place: int, stop: int) -> None:
    start = place + BATCH_HEADER_BYTES
    number = int(u64_at(buffer, place + 8))
    flags = int(u32_at(buffer, place + 20))
    survey.batches.append(Batch(start, stop, number, flags))
    survey.record_count += int(count_records(buffer, start, stop))
    survey.end = min(stop + TRAILER_BYTES, len(buffer))


def _next_batch(survey: Survey, buffer: bytes, place: int, salt: bytes) -> int:
    """Where the next whole batch lies, or the end of the file."""
    if not salt.strip(b"\x00"):
        return len(buffer)

    found = buffer.find(salt, place + 1)
    while found >= 0:
        if header_is_whole(buffer, found):
            if u32_at(buffer, found + 20) & FLAG_SYNCED:
                survey.is_proven_damaged = True

            if whole_batch_end(buffer, found, salt) >= 0:
                return found

        found = buffer.find(salt, found + 1)

    return len(buffer)


def _fault_at(buffer: bytes, place: int, salt: bytes) -> str:
    if buffer[place : place + SALT_BYTES] == salt and header_is_whole(buffer, place):
        return f"batch {int(u64_at(buffer, place + 8))} is not whole"

    return "this is no batch"
