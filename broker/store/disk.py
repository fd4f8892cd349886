"""The file operations that the log is made of: a test can put a failing disk in their place.

Every one of them may raise OSError, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

__all__ = ["Disk", "File", "SystemDisk", "SystemFile", "open_descriptor"]


@mypyc_attr(allow_interpreted_subclasses=True)
class File(ABC):
    """One open file."""

    __slots__ = ()

    @abstractmethod
    def read_at(self, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes; fewer where the file ends."""

    @abstractmethod
    def write_at(self, data: bytes, offset: int) -> None:
        """Write all of ``data``."""

    @abstractmethod
    def sync(self) -> None:
        """Return when what was written has reached the disk itself."""

    @abstractmethod
    def allocate(self, size: int) -> None:
        """Claim space, so that writing up to that size later needs none; zeros until then."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut the file, or let it grow by zeros."""

    @abstractmethod
    def size(self) -> int:
        """Its length in bytes."""

    @abstractmethod
    def close(self) -> None:
        """Close it, synced or not."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk(ABC):
    """A file system, or what a test has in the place of one. Paths are absolute."""

    __slots__ = ()

    @abstractmethod
    def create(self, path: str) -> File:
        """Make a new file; one that is there is emptied."""

    @abstractmethod
    def open(self, path: str) -> File:
        """Open a file that is there, for reading and writing."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of what had that before."""

    @abstractmethod
    def unlink(self, path: str) -> None:
        """Remove a file; none there is no error."""

    @abstractmethod
    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make a directory; one that is there is no error."""

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Return when what was created, renamed or removed in it has reached the disk."""


class SystemFile(File):
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, size: int, offset: int) -> bytes:
        if not hasattr(os, "pread"):  # Windows
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return os.read(self._descriptor, size)

        data = os.pread(self._descriptor, size, offset)
        while len(data) < size:
            more = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not more:
                break

            data += more

        return data

    def write_at(self, data: bytes, offset: int) -> None:
        if not hasattr(os, "pwrite"):  # Windows
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            done = os.write(self._descriptor, data)
        else:
            done = os.pwrite(self._descriptor, data, offset)

        while done < len(data):
            # A system writes two gigabytes at most in one call, and less when space runs out.
            done += self._write_rest(memoryview(data)[done:], offset + done)

    def _write_rest(self, data: memoryview, offset: int) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self._descriptor, data, offset)

        os.lseek(self._descriptor, offset, os.SEEK_SET)
        return os.write(self._descriptor, data)

    def sync(self) -> None:
        if hasattr(os, "fdatasync"):
            os.fdatasync(self._descriptor)
        else:  # macOS, Windows
            os.fsync(self._descriptor)

    def allocate(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


class SystemDisk(Disk):
    """The file system of this machine."""

    __slots__ = ()

    def create(self, path: str) -> File:
        return SystemFile(open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def open(self, path: str) -> File:
        return SystemFile(open_descriptor(path, os.O_RDWR))

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        if os.name == "nt":
            # Directories cannot be opened there; the file system journals names by itself.
            return

        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_descriptor(path: str, flags: int) -> int:
    """Open a file for this process and for nobody else."""
    # Windows: no translation of line ends. Elsewhere there is no such flag.
    return os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
