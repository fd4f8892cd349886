"""The lock that keeps two brokers out of one data directory (store layer).

Invariant: the system holds the lock for as long as the process lives, so a killed broker leaves
nothing behind that has to be cleaned up. What is written in the file is for people only.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from datetime import UTC, datetime
from typing import Final

from broker.errors import StoreError

__all__ = ["DirectoryLock", "lock_holder"]

TEXT_BYTES_MAX: Final = 200
_TEXT: Final = re.compile(r"(\d+) (\S+)\n\Z", re.ASCII)


class DirectoryLock:
    """Held from the making of this object until :meth:`release`.

    Args:
        directory: what is locked, for the error.
        path: the file that carries the lock.

    Raises:
        StoreError: another broker holds it.
        OSError: the file cannot be opened, or this file system has no locks.

    """

    __slots__ = ("_descriptor",)

    def __init__(self, directory: str, path: str) -> None:
        # Not truncated: until the lock is ours, the text is another's.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _take(self._descriptor):
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                holder = _holder(os.read(self._descriptor, TEXT_BYTES_MAX))
                raise StoreError(
                    f"data directory {directory} is in use by {holder}: stop it, or give this"
                    " broker another one with --data-dir"
                )
        except BaseException:
            os.close(self._descriptor)
            raise

        # With a full disk the text is missing, and the lock is as good.
        with contextlib.suppress(OSError):
            started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()} {started}\n".encode("ascii"))

    def release(self) -> None:
        """Let others have the directory; harmless when it was released before."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _let_go(descriptor)
            os.close(descriptor)


def lock_holder(path: str) -> str:
    """Who holds a lock, for people to read; empty when nobody does, or there is no such file.

    Raises:
        OSError: the file cannot be opened, or this file system has no locks.

    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""

    try:
        # For a moment it is ours then, unless it is another's.
        return "" if _take(descriptor) else _holder(os.read(descriptor, TEXT_BYTES_MAX))
    finally:
        os.close(descriptor)


def _holder(raw: bytes) -> str:
    match = _TEXT.match(raw.decode("ascii", "replace"))
    return f"process {match[1]} (started {match[2]})" if match else "another process"


def _take(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        # A byte far behind the text, which others can still read then.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False

        os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False

    return True


def _let_go(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl

        # Closing it would not do while a child that was forked meanwhile has it too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
