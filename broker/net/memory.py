"""Watches the memory of this process and raises the memory alarm (rule MA-01). Layer: net.

Invariant: the alarm is on exactly while the last sample was at or over the limit.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.pump import Pump

__all__ = ["MemoryWatch", "available_bytes", "keep_freed_memory", "resident_bytes"]

SAMPLE_INTERVAL_S: Final = 1.0
"""A sample costs some 20 us; a 10 Gbit/s publisher can add about a gigabyte between two."""

CGROUP_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def resident_bytes() -> int | None:
    """How much physical memory this process occupies; None where nobody can tell."""
    if sys.platform == "linux":
        return _resident_linux()

    if sys.platform == "darwin":
        return _resident_darwin()

    if sys.platform == "win32":
        return _resident_windows()

    return None


def available_bytes() -> int | None:
    """How much memory this process could have: the machine's, or less where a cgroup bounds it."""
    candidates = [value for value in (_machine_bytes(), *map(_read_limit, CGROUP_LIMITS)) if value]
    return min(candidates, default=None)


ALLOCATOR_OPTIONS: Final = (
    (-1, 256 * 1024 * 1024),  # M_TRIM_THRESHOLD: free bytes at the end of the heap that may stay
    (-2, 16 * 1024 * 1024),  # M_TOP_PAD: by how much the heap grows and what stays in a trim
    (-3, 32 * 1024 * 1024),  # M_MMAP_THRESHOLD: smaller blocks come from the heap
)
"""Options of glibc's mallopt, numbered as in its malloc.h."""

SHORT_FRACTION: Final = 0.75
"""Of the limit: from here on memory is short, and messages go to the disk that need not be here."""

TRIM_CHECKS: Final = 30
TRIM_GROWTH_BYTES: Final = 16 * 1024 * 1024
"""Memory that has grown by so much since the last trim, for so many samples, is worth one."""

TRIM_CHECKS_MAX: Final = 20 * 60
"""Whatever it has done, a trim comes after so many samples: what was in use at the last one may be
free now. They come the less often, the less there was to give back."""

TRIM_FLOOR_BYTES: Final = 64 * 1024 * 1024
"""A process as small as that has nothing worth looking for."""


class MemoryWatch:
    """Samples once a second and tells the broker when the limit is crossed, either way.

    Args:
        pump: whose loop runs the samples.
        set_alarm: told True when the limit is reached and False when it no longer is.
        limit_bytes: the limit.
        sample: reads the memory in use.
        on_short: called with each sample that comes near the limit.

    """

    def __init__(
        self,
        pump: Pump,
        set_alarm: Callable[[bool], None],
        limit_bytes: int,
        sample: Callable[[], int | None] = resident_bytes,
        on_short: Callable[[], None] | None = None,
    ) -> None:
        self._pump = pump
        self._set_alarm = set_alarm
        self._limit_bytes = limit_bytes
        self._sample = sample
        self._on_short = on_short
        self._is_over = False
        self._trimmed_bytes = 0
        self._checks_since_trim = 0
        self._patience = TRIM_CHECKS
        self._timer = pump.loop.call_later(SAMPLE_INTERVAL_S, self._on_timer)
        self._trim = _find_trim()

    @property
    def limit_bytes(self) -> int:
        """The limit."""
        return self._limit_bytes

    def stop(self) -> None:
        """Sample no more; the alarm stays as it is."""
        self._timer.cancel()

    def take_over(self, is_on: bool) -> None:
        """The alarm is as an earlier watch has left it."""
        self._is_over = is_on

    def check(self) -> None:
        """Take one sample now."""
        used = self._sample()
        if used is not None and self._trim is not None:
            if used >= self._limit_bytes:
                # What is free but kept for later would hold the alarm up for ever, and so would
                # garbage that is not old: while nothing moves, the collector does not come.
                gc.collect(1)
                self._trim(0)
                used = self._sample()
            elif self._is_worth_a_trim(used):
                # What a load has left behind goes back to the system; what is in use does not
                # move, so the cost is that of looking.
                self._trim(0)
                used = self._trimmed(used)

        if used is not None and used >= self._limit_bytes * SHORT_FRACTION and self._on_short:
            self._pump.run(self._on_short)

        is_over = used is not None and used >= self._limit_bytes
        if is_over != self._is_over:
            self._is_over = is_over
            self._pump.run(lambda: self._set_alarm(is_over))

    def _is_worth_a_trim(self, used: int) -> bool:
        self._checks_since_trim += 1
        if used > self._trimmed_bytes + TRIM_GROWTH_BYTES:
            return self._checks_since_trim >= TRIM_CHECKS

        return self._checks_since_trim >= self._patience and used > TRIM_FLOOR_BYTES

    def _trimmed(self, before: int) -> int | None:
        """See what a trim has brought."""
        used = self._sample()
        self._trimmed_bytes = used or 0
        self._checks_since_trim = 0
        has_helped = before - self._trimmed_bytes >= TRIM_GROWTH_BYTES
        self._patience = TRIM_CHECKS if has_helped else min(2 * self._patience, TRIM_CHECKS_MAX)
        return used

    def _on_timer(self) -> None:
        self._timer = self._pump.loop.call_later(SAMPLE_INTERVAL_S, self._on_timer)
        self.check()


def _resident_linux() -> int | None:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _resident_darwin() -> int | None:
    import ctypes

    # struct rusage_info_v0: a 16-byte uuid, then 64-bit numbers; the seventh is ri_resident_size.
    numbers_before = 6
    buffer = (ctypes.c_uint64 * 32)()
    try:
        proc_pid_rusage = ctypes.CDLL(None).proc_pid_rusage
    except (OSError, AttributeError):
        return None

    if proc_pid_rusage(os.getpid(), 0, ctypes.byref(buffer)) != 0:
        return None

    return int(buffer[2 + numbers_before])


def _resident_windows() -> int | None:
    import ctypes

    class Counters(ctypes.Structure):
        _fields_ = (
            ("cb", ctypes.c_uint32),
            ("PageFaultCount", ctypes.c_uint32),
            *((f"size_{position}", ctypes.c_size_t) for position in range(8)),
        )

    counters = Counters()
    counters.cb = ctypes.sizeof(counters)
    try:
        kernel = ctypes.CDLL("kernel32")
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        read = kernel.K32GetProcessMemoryInfo
        read.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    except (OSError, AttributeError):
        return None

    if not read(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.cb):
        return None

    return int(counters.size_1)  # PeakWorkingSetSize is the first, WorkingSetSize the second


def _machine_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _read_limit(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):  # no cgroup, or "max"
        return None


def _find_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None

    import ctypes

    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library than glibc
        return None

    return trim


def keep_freed_memory() -> bool:
    """Let the allocator keep what is freed, for the next read; whether it could be told so.

    Every read of a socket takes 256 KiB and gives most of it back. Left to itself, glibc hands the
    end of the heap to the system each time and faults it in again, page by page: with bodies of
    64 KiB that was half of all the broker did (157 us a message, 67 without). `MemoryWatch` gives
    back what a load leaves behind.
    """
    if sys.platform != "linux":
        return False

    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than glibc
        return False

    return all(mallopt(option, value) == 1 for option, value in ALLOCATOR_OPTIONS)
