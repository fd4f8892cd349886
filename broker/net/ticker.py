"""Calls into the core now and then. Layer: net."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.pump import Pump

__all__ = ["Ticker"]


class Ticker:
    """Runs something in the core at an interval, until it is stopped.

    Args:
        pump: drives the core.
        interval_s: from one time to the next.
        action: what to run.

    """

    def __init__(self, pump: Pump, interval_s: float, action: Callable[[], None]) -> None:
        self._pump = pump
        self._interval_s = interval_s
        self._action = action
        self._timer = pump.loop.call_later(interval_s, self._on_timer)

    def stop(self) -> None:
        """Run it no more."""
        self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer = self._pump.loop.call_later(self._interval_s, self._on_timer)
        self._pump.run(self._action)
