"""What the committer does for one log: write a batch, keep a checkpoint, remove files."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Final

from broker.store.committer import LACK_OF_SPACE, Job
from broker.store.log_files import LogFiles, checkpoint_name, segment_name
from broker.store.records import (
    CHECKPOINT_MAGIC,
    FLAG_END,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    batch_header,
    batch_trailer,
    frame_record,
    segment_header,
)
from broker.store.reserve import NOT_SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.store.disk import File

__all__ = ["BatchJob", "CheckpointJob", "RemoveJob", "SyncJob", "is_lack_of_space"]

SLICE_BYTES: Final = 4 * 1024 * 1024
"""Of a checkpoint, written at a time: batches that come meanwhile are written in between."""


def is_lack_of_space(error: OSError) -> bool:
    """Whether it may go away by itself."""
    return error.errno in LACK_OF_SPACE


def sync_for_good(file: File) -> None:
    """Sync a file; may raise OSError, but never one for lack of space."""
    try:
        file.sync()
    except OSError as error:
        # Nobody knows what the disk has now. Tried again, it may say that all is well.
        raise OSError(errno.EIO, f"it was not synced: {error.strerror}") from error


def write_if_there_is_space(file: File, data: bytes, offset: int) -> None:
    """Write what can be left out."""
    try:
        file.write_at(data, offset)
    except OSError as error:
        if not is_lack_of_space(error):
            raise


class WritingJob(Job):
    """A job for which the space kept back may be given up.

    Args:
        files: of the log.

    """

    def __init__(self, files: LogFiles) -> None:
        super().__init__()
        self._files = files

    def run(self, *, is_last: bool) -> None:
        while True:
            try:
                self.write(is_last=is_last)
            except OSError as error:
                reserve = self._files.reserve
                if not is_lack_of_space(error) or reserve is None:
                    raise

                if not reserve.give_up(self.size):
                    raise
            else:
                return

    @property
    def size(self) -> int:
        """About how many bytes it writes at a time."""
        raise NotImplementedError

    def write(self, *, is_last: bool) -> None:
        """Do it; once more, after it failed half-way, does no harm. May raise OSError."""
        raise NotImplementedError


class BatchJob(WritingJob):
    """Writes one batch, and syncs it where that is asked for.

    Attributes:
        number: of the segment.
        salt: of the segment.
        offset: in the segment.
        header: of the batch.
        pieces: of the batch, to be joined.
        trailer: of the batch.
        allocate_bytes: for a segment that is to be made; 0 where it is there.
        previous_bytes: how much is in use of the segment before that one; 0 where it is gone.
        is_synced: whether to sync it.

    """

    def __init__(self, files: LogFiles, on_finished: Callable[[BatchJob], None]) -> None:
        super().__init__(files)
        self._on_finished = on_finished
        self.number = 0
        self.salt = b""
        self.offset = 0
        self.header = b""
        self.pieces: list[bytes] = []
        self.trailer = b""
        self.allocate_bytes = 0
        self.previous_bytes = 0
        self.is_synced = True

    def write(self, *, is_last: bool) -> None:
        if self.allocate_bytes:
            self._create()

        file = self._files.writing
        assert file is not None
        data = b"".join([self.header, *self.pieces])
        file.write_at(data, self.offset)
        if self.is_synced:
            sync_for_good(file)
            if is_last:
                # It need not reach the disk. What follows at once says the same (FLAG_SYNCED).
                write_if_there_is_space(file, self.trailer, self.offset + len(data))

    def _create(self) -> None:
        """Make the segment."""
        previous = self._files.writing
        if previous is not None:
            self._end_previous(previous)

        path = self._files.path(segment_name(self.number))
        file = self._files.disk.create(path)
        try:
            self._allocate(file)
            file.write_at(segment_header(SEGMENT_MAGIC, self.number, self.salt), 0)
            # However seldom there is a sync, no segment may be missing before one that is there.
            self._files.disk.sync_directory(self._files.directory)
        except OSError:
            file.close()
            raise

        self._files.write_to(file)
        self.allocate_bytes = 0

    def _allocate(self, file: File) -> None:
        try:
            file.allocate(self.allocate_bytes)
        except OSError as error:
            if is_lack_of_space(error):
                # What was claimed so far goes back. The batch alone may do with less.
                file.truncate(0)
            elif error.errno not in NOT_SUPPORTED:
                raise

    def _end_previous(self, file: File) -> None:
        if 0 < self.previous_bytes < file.size():
            # Space that was claimed and not used goes back.
            file.truncate(self.previous_bytes)

        if not self.is_synced:
            # Only the last segment may be torn by a crash, however seldom there is a sync.
            file.sync()

    @property
    def size(self) -> int:
        return len(self.header) + sum(map(len, self.pieces))

    @property
    def is_done(self) -> bool:
        """Whether it was tried, and did not fail."""
        return self.is_tried and self.error is None

    def finished(self) -> None:
        self._on_finished(self)


class SyncJob(Job):
    """Syncs the segment that is written to, some time after that."""

    def __init__(self, files: LogFiles, on_finished: Callable[[OSError | None], None]) -> None:
        super().__init__()
        self._files = files
        self._on_finished = on_finished

    def run(self, *, is_last: bool) -> None:
        if self._files.writing is not None:
            self._files.writing.sync()

    def is_fatal(self, error: OSError) -> bool:
        return True

    def finished(self) -> None:
        self._on_finished(self.error)


class CheckpointJob(WritingJob):
    """Writes a checkpoint beside, slice by slice, and puts it into force by its name.

    Args:
        files: of the log.
        number: the segment that the log goes on with.
        records: their bodies, each in pieces that nobody changes any more.
        submit: takes the job again for the next slice.
        on_finished: told when it is in force, or why not.

    Attributes:
        salt: drawn by chance.
        after: the batch whose state it is, if there was any.

    """

    def __init__(
        self,
        files: LogFiles,
        number: int,
        records: list[list[bytes]],
        *,
        submit: Callable[[Job], None],
        on_finished: Callable[[CheckpointJob], None],
    ) -> None:
        super().__init__(files)
        self.number = number
        self.salt = b""
        self._records = records
        self.after: BatchJob | None = None
        self._batch_count = 0
        self._submit = submit
        self._on_finished = on_finished
        self._file: File | None = None
        self._next = 0
        self._offset = 0
        self._data = b""
        self._path = files.path(checkpoint_name(number))
        self._is_whole = False
        self._is_done = False

    def write(self, *, is_last: bool) -> None:
        self._check_batch()
        if not self._is_whole:
            self._write_slice()

        if self._is_whole:
            self._sync_batch()
            self._files.disk.rename(self._path + ".tmp", self._path)
            self._files.disk.sync_directory(self._files.directory)
            self._is_done = True

    def _check_batch(self) -> None:
        """It tells where messages stand that are in the log: so they have to be there."""
        after = self.after
        if after is not None and not after.is_done:
            error = after.error
            code = errno.ENOSPC if error is None else error.errno
            raise OSError(code, "the batch before it is not written")

    def _sync_batch(self) -> None:
        """What it tells of must not be lost when it is not."""
        after = self.after
        if after is not None and not after.is_synced:
            sync_for_good(self._files.segment(after.number))
            # The segment may be gone by the next time.
            after.is_synced = True

    def _write_slice(self) -> None:
        file = self._file
        if file is None:
            file = self._files.disk.create(self._path + ".tmp")
            self._file = file

        if self._offset == 0:
            file.write_at(segment_header(CHECKPOINT_MAGIC, self.number, self.salt), 0)
            self._offset = SEGMENT_HEADER_BYTES

        stop = self._offset + SLICE_BYTES
        while self._has_more and self._offset < stop:
            self._write_batch(file)

        if not self._has_more:
            sync_for_good(file)
            file.close()
            self._file = None
            self._is_whole = True

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def _has_more(self) -> bool:
        return bool(self._data) or self._next < len(self._records)

    def _write_batch(self, file: File) -> None:
        if not self._data:
            self._data = self._next_batch()

        file.write_at(self._data, self._offset)
        self._offset += len(self._data)
        self._data = b""

    def _next_batch(self) -> bytes:
        framed: list[bytes] = []
        size = 0
        while self._next < len(self._records) and size < SLICE_BYTES:
            record = frame_record(b"".join(self._records[self._next]))
            self._records[self._next] = []
            self._next += 1
            framed.append(record)
            size += len(record)

        flags = FLAG_END if self._next == len(self._records) else 0
        number = self._batch_count
        self._batch_count += 1
        header = batch_header(self.salt, number, size, flags)
        return b"".join([header, *framed, batch_trailer(self.salt, number)])

    def finished(self) -> None:
        if self.error is None and not self._is_done:
            self._submit(self)
            return

        if self.error is not None:
            self._abandon()

        self._on_finished(self)

    def _abandon(self) -> None:
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
                self._file = None

            self._files.disk.unlink(self._path + ".tmp")


class RemoveJob(Job):
    """Removes files that nothing refers to. One that stays, or comes back, does no harm."""

    def __init__(self, files: LogFiles, names: list[str]) -> None:
        super().__init__()
        self._files = files
        self._names = names

    def run(self, *, is_last: bool) -> None:
        for name in self._names:
            self._files.disk.unlink(self._files.path(name))

    def is_fatal(self, error: OSError) -> bool:
        return False

    def finished(self) -> None:
        """Nobody waits for it."""
