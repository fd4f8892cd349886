"""Figures in columns, for people. Layer: cli."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["age_text", "size_text", "table_lines"]

STEP: Final = 1024
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """A table with numbers to the right; nothing when it has no rows."""
    if not rows:
        return

    columns = list(zip(heads, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    are_numbers = [all(cell[:1].isdigit() or cell in "-?" for cell in one[1:]) for one in columns]
    for row in [heads, *rows]:
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, are_numbers, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def size_text(size: float) -> str:
    """Bytes in the largest unit that leaves something in front of the point."""
    unit = 0
    while size >= STEP and unit < len(UNITS) - 1:
        size /= STEP
        unit += 1

    return f"{size:.0f} {UNITS[unit]}" if unit == 0 else f"{size:.1f} {UNITS[unit]}"


def age_text(age_s: float) -> str:
    """A span of time, roughly."""
    for unit_s, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if age_s >= unit_s:
            return f"{age_s / unit_s:.1f} {name}"

    return f"{age_s:.0f} s"
