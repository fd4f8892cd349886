"""What a row of counts was in the past, at several resolutions. Pure.

Only changes are kept: what stands still takes no room. Invariant: bounded, whatever happens.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from broker.metrics.totals import Totals

__all__ = ["BASIC", "GLOBAL", "TRIM_ROWS", "History", "Level", "Sample"]

TRIM_ROWS: Final = 16
"""Old rows go so many at a time."""


class Level(NamedTuple):
    """One resolution.

    Attributes:
        step_ms: of so much time one row is kept, the last.
        rows_max: how many rows.

    """

    step_ms: int
    rows_max: int

    @property
    def reach_ms(self) -> int:
        """How far back it goes, at least."""
        return self.step_ms * self.rows_max


# RabbitMQ keeps as much: ten minutes, an hour, and of the whole eight hours and a day.
BASIC: Final = (Level(5_000, 122), Level(60_000, 62))
GLOBAL: Final = (*BASIC, Level(600_000, 50), Level(1_800_000, 49))


class Sample(NamedTuple):
    """Counts at one time, in milliseconds since 1970."""

    at_ms: int
    totals: Totals


class History:
    """Counts of one object.

    Args:
        width: how many counts.
        levels: the resolutions, finest first.

    """

    __slots__ = ("_levels", "_rows", "_width")

    def __init__(self, width: int, levels: tuple[Level, ...] = BASIC) -> None:
        self._width = width
        self._levels = levels
        self._rows = tuple(array("q") for _ in levels)

    def add(self, at_ms: int, totals: Totals) -> None:
        """Take counts that differ from the last ones."""
        row = array("q", (at_ms, *totals))
        size = self._width + 1
        for (step_ms, rows_max), rows in zip(self._levels, self._rows, strict=True):
            if rows and rows[-size] > at_ms:
                # The clock of the machine was set back: what was measured by it is worth nothing.
                del rows[:]

            if rows and rows[-size] // step_ms == at_ms // step_ms:
                rows[-size:] = row
            else:
                rows.extend(row)
                if len(rows) >= (rows_max + TRIM_ROWS) * size:
                    del rows[: TRIM_ROWS * size]

    def samples(self, age_ms: int, every_ms: int, end_ms: int) -> list[Sample]:
        """What the counts were, newest first, one sample for each step.

        Args:
            age_ms: how far back from the end.
            every_ms: length of a step.
            end_ms: time of the newest sample.

        """
        place = 0
        while place < len(self._levels) - 1 and self._levels[place].reach_ms < age_ms:
            place += 1

        rows = self._rows[place]
        size = self._width + 1
        is_cut = len(rows) >= self._levels[place].rows_max * size
        at = len(rows) - size
        found: list[Sample] = []
        for at_ms in range(end_ms, end_ms - age_ms - 1, -every_ms):
            while at >= 0 and rows[at] > at_ms:
                at -= size

            if at >= 0:
                found.append(Sample(at_ms, tuple(rows[at + 1 : at + size])))
            elif is_cut:
                break
            else:
                # Before it was there.
                found.append(Sample(at_ms, (0,) * self._width))

        return found
