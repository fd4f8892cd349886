"""Numbers on the command line: what they may be, said before anything is done (cli layer)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.core import Context, Parameter

__all__ = ["COUNT_MAX", "SECONDS_MAX", "Seconds", "Whole"]

COUNT_MAX: Final = 10**18 - 1
"""What the HTTP API reads as a number, and so the most that it can be asked for."""

SECONDS_MAX: Final = 1_000_000.0
"""Eleven days; sockets wait for no more than three weeks."""


class Whole(click.IntRange):
    """A whole number.

    Args:
        least: the smallest.
        most: the largest.

    """

    name = "number"

    def __init__(self, least: int = 0, most: int = COUNT_MAX) -> None:
        super().__init__(least, most)
        self.least = least
        self.most = most

    def convert(self, value: object, param: Parameter | None, ctx: Context | None) -> int:
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{value!r:.60} is no whole number", param, ctx)

        if not self.least <= number <= self.most:
            self.fail(f"{value!s:.60} is not between {self.least} and {self.most}", param, ctx)

        return number


class Seconds(click.FloatRange):
    """A time, which may have a fraction.

    Args:
        may_be_none: whether 0 is one.

    """

    name = "seconds"

    def __init__(self, *, may_be_none: bool = False) -> None:
        super().__init__(0.0, SECONDS_MAX)
        self._may_be_none = may_be_none

    def convert(self, value: object, param: Parameter | None, ctx: Context | None) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            self.fail(f"{value!r:.60} is no number of seconds", param, ctx)

        if math.isnan(seconds) or seconds > SECONDS_MAX or seconds < 0.0:
            self.fail(f"{value!s:.60} is not between 0 and {SECONDS_MAX:.0f} seconds", param, ctx)

        if not seconds and not self._may_be_none:
            self.fail("nothing is done in no time: give some seconds", param, ctx)

        return seconds
