"""A disk that counts what is done to it, and how long that takes.

Reads happen in the broker's own thread, writes and syncs in the one that writes: each number has
one writer, and whoever looks at them may see one that is a moment old.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from time import perf_counter
from typing import TYPE_CHECKING

from broker.store.disk import SystemDisk, SystemFile, open_descriptor

if TYPE_CHECKING:
    from broker.store.disk import File

__all__ = ["SYNC_BOUNDS_S", "CountedDisk", "DiskCounts"]

SYNC_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Upper bounds of the classes of how long a sync takes."""


class DiskCounts:
    """What has been done to a disk."""

    __slots__ = (
        "read_bytes",
        "read_count",
        "read_s",
        "sync_classes",
        "sync_count",
        "sync_s",
        "write_bytes",
        "write_count",
        "write_s",
    )

    def __init__(self) -> None:
        self.read_count = 0
        self.read_bytes = 0
        self.read_s = 0.0
        self.write_count = 0
        self.write_bytes = 0
        self.write_s = 0.0
        self.sync_count = 0
        self.sync_s = 0.0
        self.sync_classes = [0] * (len(SYNC_BOUNDS_S) + 1)


class CountedFile(SystemFile):
    """A file of the operating system that counts."""

    __slots__ = ("_counts",)

    def __init__(self, descriptor: int, counts: DiskCounts) -> None:
        super().__init__(descriptor)
        self._counts = counts

    def read_at(self, size: int, offset: int) -> bytes:
        start_s = perf_counter()
        data = super().read_at(size, offset)
        counts = self._counts
        counts.read_s += perf_counter() - start_s
        counts.read_count += 1
        counts.read_bytes += len(data)
        return data

    def write_at(self, data: bytes, offset: int) -> None:
        start_s = perf_counter()
        super().write_at(data, offset)
        counts = self._counts
        counts.write_s += perf_counter() - start_s
        counts.write_count += 1
        counts.write_bytes += len(data)

    def sync(self) -> None:
        start_s = perf_counter()
        super().sync()
        taken_s = perf_counter() - start_s
        counts = self._counts
        counts.sync_s += taken_s
        counts.sync_count += 1
        counts.sync_classes[bisect_left(SYNC_BOUNDS_S, taken_s)] += 1


class CountedDisk(SystemDisk):
    """The file system of this machine.

    Attributes:
        counts: what was done to it.

    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = DiskCounts()

    def create(self, path: str) -> File:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        return CountedFile(open_descriptor(path, flags), self.counts)

    def open(self, path: str) -> File:
        return CountedFile(open_descriptor(path, os.O_RDWR), self.counts)
