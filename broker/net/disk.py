"""Watches the free space of the data directory and raises the disk alarm (rule MA-01). Layer: net.

Invariant: the alarm is on exactly while the last sample was below the limit.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.pump import Pump

__all__ = ["DiskWatch", "free_bytes"]

FREE_SAMPLE_INTERVAL_S: Final = 2.0
"""A sample costs a few microseconds. A disk that writes 1 GB/s can take in two gigabytes between
two: with less than that as the limit the log meets the end of the disk itself, and waits there."""


def free_bytes(path: str) -> int | None:
    """What this process may still write there; None where nobody can tell."""
    try:
        if not hasattr(os, "statvfs"):  # Windows
            import shutil

            return shutil.disk_usage(path).free

        facts = os.statvfs(path)
    except OSError:
        return None

    # What is kept back for root is not counted, not even for root.
    return facts.f_bavail * facts.f_frsize


class DiskWatch:
    """Samples every two seconds and tells the broker when the limit is crossed, either way.

    Args:
        pump: whose loop runs the samples.
        set_alarm: told True when less than the limit is free and False when it no longer is.
        limit_bytes: the limit.
        sample: reads what is free. When it cannot tell, all stays as it is.

    """

    def __init__(
        self,
        pump: Pump,
        set_alarm: Callable[[bool], None],
        limit_bytes: int,
        sample: Callable[[], int | None],
    ) -> None:
        self._pump = pump
        self._set_alarm = set_alarm
        self._limit_bytes = limit_bytes
        self._sample = sample
        self._is_short = False
        self._timer = pump.loop.call_later(FREE_SAMPLE_INTERVAL_S, self._on_timer)

    @property
    def limit_bytes(self) -> int:
        """The limit."""
        return self._limit_bytes

    def stop(self) -> None:
        """Sample no more; the alarm stays as it is."""
        self._timer.cancel()

    def take_over(self, is_on: bool) -> None:
        """The alarm is as an earlier watch has left it."""
        self._is_short = is_on

    def check(self) -> None:
        """Take one sample now."""
        free = self._sample()
        if free is None:
            return

        is_short = free < self._limit_bytes
        if is_short != self._is_short:
            self._is_short = is_short
            self._pump.run(lambda: self._set_alarm(is_short))

    def _on_timer(self) -> None:
        self._timer = self._pump.loop.call_later(FREE_SAMPLE_INTERVAL_S, self._on_timer)
        self.check()
