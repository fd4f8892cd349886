"""What a node has of its machine and does to it, as numbers to sample (management layer)."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.management.site import Site
    from broker.metrics.totals import Totals

__all__ = ["MACHINE", "MACHINE_KEYS", "average_times", "machine_totals"]

MACHINE: Final = "machine"
"""By this the sampler knows these numbers."""

MACHINE_KEYS: Final = (
    "mem_used",
    "fd_used",
    "sockets_used",
    "disk_free",
    "gc_num",
    "context_switches",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
)


def machine_totals(site: Site) -> Totals:
    """The numbers of now: MACHINE_KEYS; 0 where something is not known."""
    machine = site.around.machine()
    disk = site.around.disk()
    return (
        machine.memory_bytes or 0,
        machine.descriptors or 0,
        len(site.node.connections),
        machine.disk_free_bytes or 0,
        sum(generation["collections"] for generation in gc.get_stats()),
        _context_switches(),
        disk.read_count,
        disk.read_bytes,
        disk.write_count,
        disk.write_bytes,
        disk.sync_count,
    )


def average_times(site: Site) -> dict[str, float]:
    """How long reads, writes and syncs take, in milliseconds."""
    disk = site.around.disk()
    return {
        "io_read_avg_time": _average_ms(disk.read_s, disk.read_count),
        "io_write_avg_time": _average_ms(disk.write_s, disk.write_count),
        "io_sync_avg_time": _average_ms(disk.sync_s, disk.sync_count),
    }


def _average_ms(total_s: float, count: int) -> float:
    return round(total_s * 1000 / count, 3) if count else 0.0


def _context_switches() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw
