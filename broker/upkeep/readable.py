"""What can be read of a damaged log, batch by batch. Layer: rim."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.durable import MESSAGE, MOVED, StoredMessage
from broker.store.api import OFFSET_BITS
from broker.store.log_files import checkpoint_name, segment_name
from broker.store.records import RECORD_HEADER_BYTES, record_end, record_is_whole
from broker.store.survey import Survey, survey_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.store.view import LogView

__all__ = ["Readable", "Record"]

OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
MESSAGES: Final = {MESSAGE, MOVED}


class Record(NamedTuple):
    """One record, where it lies."""

    buffer: bytes
    start: int
    """Of its body: the kind, then the payload."""

    end: int
    position: int
    """In the log; 0 in a checkpoint."""

    @property
    def kind(self) -> int:
        return self.buffer[self.start]

    @property
    def body(self) -> bytes:
        return self.buffer[self.start : self.end]


class Readable:
    """The whole batches of a log.

    Args:
        log: stays open for as long as this is used.

    Attributes:
        segments: what each segment looks like.
        sound: numbers of the segments without any fault.
        checkpoint: number of the newest checkpoint; 0 without one.
        has_sound_checkpoint: it is whole.
        first_due: the segment with which replay begins.

    """

    def __init__(self, log: LogView) -> None:
        self.log = log
        self.segments: dict[int, Survey] = {}
        self._starts: dict[int, list[int]] = {}
        self._read_number = 0
        self._read_buffer = b""
        for number in log.segments:
            survey = self._survey(segment_name(number), number, is_checkpoint=False)
            self.segments[number] = survey
            self._starts[number] = [batch.start for batch in survey.batches]

        self.sound = {number for number, one in self.segments.items() if _is_sound(one)}
        self.checkpoint = log.checkpoints[-1] if log.checkpoints else 0
        self._checkpoint_survey: Survey | None = None
        self.has_sound_checkpoint = False
        if self.checkpoint:
            survey = self._survey(
                checkpoint_name(self.checkpoint), self.checkpoint, is_checkpoint=True
            )
            self._checkpoint_survey = survey
            self.has_sound_checkpoint = _is_sound(survey) and survey.has_end

        lowest = min(self.segments, default=1)
        self.first_due = self.checkpoint or lowest

    def _survey(self, name: str, number: int, *, is_checkpoint: bool) -> Survey:
        return survey_file(self.log.read(name), number, is_checkpoint=is_checkpoint)

    @property
    def last(self) -> int:
        """The last segment that there is, or was."""
        return max([self.log.last, self.checkpoint - 1, 0])

    @property
    def next_batch(self) -> int:
        """A number that no batch has had."""
        batches = [one.batches[-1].number for one in self.segments.values() if one.batches]
        return max(batches, default=-1) + 1

    def has(self, position: int) -> bool:
        """Whether the record at a position can be read."""
        number = position >> OFFSET_BITS
        survey = self.segments.get(number)
        if survey is None:
            return False

        offset = position & OFFSET_MASK
        index = bisect_right(self._starts[number], offset) - 1
        return index >= 0 and offset < survey.batches[index].stop

    def has_message(self, position: int, holder: int) -> bool:
        """Whether a message of that holder can be read at a position.

        What lies behind bytes that are gone from a file is not where it was: there may be another
        message, or the middle of one.

        """
        if not self.has(position):
            return False

        raw = self.read_at(position, RECORD_HEADER_BYTES)
        size = int(record_end(raw, 0)) if len(raw) == RECORD_HEADER_BYTES else 0
        raw = self.read_at(position, size)
        if not record_is_whole(raw, 0, len(raw)) or raw[RECORD_HEADER_BYTES] not in MESSAGES:
            return False

        stored = StoredMessage(raw, RECORD_HEADER_BYTES, size)
        return holder in [int(stored.holder(place)) for place in range(int(stored.row_count))]

    def records(self, number: int) -> Iterator[Record]:
        """The records of a segment, in order."""
        return self._records(segment_name(number), self.segments[number], number << OFFSET_BITS)

    def checkpoint_records(self) -> Iterator[Record]:
        """What can be read of the checkpoint."""
        survey = self._checkpoint_survey
        if survey is None:
            return iter(())

        return self._records(checkpoint_name(self.checkpoint), survey, -1)

    def has_all_declarations(self, kinds: set[int]) -> bool:
        """Whether the front of the checkpoint is whole, to where something else begins.

        Args:
            kinds: of declarations.

        """
        survey = self._checkpoint_survey
        if survey is None:
            return False

        until = survey.gaps[0].start if survey.gaps else survey.size
        for record in self.checkpoint_records():
            if record.start > until:
                return False

            if record.kind not in kinds:
                return True

        return False

    def _records(self, name: str, survey: Survey, base: int) -> Iterator[Record]:
        buffer = self.log.read(name)
        for batch in survey.batches:
            place = batch.start
            while place < batch.stop:
                behind = int(record_end(buffer, place))
                position = 0 if base < 0 else base + place
                yield Record(buffer, place + RECORD_HEADER_BYTES, behind, position)
                place = behind

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes of a segment.

        Raises:
            StoreError: it cannot be read.

        """
        number = position >> OFFSET_BITS
        if number != self._read_number:
            # Neighbours mostly lie in the same segment.
            self._read_buffer = self.log.read(segment_name(number))
            self._read_number = number

        offset = position & OFFSET_MASK
        return self._read_buffer[offset : offset + size]


def _is_sound(survey: Survey) -> bool:
    return survey.has_header and not survey.gaps and survey.first_misnumbered() < 0
