"""Small files that are replaced as a whole (store layer).

Invariant: whatever happens while a file is replaced, what is there afterwards is the old or the new
content, never a part of one.
"""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = ["NEW_SUFFIX", "read_file", "replace_file", "sync_directory", "sync_file"]

NEW_SUFFIX: Final = ".new"
"""What a file is called until it is whole."""


def replace_file(path: str, content: bytes) -> None:
    """Put a file in the place of what was there, on the disk when this returns.

    Raises:
        OSError: it could not be done; the old content is still there.

    """
    beside = path + NEW_SUFFIX
    # Nobody else may read it: hashes of passwords are in some.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        sync_file(file.fileno())

    os.replace(beside, path)
    sync_directory(os.path.dirname(path))


def read_file(path: str) -> bytes | None:
    """Read a file whole; None when there is none.

    Raises:
        OSError: it is there and cannot be read.

    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def sync_file(descriptor: int) -> None:
    """Have the disk keep what was written to an open file."""
    if sys.platform == "darwin":
        import fcntl

        # fsync of macOS leaves it in the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Have the disk keep the names in a directory; Windows keeps them by itself."""
    if sys.platform == "win32":
        return

    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
