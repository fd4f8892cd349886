"""Results as tables, for a terminal and for a page."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from scripts.benchmark.measurement import HIGHER_IS_BETTER
from scripts.benchmark.results import LOAD_SUFFIX, Results, Series
from scripts.benchmark.targets import verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["facts_line", "notes", "render_markdown", "render_text", "tables"]

FOREIGN_CORES: Final = 0.1
"""More than this taken by other processes, and the figures say little."""
BUSY_CORES: Final = 0.5
"""A load generator that takes more than this of the machine is part of what was measured."""


def tables(results: Results) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each group of figures and each group of curves: its name, and rows with a heading."""
    for group in dict.fromkeys(results.groups[name] for name in results.series):
        yield group, _rows(results, group)

    curves = [curve for by_broker in results.curves.values() for curve in by_broker.values()]
    for group in dict.fromkeys(curve.group for curve in curves):
        yield group, _curve_rows(results, group)


def render_text(results: Results) -> str:
    """Lay the results out for a terminal."""
    lines: list[str] = []
    for group, rows in tables(results):
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines += [f"== {group}"] if group else []
        lines += [
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.append("")

    lines += notes(results)
    lines += [f"ERROR {error}" for error in results.errors]
    return "\n".join(lines) + "\n"


def render_markdown(results: Results, only: str = "") -> str:
    """Lay the results out for a page: one group, or all."""
    lines: list[str] = []
    for group, rows in tables(results):
        if only not in {"", group}:
            continue

        rule = ["---", *["---:"] * (len(rows[0]) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]]]
        lines.append("")

    legend = "Median ± half the range; without a range: measured once. ↓: less is better."
    lines.append(f"{legend} {facts_line(results)}.")
    lines += notes(results)
    lines += [f"\nFailed: {error}" for error in results.errors]
    return "\n".join(lines) + "\n"


def facts_line(results: Results) -> str:
    """Say what the figures were measured with."""
    keys = ("commit", "python", "cpu", "cores", "system", "rounds", "seconds", "scale", "time")
    return ", ".join(f"{key} {results.facts[key]}" for key in keys if key in results.facts)


def notes(results: Results) -> list[str]:
    """Say what may have disturbed the figures."""
    return [_load_note(results), _foreign_note(results)]


def _rows(results: Results, group: str) -> list[list[str]]:
    names = [
        name
        for name in results.series
        if results.groups[name] == group and not name.endswith(LOAD_SUFFIX)
    ]
    present = {broker for name in names for broker in results.series[name]}
    brokers = [broker for broker in results.brokers if broker in present]
    first, *others = brokers
    rows = [["scenario", "unit", *brokers, *[f"vs {other}" for other in others]]]
    verdicts = [""]
    for name in names:
        by_broker = results.series[name]
        unit = next(iter(by_broker.values())).unit
        cells = [_cell(by_broker.get(broker)) for broker in brokers]
        ratios = [_ratio(by_broker, first, other) for other in others]
        rows.append([name, unit, *cells, *ratios])
        medians = {broker: by_broker[broker].median for broker in brokers if broker in by_broker}
        verdicts.append(verdict_of(name, medians))

    if any(verdicts):
        verdicts[0] = "target met"
        rows = [[*row, verdict] for row, verdict in zip(rows, verdicts, strict=True)]

    return rows


def _curve_rows(results: Results, group: str) -> list[list[str]]:
    rows = [["scenario", "broker", "unit", "at: cost", "", "", "growth", "flat"]]
    for name, by_broker in results.curves.items():
        for broker, curve in by_broker.items():
            if curve.group != group:
                continue

            points = [f"{size:,}: {_number(cost)}" for size, cost in curve.costs.items()]
            points += [""] * (3 - len(points))
            growth, verdict = "-", "-"
            if group == "flat":
                growth = f"{curve.growth:+.0%}"
                verdict = "yes" if curve.is_flat else "NO"

            rows.append([name, broker, curve.unit, *points, growth, verdict])

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

    if len(series.values) == 1:
        # What was measured once has no spread, and not one of zero.
        return _number(series.median)

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
