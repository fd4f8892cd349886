"""Toolkit, tasks: what workers do, for the eyes of whoever started them.

On a terminal it is drawn again and again in the same place; elsewhere a line is written now and
then. Log records, which other threads and processes write, end up above or between.

Invariant: nothing here blocks; what a terminal has no room for is left out, and the lines say so.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.tasks.board import Job, Snapshot

__all__ = ["LiveView", "ProgressLines", "summary", "table"]

LIVE_S: Final = 0.5
LINES_S: Final = 10.0
CLEAR: Final = "\x1b[J"
UP: Final = "\x1b[{}A"
JOBS_MIN: Final = 3


class Rate:
    """Things per second, from how many there have been."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def of(self, now_s: float, done: int) -> float:
        """Return the rate of the last few seconds."""
        self._seen.append((now_s, done))
        while len(self._seen) > 2 and now_s - self._seen[0][0] > 5.0:
            self._seen.pop(0)

        began_s, before = self._seen[0]
        return (done - before) / (now_s - began_s) if now_s > began_s else 0.0


def summary(snapshots: Iterable[Snapshot], rate: float) -> str:
    """Return a line about all workers."""
    shots = list(snapshots)
    totals = [sum(column) for column in zip(*_columns(shots), strict=True)] or [0, 0, 0, 0]
    running = sum(shot.running for shot in shots)
    text = (
        f"{len(shots)} workers, {running} running, {totals[0]} done ({rate:.0f}/s), "
        f"{totals[1]} failed, {totals[2]} retried"
    )
    if totals[3]:
        text += f", {totals[3]} cancelled"

    return text + (", stopping" if any(shot.is_draining for shot in shots) else "")


def _columns(shots: list[Snapshot]) -> list[tuple[int, int, int, int]]:
    return [counts[:4] for shot in shots for counts in shot.counts.values()]


def table(snapshots: list[Snapshot], rate: float, *, width: int, height: int) -> list[str]:
    """Return lines that fit into so many columns and rows."""
    lines = [summary(snapshots, rate), ""]
    lines += _totals(snapshots)[: max(2, height // 3)]
    jobs = sorted(
        ((job, shot) for shot in snapshots for job in shot.jobs), key=lambda both: -both[0].seconds
    )
    room = max(JOBS_MIN, height - len(lines) - 3)
    if jobs:
        lines += ["", f"{'running':<40} {'for':>8} {'attempt':>7}  worker"]
        lines += [_job_line(job, shot) for job, shot in jobs[:room]]
        hidden = sum(shot.running for shot in snapshots) - min(len(jobs), room)
        if hidden > 0:
            lines.append(f"and {hidden} more")

    return [line[:width] for line in lines]


def _job_line(job: Job, shot: Snapshot) -> str:
    name = f"{job.name} {job.task_id[-8:]}"
    return f"{name:<40} {job.seconds:>7.1f}s {job.attempt:>7}  {shot.worker.rpartition(':')[0]}"


def _totals(snapshots: list[Snapshot]) -> list[str]:
    totals: dict[str, list[float]] = {}
    for shot in snapshots:
        for name, counts in shot.counts.items():
            row = totals.setdefault(name, [0.0] * len(counts))
            for index, value in enumerate(counts):
                row[index] += value

    lines = [f"{'task':<40} {'done':>8} {'failed':>7} {'retried':>7} {'mean':>9}"]
    for name, (done, failed, retried, _, seconds) in sorted(totals.items()):
        runs = done + failed + retried
        mean = f"{1000 * seconds / runs:.1f}ms" if runs else ""
        lines.append(f"{name:<40} {done:>8.0f} {failed:>7.0f} {retried:>7.0f} {mean:>9}")

    return lines


class LiveView:
    """Draws the table in one place of a terminal."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._rate = Rate()
        self._drawn = 0
        self._last_s = -LIVE_S

    def __call__(self, snapshots: list[Snapshot]) -> None:
        """Draw, if it is time."""
        now_s = self._clock()
        if now_s - self._last_s < LIVE_S:
            return

        self._last_s = now_s
        size = shutil.get_terminal_size()
        rate = self._rate.of(now_s, sum(shot.done for shot in snapshots))
        lines = table(snapshots, rate, width=size.columns - 1, height=size.lines - 1)
        up = UP.format(self._drawn) if self._drawn else ""
        self._out.write(f"\r{up}{CLEAR}" + "\n".join(lines) + "\n")
        self._out.flush()
        self._drawn = len(lines)


class ProgressLines:
    """Writes a line now and then, when there is something to say."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._rate = Rate()
        self._last_s = clock()
        self._said = ""

    def __call__(self, snapshots: list[Snapshot]) -> None:
        """Write a line, if it is time."""
        now_s = self._clock()
        if now_s - self._last_s < LINES_S:
            return

        self._last_s = now_s
        rate = self._rate.of(now_s, sum(shot.done for shot in snapshots))
        text = summary(snapshots, rate)
        if text != self._said:
            self._said = text
            self._out.write(text + "\n")
            self._out.flush()
