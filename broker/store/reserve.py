"""Space that is kept back on the disk, for the day when there is none left (store layer).

A full disk is emptied by writing: settlements and a checkpoint have to be on it before old segments
can go. So a file claims some space while there is enough, and gives it up piece by piece in need.
Until it is whole again the disk counts as full, and publishers wait.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Final

from broker.store.committer import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.store.disk import Disk, File

__all__ = ["NOT_SUPPORTED", "Reserve", "ReserveJob"]

NOT_SUPPORTED: Final = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
"""What systems and file systems say that cannot claim space in advance."""

PIECE_BYTES: Final = 256 * 1024
"""Given up at a time, at least: somebody else may be quicker to use it."""


class Reserve:
    """The space kept back in one data directory; used by one thread at a time.

    Args:
        disk: where.
        path: of the file.
        size: of all of it, in bytes.

    """

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self._disk = disk
        self._path = path
        self.size = size
        self._held = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing has been given up."""
        return self._held >= self.size

    @property
    def held_bytes(self) -> int:
        """What has not been given up."""
        return self._held

    def find(self) -> None:
        """Take over what an earlier broker has left, and claim what is missing."""
        with contextlib.suppress(OSError):
            file = self._disk.open(self._path)
            try:
                self._held = file.size()
            finally:
                file.close()

        self.claim()

    def claim(self) -> None:
        """Have all of it again, if as much is free besides."""
        if self.is_whole:
            return

        with contextlib.suppress(OSError):
            file = self._disk.open(self._path) if self._held else self._disk.create(self._path)
            try:
                self._fill(file)
                self._held = self.size
            finally:
                with contextlib.suppress(OSError):
                    file.truncate(self._held)

                file.close()

    def _fill(self, file: File) -> None:
        wanted = 2 * self.size
        try:
            file.allocate(wanted)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise

        for offset in range(file.size(), wanted, PIECE_BYTES):
            # This system claims nothing in advance.
            file.write_at(bytes(PIECE_BYTES), offset)

    def give_up(self, wanted_bytes: int) -> bool:
        """Let somebody have as much, or a bit more; False when there is nothing left."""
        if not self._held:
            return False

        left = max(self._held - max(wanted_bytes, PIECE_BYTES), 0)
        try:
            file = self._disk.open(self._path)
            try:
                file.truncate(left)
            finally:
                file.close()
        except OSError:
            return False

        self._held = left
        return True

    def remove(self) -> None:
        """Keep nothing back any more."""
        self._held = 0
        with contextlib.suppress(OSError):
            self._disk.unlink(self._path)


class ReserveJob(Job):
    """Tries to claim the space kept back again."""

    def __init__(self, reserve: Reserve, on_finished: Callable[[], None]) -> None:
        super().__init__()
        self._reserve = reserve
        self._on_finished = on_finished

    def run(self, *, is_last: bool) -> None:
        self._reserve.claim()

    def finished(self) -> None:
        self._on_finished()
