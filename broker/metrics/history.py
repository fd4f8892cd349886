"""The last samples of a row of counts, at two resolutions. Pure.

Invariant: bounded. Ten minutes are kept sample by sample, an hour minute by minute.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from broker.metrics.totals import Totals

__all__ = ["History", "Sample"]

FINE_MAX: Final = 122
COARSE_MAX: Final = 62
COARSE_S: Final = 60.0


class Sample(NamedTuple):
    """Counts at one time, in seconds of the wall clock."""

    at_s: float
    totals: Totals


class History:
    """Samples of one object, newest last."""

    def __init__(self) -> None:
        self._fine: deque[Sample] = deque(maxlen=FINE_MAX)
        self._coarse: deque[Sample] = deque(maxlen=COARSE_MAX)

    def add(self, sample: Sample) -> None:
        """Take the next sample."""
        self._fine.append(sample)
        if not self._coarse or sample.at_s - self._coarse[-1].at_s >= COARSE_S:
            self._coarse.append(sample)

    def samples(self, age_s: float, every_s: float, now_s: float) -> list[Sample]:
        """The samples of the time just past, newest first, one for each step.

        Args:
            age_s: how far back.
            every_s: length of a step. From a minute on, the coarse samples are read.
            now_s: the end of that time.

        """
        source = self._coarse if every_s >= COARSE_S else self._fine
        found: list[Sample] = []
        at_s = now_s
        for sample in reversed(source):
            if sample.at_s < now_s - age_s:
                break

            while sample.at_s <= at_s:
                found.append(Sample(at_s, sample.totals))
                at_s -= every_s

        return found
