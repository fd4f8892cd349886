"""What the broker has of its machine, for whoever shows it. Layer: rim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metrics.snapshot import DiskReading, MachineReading
from broker.net.descriptors import descriptors_max, open_descriptors
from broker.net.disk import DiskWatch, free_bytes
from broker.net.memory import MemoryWatch, resident_bytes
from broker.store.counted import SYNC_BOUNDS_S

if TYPE_CHECKING:
    from broker.store.counted import DiskCounts
    from broker.watches import Watch

__all__ = ["read_disk", "read_machine"]


def read_machine(watches: list[Watch], data_directory: str | None) -> MachineReading:
    """Memory, free space and file descriptors, each with its limit.

    Args:
        watches: know the limits.
        data_directory: whose file system counts; None where nothing is kept.

    """
    memory_limit: int | None = None
    disk_limit: int | None = None
    for watch in watches:
        if isinstance(watch, MemoryWatch):
            memory_limit = watch.limit_bytes
        elif isinstance(watch, DiskWatch):
            disk_limit = watch.limit_bytes

    return MachineReading(
        memory_bytes=resident_bytes(),
        memory_limit_bytes=memory_limit,
        disk_free_bytes=None if data_directory is None else free_bytes(data_directory),
        disk_limit_bytes=disk_limit,
        descriptors=open_descriptors(),
        descriptors_max=descriptors_max(),
    )


def read_disk(counts: DiskCounts | None) -> DiskReading:
    """What the logs have done to the disk; nothing where there are none."""
    if counts is None:
        return DiskReading()

    return DiskReading(
        read_count=counts.read_count,
        read_bytes=counts.read_bytes,
        read_s=counts.read_s,
        write_count=counts.write_count,
        write_bytes=counts.write_bytes,
        write_s=counts.write_s,
        sync_count=counts.sync_count,
        sync_s=counts.sync_s,
        sync_classes=tuple(counts.sync_classes),
        sync_bounds_s=SYNC_BOUNDS_S,
    )
