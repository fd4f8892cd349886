"""A disk on which a log can be replayed, and even written to, with nothing changed (store layer).

What was there is read from a :class:`LogView`; what is made new is kept in memory. So a check does
all that a start does, on files that another process may be using.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from broker.store.disk import Disk, File

if TYPE_CHECKING:
    from broker.store.view import LogView

__all__ = ["FrozenDisk"]


class _MemoryFile(File):
    """A file that is kept in memory."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)

    def read_at(self, size: int, offset: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def write_at(self, data: bytes, offset: int) -> None:
        self._data.extend(bytes(max(0, offset - len(self._data))))
        self._data[offset : offset + len(data)] = data

    def sync(self) -> None:
        """There is no disk."""

    def allocate(self, size: int) -> None:
        """There is nothing to claim."""

    def truncate(self, size: int) -> None:
        self._data.extend(bytes(max(0, size - len(self._data))))
        del self._data[size:]

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None:
        """It stays until the disk goes."""


class _FrozenFile(File):
    """A file of the view; one that is written to is in memory from then on."""

    def __init__(self, log: LogView, name: str) -> None:
        self._log = log
        self._name = name
        self._own: _MemoryFile | None = None

    def _to_change(self) -> _MemoryFile:
        if self._own is None:
            self._own = _MemoryFile(self.read_at(self.size(), 0))

        return self._own

    def read_at(self, size: int, offset: int) -> bytes:
        if self._own is not None:
            return self._own.read_at(size, offset)

        return self._log.read_at(self._name, size, offset)

    def write_at(self, data: bytes, offset: int) -> None:
        self._to_change().write_at(data, offset)

    def sync(self) -> None:
        """There is no disk."""

    def allocate(self, size: int) -> None:
        """There is nothing to claim."""

    def truncate(self, size: int) -> None:
        self._to_change().truncate(size)

    def size(self) -> int:
        return self._log.size(self._name) if self._own is None else self._own.size()

    def close(self) -> None:
        """The view closes it."""


class FrozenDisk(Disk):
    """The files of one log, and what a reader makes beside them.

    Args:
        log: stays open for as long as this is used.

    """

    __slots__ = ("_files",)

    def __init__(self, log: LogView) -> None:
        self._files: dict[str, File] = {
            os.path.join(log.path, name): _FrozenFile(log, name) for name in log.names
        }

    def create(self, path: str) -> File:
        file = _MemoryFile()
        self._files[path] = file
        return file

    def open(self, path: str) -> File:
        file = self._files.get(path)
        if file is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)

        return file

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def unlink(self, path: str) -> None:
        self._files.pop(path, None)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.path.basename(one) for one in self._files if os.path.dirname(one) == path)

    def make_directory(self, path: str) -> None:
        """It is there."""

    def sync_directory(self, path: str) -> None:
        """There is no disk."""
