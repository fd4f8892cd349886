"""The log of one virtual host, in segments on a disk (docs/durability.md).

**When a confirm leaves.** The broker hands a batch over (`commit_batch`); the committer's thread
writes it and syncs it (`BatchJob`); back in the broker's own thread `_batch_tried` tells the owner
(`LogOwner.batch_safe`), and that is what lets confirms, commit-ok and declare-ok go. There is one
batch on its way at a time; what happens meanwhile is the next batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import StoreError
from broker.limits import MOVED_BYTES_MAX
from broker.store.api import OFFSET_BITS, Log, LogOwner, Segment
from broker.store.jobs import BatchJob, CheckpointJob, RemoveJob, SyncJob, is_lack_of_space
from broker.store.log_files import LogFiles, checkpoint_name, describe, segment_name
from broker.store.records import (
    BATCH_HEADER_BYTES,
    FLAG_SYNCED,
    SALT_BYTES,
    SEGMENT_HEADER_BYTES,
    TRAILER_BYTES,
    batch_header,
    batch_trailer,
)
from broker.store.replay import META_KIND, Replay
from broker.store.reserve import ReserveJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.store.committer import Committer
    from broker.store.disk import Disk
    from broker.store.records import RecordSink
    from broker.store.reserve import Reserve

__all__ = ["GROUP", "INTERVAL", "NONE", "LogOptions", "SegmentLog"]

GROUP: Final = "group"
"""Safe is what has been synced; one sync serves all that came while the one before it ran."""

INTERVAL: Final = "interval"
"""Safe is what has been written; it is synced every tenth of a second or so."""

NONE: Final = "none"
"""Safe is what has been written; the system syncs it when it likes."""


BATCH_SHARE: Final = 4
"""No more than one in so many bytes of what is kept back may gather while the disk works."""

BATCH_BYTES_MIN: Final = 262_144
"""The same where little is kept back."""


class LogOptions(NamedTuple):
    """How a log is kept.

    Attributes:
        random_bytes: source of the segments' salts.
        sync: GROUP, INTERVAL or NONE.
        segment_bytes: a segment that has as many takes no more batches.
        reserve: space kept back for all logs of the disk, if there is any.

    """

    random_bytes: Callable[[int], bytes]
    sync: str = GROUP
    segment_bytes: int = 16 * 1024 * 1024
    reserve: Reserve | None = None


class SegmentLog(Log):
    """A log in a directory of its own.

    Args:
        disk: the file system.
        directory: made when it is not there.
        committer: does the writing.
        options: how.
        tell: takes level, event and fields of what a person should know.

    Raises:
        StoreError: the directory cannot be made.

    """

    __slots__ = (
        "_batch_number",
        "_committer",
        "_files",
        "_has_no_checkpoint",
        "_is_checkpointing",
        "_is_short",
        "_last_job",
        "_number",
        "_offset",
        "_owner",
        "_previous",
        "_random_bytes",
        "_reserve",
        "_salt",
        "_segment_bytes",
        "_stalled",
        "_sync",
        "_tell",
        "_unsynced",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        committer: Committer,
        options: LogOptions,
        tell: Callable[[str, str, dict[str, object]], None],
    ) -> None:
        super().__init__()
        try:
            disk.make_directory(directory)
        except OSError as error:
            raise StoreError(f"cannot make {directory}: {describe(error)}") from None

        self._files = LogFiles(disk, directory, options.reserve)
        self._committer = committer
        self._random_bytes = options.random_bytes
        self._sync = options.sync
        self._segment_bytes = options.segment_bytes
        self._reserve = options.reserve
        self._is_short = False
        if options.reserve is not None:
            # What is on its way when the disk is full must leave space for what empties it.
            few = max(options.reserve.size // BATCH_SHARE, BATCH_BYTES_MIN)
            self.pending_bytes_max = min(self.pending_bytes_max, few)

        self._tell = tell
        self._owner: LogOwner | None = None
        self._batch_number = 0
        # The segment that is written to; 0 before the first batch.
        self._number = 0
        self._previous = 0
        self._salt = b""
        self._offset = 0
        self._unsynced = False
        self._last_job: BatchJob | None = None
        self._stalled: BatchJob | None = None
        self._is_checkpointing = False
        # The last one failed for lack of space.
        self._has_no_checkpoint = False

    # -- reading what was kept

    def replay(self, sink: RecordSink) -> None:
        replay = Replay(self._files, self._tell)
        replay.run(sink)
        self.segments = replay.segments
        self.checkpoint_number = replay.checkpoint_number
        self._batch_number = replay.batch_number
        self._number = replay.last_number

    def start(self, owner: LogOwner) -> None:
        self._owner = owner
        self._offset = self._segment_bytes

    # -- writing

    def begin_batch(self) -> i64:
        if self._offset >= self._segment_bytes:
            self._number += 1
            self._offset = SEGMENT_HEADER_BYTES
            self._salt = self._random_bytes(SALT_BYTES)
            self.segments[self._number] = Segment(self._number)

        offset: i64 = self._offset + BATCH_HEADER_BYTES
        number: i64 = self._number
        return (number << OFFSET_BITS) | offset

    def commit_batch(self, pieces: list[bytes], size: i64) -> None:
        job = BatchJob(self._files, self._batch_tried)
        job.number = self._number
        job.salt = self._salt
        job.offset = self._offset
        # Whether the last stop was clean must be known of any start after it.
        job.is_synced = self._sync == GROUP or self._last_job is None
        flags = FLAG_SYNCED if job.is_synced else 0
        job.header = batch_header(self._salt, self._batch_number, int(size), flags)
        job.pieces = pieces
        job.trailer = batch_trailer(self._salt, self._batch_number)
        stop = job.offset + BATCH_HEADER_BYTES + int(size) + TRAILER_BYTES
        if job.offset == SEGMENT_HEADER_BYTES:
            job.allocate_bytes = max(self._segment_bytes, stop)
            if self._previous in self.segments:
                job.previous_bytes = int(self.segments[self._previous].size)

            self._previous = self._number

        self._offset = stop
        self._batch_number += 1
        self.segments[self._number].size = stop
        self._unsynced = not job.is_synced
        self.is_writing = True
        self._last_job = job
        self._committer.submit(job)

    def _batch_tried(self, job: BatchJob) -> None:
        owner = self._owner
        assert owner is not None
        error = job.error
        if error is None:
            if self._stalled is not None:
                self._stalled = None
                owner.log_resumed()

            self.is_writing = False
            job.pieces = []
            owner.batch_safe()
            self._look_at_reserve()
        elif is_lack_of_space(error):
            self._stalled = job
            owner.log_stalled(self._complaint(job.number, error))
        else:
            # After a failed sync nobody knows what the disk has: it must not be tried again.
            owner.log_failed(self._complaint(job.number, error))

    def _complaint(self, number: int, error: OSError) -> str:
        return f"cannot write {self._files.path(segment_name(number))}: {describe(error)}"

    def retry(self) -> None:
        job = self._stalled
        if job is not None and job.is_tried:
            self._committer.submit(job)

    def _look_at_reserve(self) -> None:
        is_short = self._reserve is not None and not self._reserve.is_whole
        owner = self._owner
        if is_short != self._is_short and owner is not None:
            self._is_short = is_short
            owner.log_short(is_short)

    def regain(self) -> None:
        if self._is_short and self._reserve is not None:
            self._committer.submit(ReserveJob(self._reserve, self._look_at_reserve))

    @property
    def spare_bytes(self) -> i64:
        if self._reserve is None:
            return MOVED_BYTES_MAX

        return min(MOVED_BYTES_MAX, self._reserve.held_bytes // BATCH_SHARE)

    def sync_soon(self) -> None:
        if self._sync == INTERVAL and self._unsynced:
            self._unsynced = False
            self._committer.submit(SyncJob(self._files, self._synced))

    def _synced(self, error: OSError | None) -> None:
        owner = self._owner
        if error is not None and owner is not None:
            owner.log_failed(self._complaint(self._number, error))

    # -- reading what was written

    def read_at(self, position: i64, size: i64) -> bytes:
        number = int(position >> OFFSET_BITS)
        offset = int(position & ((1 << OFFSET_BITS) - 1))
        try:
            return self._files.segment(number).read_at(int(size), offset)
        except OSError as error:
            path = self._files.path(segment_name(number))
            raise StoreError(f"cannot read {path} at {offset}: {describe(error)}") from None

    def place_of(self, position: i64) -> str:
        number = int(position >> OFFSET_BITS)
        offset = int(position & ((1 << OFFSET_BITS) - 1))
        return f"{self._files.path(segment_name(number))} at {offset}"

    # -- checkpoints

    @property
    def is_checkpointing(self) -> bool:
        return self._is_checkpointing

    def write_checkpoint(self, records: list[list[bytes]]) -> None:
        assert not self._is_checkpointing
        self._is_checkpointing = True
        # The state is that before the next batch, which begins a segment.
        self._offset = self._segment_bytes
        totals = [
            number.to_bytes(4, "little") + int(segment.total).to_bytes(4, "little")
            for number, segment in self.segments.items()
        ]
        meta = bytes((META_KIND,)) + self._batch_number.to_bytes(8, "little") + b"".join(totals)
        records.append([meta])
        job = CheckpointJob(
            self._files,
            self._number + 1,
            records,
            submit=self._committer.submit,
            on_finished=self._checkpoint_tried,
        )
        job.salt = self._random_bytes(SALT_BYTES)
        job.after = self._last_job
        self._committer.submit(job)

    def _checkpoint_tried(self, job: CheckpointJob) -> None:
        self._is_checkpointing = False
        self._look_at_reserve()
        error = job.error
        if error is None:
            self._has_no_checkpoint = False
            old = int(self.checkpoint_number)
            self.checkpoint_number = job.number
            if old and old != job.number:
                self._committer.submit(RemoveJob(self._files, [checkpoint_name(old)]))
        elif is_lack_of_space(error):
            path = self._files.path(checkpoint_name(job.number))
            fields: dict[str, object] = {"reason": describe(error), "file": path}
            if not self._has_no_checkpoint:
                self._has_no_checkpoint = True
                self._tell("warning", "store.checkpoint_failed", fields)
        else:
            owner = self._owner
            assert owner is not None
            path = self._files.path(checkpoint_name(job.number))
            owner.log_failed(f"cannot write {path}: {describe(error)}")

    def remove_segments(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.segments[number]
            self._files.forget(number)

        names = [segment_name(number) for number in numbers]
        self._committer.submit(RemoveJob(self._files, names))

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self._files.close()

    def close(self) -> None:
        """What was handed over must have been written before: see Committer.finish."""
        number = self._number
        self._files.close()
        if number in self.segments and self._salt:
            # Space that was claimed and not used goes back.
            self._files.cut(segment_name(number), int(self.segments[number].size))
