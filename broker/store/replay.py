"""Reads a log back: its checkpoint, then everything since; says what is torn, refuses damage.

A batch that was cut short by a crash was never called safe: it is dropped, and that is told. A
fault anywhere else, or one that lies before something which can only have been written after it
was synced, means that something safe is lost: that is for a person to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import StoreError
from broker.store.api import OFFSET_BITS, Segment
from broker.store.log_files import CHECKPOINT_SUFFIX, LogFiles, checkpoint_name, segment_name
from broker.store.records import (
    CHECKPOINT_MAGIC,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    RecordSink,
    Scan,
    scan_batches,
    segment_salt,
    u32_at,
    u64_at,
)
from broker.store.survey import survey_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

__all__ = ["META_KIND", "Replay"]

META_KIND: Final = 0
"""The record at the end of a checkpoint that is the log's own: number of the batch that comes
next, then number and total of each segment."""

PROGRESS_BYTES: Final = 128 * 1024 * 1024
"""Read between two lines of the log that tell how far it is: some seconds on a slow machine."""

ADVICE: Final = "`leveret store check` tells more, `leveret store repair` keeps what can be read"


class _NoSink(RecordSink):
    """Takes records of which only the soundness is of interest."""

    __slots__ = ()

    def take(self, buffer: bytes, start: i64, end: i64, position: i64) -> None:
        pass


class _CheckpointSink(RecordSink):
    """Keeps the log's own record to itself."""

    __slots__ = ("_sink", "meta")

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink
        self.meta = b""

    def take(self, buffer: bytes, start: i64, end: i64, position: i64) -> None:
        if buffer[start] == META_KIND:
            self.meta = buffer[start + 1 : end]
        else:
            self._sink.take(buffer, start, end, 0)


class Replay:
    """One reading of a log.

    Attributes:
        segments: those that are there.
        checkpoint_number: the first segment that was read for more than its soundness.
        batch_number: that the next batch will have.
        last_number: of the last segment, or of what the checkpoint expects before the next.

    """

    def __init__(
        self, files: LogFiles, tell: Callable[[str, str, dict[str, object]], None]
    ) -> None:
        self._files = files
        self._tell = tell
        self.segments: dict[int, Segment] = {}
        self.checkpoint_number = 0
        self.batch_number = 0
        self.last_number = 0
        self._read_bytes = 0
        self._told = 0

    def run(self, sink: RecordSink) -> None:
        """Hand all records over, oldest first, those of the checkpoint with position 0.

        Raises:
            StoreError: the log is damaged, or cannot be read.

        """
        self._clear_unfinished()
        checkpoints = self._files.numbers(CHECKPOINT_SUFFIX)
        # A broker that was killed may have left names that only the system's memory has.
        self._files.sync_names()
        if checkpoints:
            self._read_checkpoint(checkpoints[-1], sink)
            for number in checkpoints[:-1]:
                self._files.remove(checkpoint_name(number))

        numbers = self._files.segment_numbers()
        first = max(self.checkpoint_number, 1)
        self.last_number = max([*numbers, first - 1])
        due = list(range(first, self.last_number + 1))
        missing = [number for number in due if number not in numbers]
        if missing:
            path = self._files.path(segment_name(missing[0]))
            raise StoreError(f"{path} is missing: {ADVICE}")

        nobody = _NoSink()
        for place, number in enumerate(numbers, start=1):
            is_due = number >= first
            self._read_segment(number, sink if is_due else nobody, is_due=is_due)
            self._tell_progress(place, len(numbers))

        # The checkpoint tells of more than is there: some went later on, when they were empty.
        for number in [one for one in self.segments if one not in numbers]:
            del self.segments[number]

    def _tell_progress(self, place: int, count: int) -> None:
        passed = self._read_bytes // PROGRESS_BYTES
        if passed > self._told:
            self._told = passed
            fields: dict[str, object] = {
                "directory": self._files.directory,
                "segments": place,
                "of": count,
                "bytes": self._read_bytes,
            }
            self._tell("info", "store.reading", fields)

    def _clear_unfinished(self) -> None:
        """Remove what a crash has left of a checkpoint that was being written."""
        for number in self._files.numbers(CHECKPOINT_SUFFIX + ".tmp"):
            self._files.remove(checkpoint_name(number) + ".tmp")

    def _read_checkpoint(self, number: int, sink: RecordSink) -> None:
        name = checkpoint_name(number)
        buffer = self._files.read_whole(name)
        salt = segment_salt(buffer[:SEGMENT_HEADER_BYTES], CHECKPOINT_MAGIC, number)
        if salt is None:
            raise self._damage(name, 0, "its header is damaged")

        keeper = _CheckpointSink(sink)
        scan = scan_batches(buffer, salt, 0, 0, keeper)
        if scan.fault or not scan.has_end:
            raise self._damage(name, int(scan.end), scan.fault or "its end is missing")

        meta = keeper.meta
        self.checkpoint_number = number
        self.batch_number = int(u64_at(meta, 0))
        for place in range(8, len(meta), 8):
            segment = Segment(u32_at(meta, place))
            segment.total = u32_at(meta, place + 4)
            self.segments[int(segment.number)] = segment

    def _read_segment(self, number: int, sink: RecordSink, *, is_due: bool) -> None:
        name = segment_name(number)
        buffer = self._files.read_whole(name)
        self._read_bytes += len(buffer)
        is_last = number == self.last_number
        salt = segment_salt(buffer[:SEGMENT_HEADER_BYTES], SEGMENT_MAGIC, number)
        if salt is None:
            self._drop_headless(name, buffer, is_last=is_last)
            return

        expected = self.batch_number if is_due else -1
        scan = scan_batches(buffer, salt, number << OFFSET_BITS, expected, sink)
        if scan.fault:
            if scan.is_damage or not is_last:
                raise self._damage(name, int(scan.end), scan.fault)

            self._tell_torn(name, scan, len(buffer))

        if is_due:
            self.batch_number = int(scan.batch_number)

        if is_last:
            self._files.keep(name, buffer[: int(scan.end)])

        known = self.segments.get(number)
        segment = Segment(number) if known is None else known
        segment.size = scan.end
        self.segments[number] = segment

    def _drop_headless(self, name: str, buffer: bytes, *, is_last: bool) -> None:
        """A segment without a header: just made when the crash came, or damaged."""
        if not is_last or survey_file(buffer, self.last_number, is_checkpoint=False).batches:
            raise self._damage(name, 0, "its header is damaged")

        self._tell("warning", "store.tail_dropped", {"file": self._files.path(name), "offset": 0})
        self._files.remove(name)
        self.last_number -= 1

    def _tell_torn(self, name: str, scan: Scan, size: int) -> None:
        fields: dict[str, object] = {
            "file": self._files.path(name),
            "offset": int(scan.end),
            "bytes": size - int(scan.end),
            "reason": scan.fault,
        }
        self._tell("warning", "store.tail_dropped", fields)

    def _damage(self, name: str, offset: int, fault: str) -> StoreError:
        path = self._files.path(name)
        return StoreError(f"{path} is damaged at offset {offset}: {fault}. {ADVICE}")
