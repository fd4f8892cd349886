"""How far something long is: a bar on a terminal, nothing elsewhere (cli layer)."""

from __future__ import annotations

import sys
import time
from typing import Final

__all__ = ["Progress"]

WIDTH: Final = 30
REDRAW_S: Final = 0.1


class Progress:
    """A line that is drawn anew; it is gone when the work is done.

    Args:
        label: what is being done.
        total: how many there are; 0 where that is not known.

    """

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._is_shown = sys.stderr.isatty()
        self._drawn_at = 0.0
        self._length = 0

    def show(self, count: int) -> None:
        """So many are done."""
        now = time.monotonic()
        if not self._is_shown or now - self._drawn_at < REDRAW_S:
            return

        self._drawn_at = now
        text = f"{self._label} {count}"
        if self._total:
            share = min(count / self._total, 1.0)
            filled = "#" * round(share * WIDTH)
            text = f"{self._label} [{filled:<{WIDTH}}] {count} of {self._total} ({share:.0%})"

        self._draw(text)

    def end(self) -> None:
        """Take the line away."""
        if self._length:
            self._draw("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._length = 0

    def _draw(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<{self._length}}")
        sys.stderr.flush()
        self._length = len(text)
