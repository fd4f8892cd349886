"""A file that a log is written to, and that is not let grow for ever. Layer: rim.

Invariant: a line is never split over two files; whatever the disk answers, the broker works on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.errors import StartError

if TYPE_CHECKING:
    from io import TextIOWrapper

__all__ = ["LogFile"]


class LogFile:
    """Lines in a file, with those before it in ``path.1``, ``path.2`` and so on.

    Args:
        path: of the file; it is gone on with when it is there.
        size_bytes_max: a file that has grown to this is put aside.
        files_max: how many are kept, the one that is written to among them.

    Raises:
        StartError: it cannot be opened.

    """

    def __init__(self, path: str, size_bytes_max: int, files_max: int) -> None:
        self.path = os.path.abspath(path)
        self._size_bytes_max = size_bytes_max
        self._files_max = files_max
        self._file = self._open()
        self._size_bytes = os.fstat(self._file.fileno()).st_size

    def write(self, text: str) -> int:
        """Write a line, or several."""
        size = len(text.encode("utf-8", "backslashreplace"))
        if self._size_bytes and self._size_bytes + size > self._size_bytes_max:
            self._rotate()

        self._size_bytes += size
        return self._file.write(text)

    def flush(self) -> None:
        """Hand it over to the system."""
        self._file.flush()

    def reopen(self) -> None:
        """Go on in a file of that name, whatever became of the one before; for logrotate.

        Raises:
            StartError: it cannot be opened; the one before is gone on with.

        """
        fresh = self._open()
        self._file.close()
        self._file = fresh
        self._size_bytes = os.fstat(fresh.fileno()).st_size

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _open(self) -> TextIOWrapper:
        try:
            return open(self.path, "a", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise StartError(f"cannot write the log to {self.path}: {why}") from None

    def _rotate(self) -> None:
        try:
            self._shift()
            self.reopen()
        except (OSError, StartError):
            # It goes on in the same file; the next line tries again.
            return

    def _shift(self) -> None:
        if self._files_max == 1:
            os.unlink(self.path)
            return

        for number in range(self._files_max - 1, 0, -1):
            older = f"{self.path}.{number}"
            newer = f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(newer):
                os.replace(newer, older)
