"""Runs scenarios on brokers, round by round, within a time that was set."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from scripts.benchmark.brokers import Broker, Leveret
from scripts.benchmark.client import BrokerError
from scripts.benchmark.machine import ForeignWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.benchmark.measurement import Options
    from scripts.benchmark.results import Results
    from scripts.benchmark.scenarios import Scenario

__all__ = ["Runner"]


class Runner:
    """Measures, and puts what it finds into the results.

    Args:
        scenarios: in this order.
        brokers: each scenario runs on all of them, one straight after the other.
        options: how long and how many.
        results: take the figures.
        limit_s: what has not begun by then is left out, and said to be.

    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        brokers: Sequence[Broker],
        options: Options,
        results: Results,
        limit_s: float,
    ) -> None:
        self._scenarios = scenarios
        self._brokers = brokers
        self._options = options
        self._results = results
        self._deadline = time.monotonic() + limit_s
        self._left_out = 0

    def run_round(self, number: int) -> None:
        """Run each scenario on each broker; every other round the brokers come in reverse order."""
        order = list(reversed(self._brokers)) if number % 2 else list(self._brokers)
        for scenario in self._scenarios:
            for broker in order:
                if not self._is_wanted(scenario, broker, number):
                    continue

                if time.monotonic() > self._deadline:
                    self._left_out += 1
                    continue

                self._run(number, scenario, broker)

    def end(self) -> None:
        """Say what was left out."""
        if self._left_out:
            self._results.errors.append(f"out of time: {self._left_out} runs were left out")

    def _is_wanted(self, scenario: Scenario, broker: Broker, number: int) -> bool:
        is_ours = isinstance(broker, Leveret)
        if scenario.ours_only and not is_ours:
            return False

        return not scenario.once or (number == 0 and broker is self._brokers[0])

    def _run(self, number: int, scenario: Scenario, broker: Broker) -> None:
        name = f"{scenario.name} {scenario.variant}".rstrip()
        sys.stderr.write(f"round {number + 1}: {name} on {broker.name} ")
        sys.stderr.flush()
        begin = time.monotonic()
        try:
            with broker.run() as running:
                if scenario.needs_pids and not running.pids:
                    sys.stderr.write("cannot be seen\n")
                    return

                watch = ForeignWork(running.pids)
                measurements = scenario.run(running, self._options)
                if (cores := watch.cores()) is not None:
                    self._results.foreign_cores.append(cores)
        except (BrokerError, OSError) as error:
            self._results.errors.append(f"{name} on {broker.name}: {error}")
            sys.stderr.write(f"FAILED: {error}\n")
            return

        for measurement in measurements:
            self._results.add(broker.name, measurement, scenario.group, scenario.variant)

        figures = (
            f"{one.name}{'' if one.size is None else f' at {one.size:,}'} "
            f"{one.value:,.5g} {one.unit}"
            for one in measurements
        )
        sys.stderr.write(f"({time.monotonic() - begin:.1f} s) {', '.join(figures)}\n")
