"""Starts what watches the machine for the broker's alarms (rule MA-01). Layer: composition root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.descriptors import DescriptorWatch, descriptors_max, open_descriptors
from broker.net.disk import DiskWatch, free_bytes
from broker.net.memory import MemoryWatch, available_bytes, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.config.schema import AlarmsConfig
    from broker.core.node import Node
    from broker.net.pump import Pump

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["Watch", "start_watches"]

Watch = MemoryWatch | DiskWatch | DescriptorWatch


def start_watches(
    alarms: AlarmsConfig, node: Node, pump: Pump, data_dir: str | None, log: Log
) -> list[Watch]:
    """Watch what the configuration sets a limit for, the data directory only where there is one.

    It may be done again, with other limits, when those of before have been stopped: the alarms
    become what they are by the new ones.

    """
    watches: list[Watch | None] = [
        _watch_memory(alarms, node, pump, log),
        _watch_descriptors(alarms, node, pump, log),
    ]
    if data_dir is not None:
        watches.append(_watch_disk(alarms, node, pump, data_dir, log))

    return [watch for watch in watches if watch is not None]


def _watch_memory(alarms: AlarmsConfig, node: Node, pump: Pump, log: Log) -> MemoryWatch | None:
    memory = alarms.memory
    limit = memory.limit_bytes
    if memory.limit_fraction is not None:
        available = available_bytes()
        limit = None if available is None else int(available * memory.limit_fraction)

    if limit is None:
        node.set_alarm("memory", False)
        return None

    if resident_bytes() is None:
        log("warning", "memory.unknown", {"reason": "this system does not tell memory in use"})
        return None

    def tell(is_over: bool) -> None:
        if is_over:
            log("warning", "memory.over", {"used_bytes": resident_bytes(), "limit_bytes": limit})

        node.set_alarm("memory", is_over)

    watch = MemoryWatch(pump, tell, limit, on_short=node.memory_is_short)
    watch.take_over("memory" in node.alarms)
    watch.check()
    return watch


def _watch_disk(
    alarms: AlarmsConfig, node: Node, pump: Pump, path: str, log: Log
) -> DiskWatch | None:
    limit = alarms.disk.free_bytes_min
    if limit is None:
        node.set_alarm("disk", False)
        return None

    if free_bytes(path) is None:
        log("warning", "disk.unknown", {"reason": "this system does not tell what is free"})
        return None

    def tell(is_short: bool) -> None:
        if is_short:
            fields: dict[str, object] = {"path": path, "free_bytes": free_bytes(path)}
            log("warning", "disk.short", {**fields, "limit_bytes": limit})

        node.set_alarm("disk", is_short)

    watch = DiskWatch(pump, tell, limit, lambda: free_bytes(path))
    watch.take_over("disk" in node.alarms)
    watch.check()
    return watch


def _watch_descriptors(
    alarms: AlarmsConfig, node: Node, pump: Pump, log: Log
) -> DescriptorWatch | None:
    fraction = alarms.descriptors.limit_fraction
    maximum = descriptors_max()
    if fraction is None or maximum is None or open_descriptors() is None:
        node.set_alarm("descriptors", False, is_quiet=True)
        return None

    limit = int(maximum * fraction)

    def tell(is_over: bool) -> None:
        if is_over:
            fields: dict[str, object] = {"used": open_descriptors(), "limit": limit}
            log("warning", "descriptors.over", {**fields, "maximum": maximum})

        node.set_alarm("descriptors", is_over, is_quiet=True)

    watch = DescriptorWatch(pump, tell, limit)
    watch.take_over("descriptors" in node.quiet_alarms)
    watch.check()
    return watch
