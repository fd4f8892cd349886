"""File descriptors: how many are open, how many there may be, and the alarm. Layer: net.

Invariant: the alarm is on exactly while the last sample was at the limit or above.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.pump import Pump

__all__ = ["DescriptorWatch", "descriptors_max", "open_descriptors"]

SAMPLE_INTERVAL_S: Final = 5.0

DIRECTORIES: Final = ("/proc/self/fd", "/dev/fd")


def open_descriptors() -> int | None:
    """How many file descriptors this process has; None where nobody can tell."""
    for directory in DIRECTORIES:
        try:
            # One of them is that of the listing.
            return len(os.listdir(directory)) - 1
        except OSError:
            continue

    return None


def descriptors_max() -> int | None:
    """How many it may have; None where there is no limit, or nobody can tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class DescriptorWatch:
    """Samples now and then, and tells when the limit is crossed, either way.

    Args:
        pump: whose loop runs the samples.
        set_alarm: told True when the limit is reached and False when it no longer is.
        limit: how many are too many.
        sample: counts them. When it cannot tell, all stays as it is.

    """

    def __init__(
        self,
        pump: Pump,
        set_alarm: Callable[[bool], None],
        limit: int,
        sample: Callable[[], int | None] = open_descriptors,
    ) -> None:
        self._pump = pump
        self._set_alarm = set_alarm
        self.limit = limit
        self._sample = sample
        self._is_over = False
        self._timer = pump.loop.call_later(SAMPLE_INTERVAL_S, self._on_timer)

    def stop(self) -> None:
        """Sample no more; the alarm stays as it is."""
        self._timer.cancel()

    def take_over(self, is_on: bool) -> None:
        """The alarm is as an earlier watch has left it."""
        self._is_over = is_on

    def check(self) -> None:
        """Take one sample now."""
        count = self._sample()
        if count is None:
            return

        is_over = count >= self.limit
        if is_over != self._is_over:
            self._is_over = is_over
            self._pump.run(lambda: self._set_alarm(is_over))

    def _on_timer(self) -> None:
        self._timer = self._pump.loop.call_later(SAMPLE_INTERVAL_S, self._on_timer)
        self.check()
