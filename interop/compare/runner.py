"""Runs many scenarios against one broker."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from interop.compare.session import Target, run_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interop.compare.catalogue import Scenario

__all__ = ["Runs"]

SLOW_AT_ONCE: Final = 24


class Runs:
    """Scenarios that wait for time to pass are begun at once, beside each other; the others when
    their transcript is asked for.
    """

    def __init__(self, target: Target, scenarios: Iterable[Scenario]) -> None:
        self._target = target
        self._pool = ThreadPoolExecutor(SLOW_AT_ONCE)
        self._slow: dict[str, Future[list[str]]] = {
            scenario.name: self._pool.submit(run_scenario, scenario, target)
            for scenario in scenarios
            if scenario.is_slow
        }

    def transcript(self, scenario: Scenario) -> list[str]:
        """The transcript of a scenario."""
        begun = self._slow.get(scenario.name)
        return begun.result() if begun else run_scenario(scenario, self._target)

    def close(self) -> None:
        """Wait for what is still running."""
        self._pool.shutdown()
