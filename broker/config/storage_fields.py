"""The keys that say what is kept on disk, and when publishers are held back (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker.config.records import Key, Record, Values
from broker.config.schema import (
    DEFAULT_CONFIG,
    AlarmsConfig,
    DescriptorAlarmConfig,
    DiskAlarmConfig,
    MemoryAlarmConfig,
    StorageConfig,
)
from broker.config.shapes import JSON, Boolean, Choice, Nullable, Shape, Text
from broker.config.tree import Scalar
from broker.config.units import Size

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.tree import Node, Report

__all__ = ["ALARMS", "STORAGE"]

_D: Final = DEFAULT_CONFIG


class _Directory(Text):
    """The path of a directory, which need not be there yet."""

    def __init__(self) -> None:
        super().__init__("the path of a directory")

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if not node.text:
            return self.refuse(node, at, report, "write null for the usual place")

        if "\0" in node.text:
            return self.refuse(node, at, report, "a path has no zero bytes")

        return os.path.expanduser(node.text)


class _MemoryLimit(Shape[MemoryAlarmConfig]):
    """A share of the memory, a size, or null."""

    def __init__(self) -> None:
        super().__init__(
            "a share of the memory as 60%, a size as 512MiB, or null for no alarm",
            MemoryAlarmConfig(),
        )
        self._size = Size(2**20, 2**60)

    def read(self, node: Node, at: Keys, report: Report) -> MemoryAlarmConfig:
        if isinstance(node, Scalar):
            if node.value is None:
                return MemoryAlarmConfig(limit_fraction=None)

            percent = node.text.removesuffix("%").strip()
            if node.text.endswith("%") and percent.isdecimal() and 1 <= int(percent) <= 100:
                return MemoryAlarmConfig(limit_fraction=int(percent) / 100)

            if isinstance(node.value, float):
                return self.refuse(node, at, report, "write a share in percent: 60%")

        size = self._size.size_of(node)
        if size is None:
            return self.refuse(node, at, report, self._size.hint(node))

        if size < 2**20:
            return self.refuse(node, at, report, "less than 1MiB stops everything")

        return MemoryAlarmConfig(limit_fraction=None, limit_bytes=size)

    def json_schema(self) -> JSON:
        percent: JSON = {"type": "string", "pattern": "^[0-9]+%$"}
        return {"anyOf": [percent, self._size.json_schema(), {"type": "null"}]}


class _Share(Shape[float | None]):
    """A share in percent, or null."""

    def __init__(self) -> None:
        super().__init__("a share as 90%, or null for no alarm", None)

    def read(self, node: Node, at: Keys, report: Report) -> float | None:
        if not isinstance(node, Scalar):
            return self.refuse(node, at, report)

        percent = node.text.removesuffix("%").strip()
        if node.text.endswith("%") and percent.isdecimal() and 1 <= int(percent) <= 100:
            return int(percent) / 100

        return None if node.value is None else self.refuse(node, at, report)

    def json_schema(self) -> JSON:
        return {"anyOf": [{"type": "string", "pattern": "^[0-9]+%$"}, {"type": "null"}]}


STORAGE_DIRECTORY: Final = Key(
    "data_dir",
    Nullable(_Directory(), "the usual place"),
    _D.storage.data_dir,
    "The directory; a relative path starts at the configuration file. null is $LEVERET_DATA_DIR or,"
    " where that is not set, the place that programs of this system keep their data in:"
    " /var/lib/leveret for root, ~/.local/share/leveret for others.",
    written="null",
)
STORAGE_SYNC: Final = Key(
    "sync",
    Choice("group", "interval", "none"),
    _D.storage.sync,
    "When the disk is made to keep what was written: group before anything is confirmed, interval"
    " every 100 ms, none when the system likes. Only group loses nothing at a power cut.",
    written="group",
)
STORAGE_MEMORY_ONLY: Final = Key(
    "memory_only",
    Boolean(),
    _D.storage.memory_only,
    "Keep everything in memory, and nothing after the broker has ended.",
    written="false",
)
STORAGE_SEGMENT: Final = Key(
    "segment_size",
    Size(64 * 2**10, 2**30),
    _D.storage.segment_bytes,
    "Size of the files that messages are kept in; space is given back by whole files.",
    written="16MiB",
)

MEMORY_LIMIT: Final = Key(
    "limit",
    _MemoryLimit(),
    _D.alarms.memory,
    "Publishers are held back above this share (60%) or size (512MiB); null for never.",
    written="60%",
)
ALARMS_MEMORY: Final = Key(
    "memory",
    Record("the memory alarm", (MEMORY_LIMIT,), lambda v: v[MEMORY_LIMIT]),
    _D.alarms.memory,
    "When memory runs short.",
)
DISK_FREE_LIMIT: Final = Key(
    "free_limit",
    Nullable(Size(1, 2**60), "no alarm"),
    _D.alarms.disk.free_bytes_min,
    "Publishers are held back while less than this is free; null for never.",
    written="50MB",
)
ALARMS_DISK: Final = Key(
    "disk",
    Record(
        "the disk alarm",
        (DISK_FREE_LIMIT,),
        lambda v: DiskAlarmConfig(v[DISK_FREE_LIMIT]),
        {"limit": "write free_limit: it is about what is free, not what is used"},
    ),
    _D.alarms.disk,
    "When the file system of the data directory runs full.",
)


DESCRIPTOR_LIMIT: Final = Key(
    "limit",
    _Share(),
    _D.alarms.descriptors.limit_fraction,
    "The share of those that the process may have; null for no alarm.",
    written="90%",
)
ALARMS_DESCRIPTORS: Final = Key(
    "file_descriptors",
    Record(
        "the file descriptor alarm",
        (DESCRIPTOR_LIMIT,),
        lambda v: DescriptorAlarmConfig(v[DESCRIPTOR_LIMIT]),
    ),
    _D.alarms.descriptors,
    "When file descriptors run out, one of which each connection takes. It is seen and logged;"
    " nobody is held back by it.",
)


def _storage(values: Values) -> StorageConfig:
    return StorageConfig(
        data_dir=values[STORAGE_DIRECTORY],
        sync=values[STORAGE_SYNC],
        memory_only=values[STORAGE_MEMORY_ONLY],
        segment_bytes=values[STORAGE_SEGMENT],
    )


STORAGE: Final = Key(
    "storage",
    Record(
        "the storage",
        (STORAGE_DIRECTORY, STORAGE_SYNC, STORAGE_MEMORY_ONLY, STORAGE_SEGMENT),
        _storage,
        {
            "directory": "write data_dir",
            "path": "write data_dir",
            "dir": "write data_dir",
            "fsync": "write sync: group, interval or none",
        },
    ),
    _D.storage,
    "What survives a restart: durable exchanges and queues, persistent messages, users and rights.",
)
ALARMS: Final = Key(
    "alarms",
    Record(
        "the alarms",
        (ALARMS_MEMORY, ALARMS_DISK, ALARMS_DESCRIPTORS),
        lambda v: AlarmsConfig(v[ALARMS_MEMORY], v[ALARMS_DISK], v[ALARMS_DESCRIPTORS]),
    ),
    _D.alarms,
    "When the broker has too little of something.",
)
