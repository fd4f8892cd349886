"""Draws the charts of docs/figures and fills in docs/performance.md, from saved results.

A table stands between ``<!-- generated: GROUP -->`` and ``<!-- end -->``. The results are those of
docs/figures/standard.json, flat.json and micro.json; a group that none of them has stays as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from scripts.benchmark.brokers import ROOT
from scripts.benchmark.charts import Panel, bar_chart, line_panels
from scripts.benchmark.report import render_markdown
from scripts.benchmark.results import CPU_SUFFIX, LOAD_SUFFIX, Results, load_results
from scripts.benchmark.targets import GROWTH_MAX, LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FIGURES", "PAGE", "charts_of", "updated_page", "write_page"]

PAGE: Final = ROOT / "docs" / "performance.md"
FIGURES: Final = ROOT / "docs" / "figures"
SOURCES: Final = ("standard.json", "flat.json", "micro.json")

_BLOCK: Final = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_FAMILY: Final = re.compile(r"[a-z]+")


def write_page() -> list[Path]:
    """Write what follows from the results that are there; returns the files."""
    results = [load_results(FIGURES / name) for name in SOURCES if (FIGURES / name).exists()]
    written = []
    for found in results:
        for name, drawing in charts_of(found).items():
            path = FIGURES / name
            path.write_text(drawing, encoding="utf-8")
            written.append(path)

    page = updated_page(PAGE.read_text(encoding="utf-8"), results)
    PAGE.write_text(page, encoding="utf-8")
    return [*written, PAGE]


def updated_page(page: str, results: list[Results]) -> str:
    """The page with each table that there are results for."""

    def replace(match: re.Match[str]) -> str:
        group = match.group(2)
        for found in results:
            if group in _groups(found):
                images = [f"![{name}](figures/{name})\n" for name in charts_of(found, only=group)]
                table = render_markdown(found, group)
                return "\n".join([match.group(1), *images, table, match.group(3)])

        return match.group(0)

    return _BLOCK.sub(replace, page)


def _groups(results: Results) -> set[str]:
    curves = (curve for by_broker in results.curves.values() for curve in by_broker.values())
    return set(results.groups.values()) | {curve.group for curve in curves}


def charts_of(results: Results, only: str = "") -> dict[str, str]:
    """The drawings of all groups that have one, or of one group, by file name."""
    drawings: dict[str, str] = {}
    for group, name, draw in _CHARTS:
        if only in {"", group} and group in _groups(results):
            drawings[name] = draw(results)

    return drawings


def _bars(results: Results, group: str, title: str, is_wanted: Callable[[str], bool]) -> str:
    names = [
        name
        for name, found in results.groups.items()
        if found == group and not name.endswith((CPU_SUFFIX, LOAD_SUFFIX)) and is_wanted(name)
    ]
    bars = {
        broker: {
            name: results.series[name][broker].median
            for name in names
            if broker in results.series[name]
        }
        for broker in results.brokers
    }
    shown = {broker: values for broker, values in bars.items() if values}
    return bar_chart(title, names, shown, is_logarithmic=True)


def _throughput(results: Results) -> str:
    return _bars(results, "throughput", "Messages a second", lambda _: True)


def _durable(results: Results) -> str:
    title = "Persistent messages of 1 KB a second"
    return _bars(results, "durable", title, lambda name: "-confirm-" not in name)


def _confirms(results: Results) -> str:
    title = "Milliseconds from publish to confirm"
    return _bars(results, "durable", title, lambda name: "-confirm-" in name)


def _fair(results: Results) -> str:
    title = "Milliseconds beside a publisher at full blast"
    return _bars(
        results, "latency", title, lambda name: name.startswith("fair-") and name != "fair-blast"
    )


def _memory(results: Results) -> str:
    """Each figure as a part of what it may be."""
    bars: dict[str, dict[str, float]] = {}
    for name, limit in LIMITS.items():
        for broker, series in results.series.get(name, {}).items():
            if broker.startswith("Leveret"):
                bars.setdefault(broker, {})[name] = series.median / limit * 100

    names = [name for name in LIMITS if any(name in by_name for by_name in bars.values())]
    return bar_chart("Per cent of what it may be", names, bars)


def _flat(results: Results) -> str:
    families: dict[str, dict[str, dict[int, float]]] = {}
    for name, by_broker in results.curves.items():
        for curve in by_broker.values():
            costs = curve.costs
            first = next(iter(costs.values()))
            if curve.group != "flat" or not first:
                continue

            family = _FAMILY.match(name)
            assert family is not None
            relative = {size: cost / first for size, cost in costs.items()}
            families.setdefault(family.group(), {})[name] = relative
            break

    panels = [Panel(family, curves) for family, curves in families.items()]
    title = "CPU a message, relative to the smallest size; dashed: 20 % more"
    return line_panels(title, panels, 1 + GROWTH_MAX)


_CHARTS: Final[tuple[tuple[str, str, Callable[[Results], str]], ...]] = (
    ("throughput", "throughput.svg", _throughput),
    ("durable", "durable.svg", _durable),
    ("durable", "confirms.svg", _confirms),
    ("latency", "fair.svg", _fair),
    ("memory", "limits.svg", _memory),
    ("flat", "flat.svg", _flat),
)
