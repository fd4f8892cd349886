"""Toolkit, tasks: what a worker is doing and has done, for whoever looks.

Invariant: counting costs a few additions per task; everything that is worked out is worked out by
who asks.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

__all__ = ["Board", "Job", "Snapshot", "TaskCounts"]

JOBS_SHOWN_MAX: Final = 200


class Job(NamedTuple):
    """A task that is running."""

    task_id: str
    name: str
    attempt: int
    seconds: float


class TaskCounts:
    """How often tasks of one name have ended, and how."""

    __slots__ = ("cancelled", "failed", "retried", "seconds", "succeeded")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.retried = 0
        self.cancelled = 0
        self.seconds = 0.0

    def as_tuple(self) -> tuple[int, int, int, int, float]:
        """Return the numbers, in the order of their names in :class:`Snapshot`."""
        return (self.succeeded, self.failed, self.retried, self.cancelled, self.seconds)


class Snapshot(NamedTuple):
    """What a worker was doing at a moment."""

    worker: str
    jobs: tuple[Job, ...]
    running: int
    counts: dict[str, tuple[int, int, int, int, float]]
    """By name of task: succeeded, failed, retried, cancelled, and seconds spent on it."""

    is_leader: bool = False
    is_draining: bool = False

    @property
    def done(self) -> int:
        """How many tasks have ended."""
        return sum(one[0] + one[1] + one[3] for one in self.counts.values())


class Board:
    """What a worker is doing."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.running: dict[int, tuple[str, str, int, float]] = {}
        self.counts: dict[str, TaskCounts] = {}
        self._number = 0
        self.is_draining = False

    def begin(self, task_id: str, name: str, attempt: int) -> int:
        """A task begins; return what :meth:`end` wants."""
        self._number += 1
        self.running[self._number] = (task_id, name, attempt, time.monotonic())
        return self._number

    def end(self, number: int) -> float:
        """It has ended; return how many seconds it took."""
        return time.monotonic() - self.running.pop(number)[3]

    def counts_of(self, name: str) -> TaskCounts:
        """Return the numbers of tasks of that name."""
        counts = self.counts.get(name)
        if counts is None:
            counts = self.counts[name] = TaskCounts()

        return counts

    def snapshot(self, *, is_leader: bool = False) -> Snapshot:
        """Return what it is doing now; the longest running tasks first."""
        now = time.monotonic()
        jobs = tuple(
            Job(task_id, name, attempt, now - began)
            for task_id, name, attempt, began in list(self.running.values())[:JOBS_SHOWN_MAX]
        )
        counts = {name: counts.as_tuple() for name, counts in list(self.counts.items())}
        return Snapshot(self.worker, jobs, len(self.running), counts, is_leader, self.is_draining)
