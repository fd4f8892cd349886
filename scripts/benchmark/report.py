"""Results: gathered, written as JSON, printed as a table."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from scripts.benchmark.brokers import commit_name
from scripts.benchmark.machine import describe_machine
from scripts.benchmark.measurement import HIGHER_IS_BETTER, Measurement, Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Results", "Series", "load_results", "render_markdown", "render_text"]

FORMAT: Final = 1
CPU_SUFFIX: Final = " cpu"
LOAD_SUFFIX: Final = " load"
FOREIGN_CORES: Final = 0.1
"""More than this taken by other processes, and the figures say little."""
BUSY_CORES: Final = 0.5
"""A load generator that takes more than this of the machine is part of what was measured."""


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


_Table: TypeAlias = dict[str, dict[str, Series]]


class Results:
    """Everything that was measured: by figure, then by broker."""

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self.series: _Table = {}
        self.errors: list[str] = []
        self.facts: dict[str, object] = {}
        self.foreign_cores: list[float] = []
        """What other processes took of the machine during each run."""

    def add(self, broker: str, measurement: Measurement) -> None:
        """Keep one figure, and the CPU figures that came with it."""
        self._append(measurement.name, broker, measurement.unit, measurement.value)
        if measurement.cpu_s_per_million is not None:
            name = measurement.name + CPU_SUFFIX
            self._append(name, broker, "s/M", measurement.cpu_s_per_million)

        if measurement.client_cpu_share is not None:
            name = measurement.name + LOAD_SUFFIX
            self._append(name, broker, "cores", measurement.client_cpu_share)

    def _append(self, name: str, broker: str, unit: str, value: float) -> None:
        by_broker = self.series.setdefault(name, {})
        by_broker.setdefault(broker, Series(unit, [])).values.append(value)

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
        }
        path.write_text(json.dumps(data, indent=1) + "\n")


def _python_version(python: str) -> str:
    done = subprocess.run([python, "--version"], check=False, capture_output=True, text=True)
    return done.stdout.strip().removeprefix("Python ")


def load_results(path: Path) -> Results:
    """Read results back from JSON."""
    data = json.loads(path.read_text())
    results = Results(data["brokers"])
    results.errors = data["errors"]
    results.foreign_cores = data["foreign_cores"]
    results.facts = {
        key: value
        for key, value in data.items()
        if key not in {"brokers", "errors", "foreign_cores", "results"}
    }
    results.series = {
        name: {broker: Series(found["unit"], found["values"]) for broker, found in row.items()}
        for name, row in data["results"].items()
    }
    return results


def render_text(results: Results) -> str:
    """Lay the results out for a terminal."""
    rows = _rows(results)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines += ["", _load_note(results), _foreign_note(results)]
    lines += [f"ERROR {error}" for error in results.errors]
    return "\n".join(lines) + "\n"


def render_markdown(results: Results) -> str:
    """Lay the results out for docs/performance.md."""
    rows = _rows(results)
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    lines = ["| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]]]
    keys = ("commit", "python", "cpu", "cores", "system", "rounds", "seconds", "time")
    facts = ", ".join(f"{key} {results.facts[key]}" for key in keys if key in results.facts)
    lines += [
        "",
        f"Median ± half the range. ↓: less is better. {facts}.",
        _load_note(results),
        _foreign_note(results),
    ]
    lines += [f"\nFailed: {error}" for error in results.errors]
    return "\n".join(lines) + "\n"


def _rows(results: Results) -> list[list[str]]:
    first, *others = results.brokers
    rows = [["scenario", "unit", *results.brokers, *[f"vs {other}" for other in others]]]
    for name, by_broker in results.series.items():
        if name.endswith(LOAD_SUFFIX):
            continue

        unit = next(iter(by_broker.values())).unit
        cells = [_cell(by_broker.get(broker)) for broker in results.brokers]
        ratios = [_ratio(by_broker, first, other) for other in others]
        rows.append([name, unit, *cells, *ratios])

    return rows


def _load_note(results: Results) -> str:
    """Say which figures are as much the load generator's as the broker's."""
    busy = [
        f"{name.removesuffix(LOAD_SUFFIX)} on {broker} ({series.median:.2f})"
        for name, by_broker in results.series.items()
        if name.endswith(LOAD_SUFFIX)
        for broker, series in by_broker.items()
        if series.median > BUSY_CORES
    ]
    if not busy:
        return f"The load generator never took more than {BUSY_CORES} cores."

    return f"Cores taken by the load generator: {', '.join(busy)}."


def _foreign_note(results: Results) -> str:
    """Say whether the machine was ours."""
    if not results.foreign_cores:
        return "What other processes took of the machine is not known."

    middle, most = statistics.median(results.foreign_cores), max(results.foreign_cores)
    verdict = "DISTURBED: other" if middle > FOREIGN_CORES else "Other"
    return f"{verdict} processes took {middle:.2f} cores (median of the runs; at most {most:.2f})."


def _cell(series: Series | None) -> str:
    if series is None:
        return "-"

    return f"{_number(series.median)} ±{series.spread:.0%}"


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"

    return f"{value:.3g}"


def _ratio(by_broker: Mapping[str, Series], first: str, other: str) -> str:
    """Say how the first broker does against another; an arrow marks where less is better."""
    if first not in by_broker or other not in by_broker or not by_broker[other].median:
        return "-"

    ratio = by_broker[first].median / by_broker[other].median
    mark = "" if by_broker[first].unit in HIGHER_IS_BETTER else " ↓"
    return f"{ratio:.2f}{mark}"
