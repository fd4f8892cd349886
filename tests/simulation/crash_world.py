"""A broker on a fake disk, whose committer works when the simulation says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.recovery import recover_vhost
from broker.store.committer import Committer, Job
from broker.store.jobs import BatchJob
from broker.store.log import LogOptions, SegmentLog
from tests.helpers.clock import VirtualClock
from tests.helpers.session import World

if TYPE_CHECKING:
    from random import Random

    from tests.helpers.fake_disk import FakeDisk

__all__ = ["DIRECTORY", "CrashWorld"]

DIRECTORY = "/data/vhosts/1"


class WitnessCommitter(Committer):
    """Counts the batches that were handed over, that were written, and that were synced too."""

    def __init__(self) -> None:
        super().__init__(self._count)
        self.sealed = 0
        self.written = 0
        self.synced = 0

    def _count(self) -> None:
        job = self._tried[-1]
        if isinstance(job, BatchJob) and job.error is None:
            self.written += 1
            if job.is_synced:
                self.synced += 1

    def submit(self, job: Job) -> None:
        if isinstance(job, BatchJob) and not job.is_tried:
            self.sealed += 1

        super().submit(job)


class CrashWorld(World):
    """A broker that has just recovered what a disk holds.

    Args:
        disk: may have nothing on it yet.
        random: decides what is left open.
        sync: the mode of the log.
        elapsed_ms: how far the wall is; every broker's own clock begins somewhere else.

    """

    def __init__(self, disk: FakeDisk, random: Random, sync: str, elapsed_ms: int) -> None:
        # Later than any message lives, so that no deadline lies before its beginning.
        start_s = 10_000 + random.randrange(60_000) / 100
        super().__init__(clock=VirtualClock(start_s, elapsed_ms / 1000))
        self._drawn = random.randrange(1 << 30)
        self.disk = disk
        self.failures: list[str] = []
        self.committer = WitnessCommitter()
        options = LogOptions(self._random_bytes, sync, random.choice((2_048, 4_096, 8_192)))
        self.log = SegmentLog(disk, DIRECTORY, self.committer, options, self._log)
        self.journal = recover_vhost(self.vhost, self.log, self.failures.append)

    @property
    def wall_ms(self) -> int:
        return self.node.deadlines.wall_ms

    def pass_until(self, end_ms: int) -> bool:
        """Let time pass to what is due next, or to the end; False when that has come."""
        deadlines = self.node.deadlines
        offset_ms = int(deadlines.wall_offset_ms)
        due_s = self.node.next_deadline()
        due_ms = None if due_s is None else round(due_s * 1000) + offset_ms
        is_due = due_ms is not None and due_ms <= end_ms
        until_ms = max(due_ms, self.wall_ms) if is_due and due_ms is not None else end_ms
        self.clock.move(max(0.0, (until_ms - offset_ms) / 1000 - self.clock.monotonic()))
        self.node.advance(self.clock.monotonic())
        if is_due:
            self.node.run_deadlines()
            self.settle()

        return is_due

    def collect(self) -> None:
        """Let those go on that waited for what the committer has done."""
        self.committer.collect()
        self.settle()

    def finish(self) -> None:
        """Have everything written, and whatever follows from that."""
        for _ in range(1_000):
            self.settle()
            if self.committer.is_idle:
                return

            self.committer.finish()

        raise AssertionError("the log is never done")

    def stop(self) -> None:
        """End in good order; nobody is connected any more."""
        assert not self.node.connections
        self.finish()
        self.journal.books.write_checkpoint()
        self.journal.close_cleanly()
        self.finish()
        self.log.close()
