"""Runs many scenarios against one broker."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from interop.compare.session import Target, run_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interop.compare.catalogue import Scenario

__all__ = ["Runs"]

SLOW_AT_ONCE: Final = 24
AT_ONCE: Final = 6


class Runs:
    """Scenarios that wait for time to pass are begun at once, beside each other; the others when
    their transcript is asked for, or beside each other too where most of it is waiting. Scenarios
    that have to be alone wait for all that have begun.

    Args:
        target: the broker.
        scenarios: all that may be asked for.
        is_waiting: whether each waits for silence often, as with RabbitMQ.

    """

    def __init__(
        self, target: Target, scenarios: Iterable[Scenario], *, is_waiting: bool = False
    ) -> None:
        self._target = target
        self._slow_pool = ThreadPoolExecutor(SLOW_AT_ONCE)
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._begun: dict[str, Future[list[str]]] = {}
        for scenario in scenarios:
            if (scenario.is_slow or is_waiting) and not scenario.is_alone:
                pool = self._slow_pool if scenario.is_slow else self._pool
                self._begun[scenario.name] = pool.submit(run_scenario, scenario, target)

    def transcript(self, scenario: Scenario) -> list[str]:
        """The transcript of a scenario."""
        if scenario.is_alone:
            wait(self._begun.values())

        begun = self._begun.get(scenario.name)
        return begun.result() if begun else run_scenario(scenario, self._target)

    def close(self) -> None:
        """Wait for what is still running."""
        self._slow_pool.shutdown()
        self._pool.shutdown()
