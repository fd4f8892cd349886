"""The files of one log's directory: their names, and handles to them, a bounded number of which
are open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker.errors import StoreError

if TYPE_CHECKING:
    from broker.store.disk import Disk, File
    from broker.store.reserve import Reserve

__all__ = [
    "CHECKPOINT_SUFFIX",
    "SEGMENT_SUFFIX",
    "LogFiles",
    "checkpoint_name",
    "describe",
    "is_number",
    "segment_name",
]

SEGMENT_SUFFIX: Final = ".log"
CHECKPOINT_SUFFIX: Final = ".checkpoint"
UNFINISHED_SUFFIX: Final = ".tmp"
OPEN_FILES_MAX: Final = 64
"""Segments of one log that are kept open for reading."""


def segment_name(number: int) -> str:
    """The name of a segment's file."""
    return f"{number:08d}{SEGMENT_SUFFIX}"


def is_number(stem: str) -> bool:
    """Whether a file is called like a segment or a checkpoint, but for the suffix."""
    return stem.isascii() and stem.isdecimal() and stem == f"{int(stem):08d}"


def checkpoint_name(number: int) -> str:
    """The name of the file with the state before that segment."""
    return f"{number:08d}{CHECKPOINT_SUFFIX}"


def describe(error: OSError) -> str:
    """An error of the system as people read it."""
    return error.strerror or str(error)


class LogFiles:
    """What lies in one log's directory.

    Args:
        disk: where.
        directory: its path; it is made when it is not there.
        reserve: space kept back on the disk, if there is any.

    Attributes:
        writing: the segment that is written to; it belongs to the thread that writes, and all
            else to the broker's own.

    """

    __slots__ = ("_files", "directory", "disk", "reserve", "writing")

    def __init__(self, disk: Disk, directory: str, reserve: Reserve | None = None) -> None:
        self.disk = disk
        self.directory = directory
        self.reserve = reserve
        self.writing: File | None = None
        # Open for reading, least recently used first.
        self._files: dict[int, File] = {}

    def path(self, name: str) -> str:
        """The path of a file of that name."""
        return os.path.join(self.directory, name)

    def numbers(self, suffix: str) -> list[int]:
        """The numbers of the files of one kind, ascending; other names are nobody's business.

        Raises:
            StoreError: the directory cannot be read.

        """
        try:
            names = self.disk.list_directory(self.directory)
        except OSError as error:
            raise StoreError(f"cannot read {self.directory}: {describe(error)}") from None

        stems = [name[: -len(suffix)] for name in names if name.endswith(suffix)]
        return sorted(int(stem) for stem in stems if is_number(stem))

    def segment_numbers(self) -> list[int]:
        """The numbers of all segments, ascending."""
        return self.numbers(SEGMENT_SUFFIX)

    def read_whole(self, name: str) -> bytes:
        """All of a file.

        Raises:
            StoreError: it cannot be read.

        """
        path = self.path(name)
        try:
            file = self.disk.open(path)
            try:
                return file.read_at(file.size(), 0)
            finally:
                file.close()
        except OSError as error:
            raise StoreError(f"cannot read {path}: {describe(error)}") from None

    def cut(self, name: str, size: int) -> None:
        """Cut a file behind its last whole batch, for good.

        Raises:
            StoreError: it cannot be done.

        """
        path = self.path(name)
        try:
            file = self.disk.open(path)
            try:
                if file.size() > size:
                    file.truncate(size)

                file.sync()
            finally:
                file.close()
        except OSError as error:
            raise StoreError(f"cannot cut {path} to {size} bytes: {describe(error)}") from None

    def keep(self, name: str, content: bytes) -> None:
        """Have the disk keep what was read of a file, and nothing behind that.

        A broker may have been killed before it could sync it; or its sync failed, and then the
        system takes for written what only its memory has. So it is written once more.

        Raises:
            StoreError: it cannot be done.

        """
        path = self.path(name)
        try:
            file = self.disk.open(path)
            try:
                file.write_at(content, 0)
                if file.size() > len(content):
                    file.truncate(len(content))

                file.sync()
            finally:
                file.close()
        except OSError as error:
            raise StoreError(f"cannot write {path}: {describe(error)}") from None

    def sync_names(self) -> None:
        """Have the disk keep which files there are.

        Raises:
            StoreError: it cannot be done.

        """
        try:
            self.disk.sync_directory(self.directory)
        except OSError as error:
            raise StoreError(f"cannot sync {self.directory}: {describe(error)}") from None

    def remove(self, name: str) -> None:
        """Remove a file.

        Raises:
            StoreError: it cannot be done.

        """
        path = self.path(name)
        try:
            self.disk.unlink(path)
        except OSError as error:
            raise StoreError(f"cannot remove {path}: {describe(error)}") from None

    # -- segments that are open

    def write_to(self, file: File) -> None:
        """Go on with a segment that was just made. Runs in the thread that writes."""
        before = self.writing
        self.writing = file
        if before is not None:
            before.close()

    def segment(self, number: int) -> File:
        """A segment, open for reading; may raise OSError."""
        file = self._files.pop(number, None)
        if file is None:
            file = self.disk.open(self.path(segment_name(number)))
            if len(self._files) >= OPEN_FILES_MAX:
                self._files.pop(next(iter(self._files))).close()

        self._files[number] = file
        return file

    def forget(self, number: int) -> None:
        """Close a segment that is about to be removed."""
        file = self._files.pop(number, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

        self._files.clear()
        if self.writing is not None:
            self.writing.close()
            self.writing = None
