"""Bar and line charts as SVG: text only, readable on a light and on a dark page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Panel", "bar_chart", "line_panels"]

COLOURS: Final = (
    "#2f6fde",
    "#8fb4f5",
    "#d9822b",
    "#f0b978",
    "#7a4fb5",
    "#b89be0",
    "#2e9e6b",
    "#97d3b5",
)
INK: Final = "#3b4252"
GRID: Final = "#d8dde6"
PAPER: Final = "#ffffff"
FONT: Final = "font-family='Helvetica, Arial, sans-serif'"

WIDTH: Final = 820
LABEL_WIDTH: Final = 190
VALUE_WIDTH: Final = 80
BAR_HEIGHT: Final = 11
GAP: Final = 9
TOP: Final = 34

PANEL_WIDTH: Final = 270
PANEL_HEIGHT: Final = 190
PANELS_IN_A_ROW: Final = 3
LEGEND_LINE: Final = 13
RELATIVE_MAX: Final = 2.0
"""Relative costs beyond this are drawn at the edge."""


class Panel(NamedTuple):
    """One small chart: costs relative to the smallest size's, against the logarithm of the size."""

    title: str
    curves: Mapping[str, Mapping[int, float]]


def bar_chart(
    title: str,
    names: Sequence[str],
    bars: Mapping[str, Mapping[str, float]],
    *,
    is_logarithmic: bool = False,
) -> str:
    """Draw a group of bars for each name.

    Args:
        title: what is shown and in which unit.
        names: the groups, from top to bottom.
        bars: the values by legend, then by name; what is missing is left out.
        is_logarithmic: whether ratios or differences are to be seen.

    """
    values = [value for by_name in bars.values() for value in by_name.values() if value > 0]
    low, high = (min(values) / 2, max(values)) if values else (0.5, 1.0)
    span = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts: list[str] = []
    y = TOP + LEGEND_LINE
    for name in names:
        parts.append(_text(LABEL_WIDTH - 8, y + BAR_HEIGHT - 2, name, anchor="end"))
        for colour, by_name in zip(_colours(len(bars)), bars.values(), strict=True):
            value = by_name.get(name, 0.0)
            if value <= 0:
                continue

            part = math.log(value / low) / math.log(high / low) if is_logarithmic else value / high
            width = max(1.0, span * part)
            parts.append(
                f"<rect x='{LABEL_WIDTH}' y='{y}' width='{width:.1f}' height='{BAR_HEIGHT - 1}' "
                f"fill='{colour}'/>"
            )
            parts.append(_text(LABEL_WIDTH + width + 4, y + BAR_HEIGHT - 2, _short(value), size=9))
            y += BAR_HEIGHT

        y += GAP

    scale = " (logarithmic)" if is_logarithmic else ""
    head = [_text(10, 18, title + scale, size=13, weight="bold"), *_legend(10, TOP, list(bars))]
    return _svg(WIDTH, y + 4, head + parts)


def line_panels(title: str, panels: Sequence[Panel], bound: float) -> str:
    """Draw small charts side by side, each with the cost that is still called flat."""
    legend_lines = max((len(panel.curves) for panel in panels), default=0)
    height = PANEL_HEIGHT + legend_lines * LEGEND_LINE
    parts = [_text(10, 18, title, size=13, weight="bold")]
    for place, panel in enumerate(panels):
        x = place % PANELS_IN_A_ROW * PANEL_WIDTH
        y = TOP + place // PANELS_IN_A_ROW * height
        parts += _panel(panel, x, y, bound)

    rows = -(-len(panels) // PANELS_IN_A_ROW)
    return _svg(PANEL_WIDTH * PANELS_IN_A_ROW, TOP + rows * height, parts)


def _panel(panel: Panel, left: float, top: float, bound: float) -> list[str]:
    x0, x1, y0, y1 = left + 34, left + PANEL_WIDTH - 16, top + 22, top + PANEL_HEIGHT - 34
    sizes = sorted({size for curve in panel.curves.values() for size in curve})
    first, last = math.log(sizes[0] or 1), math.log(sizes[-1] or 1)

    def at(size: int, relative: float) -> tuple[float, float]:
        part = (math.log(size or 1) - first) / ((last - first) or 1.0)
        return x0 + (x1 - x0) * part, y1 - (y1 - y0) * min(relative, RELATIVE_MAX) / RELATIVE_MAX

    parts = [_text(left + 10, top + 12, panel.title, size=11, weight="bold")]
    for relative in (0.0, 1.0, bound, RELATIVE_MAX):
        y = at(sizes[0], relative)[1]
        dash = " stroke-dasharray='4 3'" if relative == bound else ""
        stroke = "#c0392b" if relative == bound else GRID
        parts.append(
            f"<line x1='{x0}' y1='{y:.1f}' x2='{x1}' y2='{y:.1f}' stroke='{stroke}'{dash}/>"
        )
        if relative != bound:
            parts.append(_text(x0 - 5, y + 3, f"{relative:g}", size=9, anchor="end"))

    parts += [
        _text(at(size, 0)[0], y1 + 13, _short(size), size=9, anchor="middle") for size in sizes
    ]
    for colour, curve in zip(_colours(len(panel.curves)), panel.curves.values(), strict=True):
        points = " ".join("{:.1f},{:.1f}".format(*at(*one)) for one in sorted(curve.items()))
        parts.append(
            f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>"
        )

    return parts + [
        one
        for place, name in enumerate(panel.curves)
        for one in _legend_entry(left + 34, y1 + 26 + place * LEGEND_LINE, name, COLOURS[place % 8])
    ]


def _colours(count: int) -> list[str]:
    return [COLOURS[place % len(COLOURS)] for place in range(count)]


def _legend(x: float, y: float, names: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for colour, name in zip(_colours(len(names)), names, strict=True):
        parts += _legend_entry(x, y, name, colour)
        x += 22 + 6 * len(name)

    return parts


def _legend_entry(x: float, y: float, name: str, colour: str) -> list[str]:
    return [
        f"<rect x='{x}' y='{y - 8}' width='9' height='9' fill='{colour}'/>",
        _text(x + 13, y, name, size=10),
    ]


def _text(
    x: float, y: float, text: str, *, size: int = 11, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' "
        f"font-weight='{weight}' fill='{INK}'>{escape(text)}</text>"
    )


def _short(value: float) -> str:
    """A number that fits beside a bar: 1.62 M, 54.5 k, 0.61."""
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"

    return f"{value:.3g}"


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f"width='{width:g}' height='{height:g}'"
    box = f"viewBox='0 0 {width:g} {height:g}'"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} {box} {FONT}>",
            f"<rect {size} fill='{PAPER}'/>",
            *parts,
            "</svg>\n",
        ]
    )
