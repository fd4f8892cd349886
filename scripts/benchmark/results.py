"""What was measured, from the first figure to the file and back."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from scripts.benchmark.brokers import commit_name
from scripts.benchmark.machine import describe_machine
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.targets import GROWTH_MAX, growth_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["CPU_SUFFIX", "LOAD_SUFFIX", "Curve", "Results", "Series", "load_results"]

FORMAT: Final = 2
CPU_SUFFIX: Final = " cpu"
LOAD_SUFFIX: Final = " load"


class Series(NamedTuple):
    """The figures of one name on one broker, one for each round."""

    unit: str
    values: list[float]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the distance from the smallest to the largest, as a part of the median."""
        if not self.median:
            return 0.0

        return (max(self.values) - min(self.values)) / 2 / abs(self.median)


class Curve(NamedTuple):
    """The figures of one name on one broker at several sizes."""

    group: str
    wall: dict[int, Series]
    cpu: dict[int, Series]

    @property
    def costs(self) -> dict[int, float]:
        """Medians by size: of the processor's time where it is known, else of the wall's."""
        return {
            size: self.cpu.get(size, series).median for size, series in sorted(self.wall.items())
        }

    @property
    def unit(self) -> str:
        """The unit of the costs."""
        return next(iter((self.cpu or self.wall).values())).unit

    @property
    def growth(self) -> float:
        """How much dearer it becomes, as a part of the cheapest smaller size."""
        return growth_of(list(self.costs.values()))

    @property
    def is_flat(self) -> bool:
        """Whether it costs the same at any size, as far as we care."""
        return self.growth <= GROWTH_MAX


_Table: TypeAlias = dict[str, dict[str, Series]]


class Results:
    """Everything that was measured: by figure, then by broker."""

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self.series: _Table = {}
        self.groups: dict[str, str] = {}
        """The group of each figure."""
        self.curves: dict[str, dict[str, Curve]] = {}
        self.errors: list[str] = []
        self.facts: dict[str, object] = {}
        self.foreign_cores: list[float] = []
        """What other processes took of the machine during each run."""

    def add(
        self, broker: str, measurement: Measurement, group: str = "", variant: str = ""
    ) -> None:
        """Keep one figure, and the CPU figures that came with it."""
        column = f"{broker} {variant}" if variant else broker
        if column not in self.brokers:
            self.brokers.insert(self.brokers.index(broker) + 1, column)

        if measurement.size is not None:
            self._add_point(column, measurement, group)
            return

        self._append(group, column, measurement)
        if measurement.cpu_s_per_million is not None:
            name = measurement.name + CPU_SUFFIX
            self._append(group, column, Measurement(name, measurement.cpu_s_per_million, "s/M"))

        if measurement.client_cpu_share is not None:
            name = measurement.name + LOAD_SUFFIX
            self._append(group, column, Measurement(name, measurement.client_cpu_share, "cores"))

    def _append(self, group: str, column: str, measurement: Measurement) -> None:
        self.groups[measurement.name] = group
        by_broker = self.series.setdefault(measurement.name, {})
        by_broker.setdefault(column, Series(measurement.unit, [])).values.append(measurement.value)

    def _add_point(self, column: str, measurement: Measurement, group: str) -> None:
        by_broker = self.curves.setdefault(measurement.name, {})
        curve = by_broker.setdefault(column, Curve(group, {}, {}))
        size = measurement.size
        assert size is not None
        curve.wall.setdefault(size, Series(measurement.unit, [])).values.append(measurement.value)
        if measurement.cpu_s_per_million is not None:
            # Seconds a million are microseconds each.
            cpu = curve.cpu.setdefault(size, Series("us", []))
            cpu.values.append(measurement.cpu_s_per_million)

    def describe(self, options: Options, rounds: int, python: str) -> None:
        """Note what the figures were measured with."""
        self.facts = {
            "format": FORMAT,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": commit_name(),
            "python": _python_version(python),
            "load_generator_python": platform.python_version(),
            **describe_machine(),
            "rounds": rounds,
            **options._asdict(),
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        data = {
            **self.facts,
            "brokers": self.brokers,
            "errors": self.errors,
            "foreign_cores": [round(cores, 3) for cores in self.foreign_cores],
            "groups": self.groups,
            "results": {
                name: {
                    broker: {
                        "unit": series.unit,
                        "median": series.median,
                        "spread": series.spread,
                        "values": series.values,
                    }
                    for broker, series in by_broker.items()
                }
                for name, by_broker in self.series.items()
            },
            "curves": {
                name: {broker: _plain_curve(curve) for broker, curve in by_broker.items()}
                for name, by_broker in self.curves.items()
            },
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _plain_curve(curve: Curve) -> dict[str, object]:
    return {
        "group": curve.group,
        "growth": curve.growth,
        "is_flat": curve.is_flat,
        "points": [
            {
                "size": size,
                "unit": wall.unit,
                "values": wall.values,
                **({"cpu_us": curve.cpu[size].values} if size in curve.cpu else {}),
            }
            for size, wall in sorted(curve.wall.items())
        ],
    }


def _python_version(python: str) -> str:
    done = subprocess.run([python, "--version"], check=False, capture_output=True, text=True)
    return done.stdout.strip().removeprefix("Python ")


def load_results(path: Path) -> Results:
    """Read results back from JSON."""
    data = json.loads(path.read_text(encoding="utf-8"))
    results = Results(data.pop("brokers"))
    results.errors = data.pop("errors")
    results.foreign_cores = data.pop("foreign_cores")
    results.groups = data.pop("groups")
    results.series = {
        name: {broker: Series(found["unit"], found["values"]) for broker, found in row.items()}
        for name, row in data.pop("results").items()
    }
    results.curves = {
        name: {
            broker: Curve(
                found["group"],
                {one["size"]: Series(one["unit"], one["values"]) for one in found["points"]},
                {
                    one["size"]: Series("us", one["cpu_us"])
                    for one in found["points"]
                    if "cpu_us" in one
                },
            )
            for broker, found in row.items()
        }
        for name, row in data.pop("curves").items()
    }
    results.facts = data
    return results
