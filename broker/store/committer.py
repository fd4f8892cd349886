"""The one thread that writes: it takes jobs in order, and says which are done.

While a job's sync runs, the next batch gathers: that is the whole of group commit, without a timer
and without tuning. The thread knows files and errors, nothing of what is in a batch.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LACK_OF_SPACE", "Committer", "Job", "ThreadedCommitter"]

LACK_OF_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that may go away by themselves: the disk, or somebody's share of it, is full."""

STOP_WAIT_S: Final = 30.0
"""How long a stop waits for a disk that does not answer."""


class Job:
    """Something to be done to the disk.

    Attributes:
        error: why it failed, once it was tried; None when it is done.

    """

    __slots__ = ("error", "is_tried")

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.is_tried = False

    def run(self, *, is_last: bool) -> None:
        """Do it. Runs in the committer's thread; may raise OSError.

        Args:
            is_last: nothing else waits, so there is time for what can be left out.

        """
        raise NotImplementedError

    def is_fatal(self, error: OSError) -> bool:
        """Whether nothing may be done any more after it has failed like this."""
        return error.errno not in LACK_OF_SPACE

    def finished(self) -> None:
        """It was tried. Runs in the broker's own thread, in the order of submission."""
        raise NotImplementedError


class Committer:
    """A queue of jobs that somebody works off by calling `work`: a test, or a thread.

    Args:
        notify: called, in whatever thread works, when a job was tried; `collect` is due then.

    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._jobs: deque[Job] = deque()
        self._tried: deque[Job] = deque()
        # Why nothing is done any more: what was built on something that failed would not stand.
        self._failure: OSError | None = None

    def submit(self, job: Job) -> None:
        """Add a job behind all others."""
        job.error = None
        job.is_tried = False
        self._jobs.append(job)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be tried or to be collected."""
        return not self._jobs and not self._tried

    def work(self) -> bool:
        """Try the first job; False when there is none."""
        if not self._jobs:
            return False

        job = self._jobs[0]
        job.error = self._failure
        if self._failure is None:
            self._try(job, is_last=len(self._jobs) == 1)

        job.is_tried = True
        self._tried.append(job)
        self._jobs.popleft()
        self._notify()
        return True

    def _try(self, job: Job, *, is_last: bool) -> None:
        try:
            job.run(is_last=is_last)
        except OSError as error:
            job.error = error
        except Exception as bug:
            # Whatever it is, nobody knows what is on the disk now: as bad as a disk that failed.
            job.error = OSError(errno.EIO, f"{type(bug).__name__}: {bug}")

        if job.error is not None and job.is_fatal(job.error):
            self._failure = job.error

    def collect(self) -> None:
        """Let the jobs that were tried go on, in the broker's own thread."""
        while self._tried:
            self._tried.popleft().finished()

    def finish(self) -> None:
        """Work off everything, what follows from it too, and collect."""
        while not self.is_idle:
            while self.work():
                pass

            self.collect()

    def stop(self) -> None:
        """Work off what is there and take no more."""
        self.finish()


class ThreadedCommitter(Committer):
    """A committer whose jobs a thread of its own works off."""

    def __init__(self, notify: Callable[[], None]) -> None:
        super().__init__(notify)
        self._wake = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="leveret-log", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        with self._wake:
            super().submit(job)
            self._wake.notify()

    def finish(self) -> None:
        """Wait until the thread has worked off everything, and collect."""
        while not self.is_idle:
            with self._wake:
                is_done = self._wake.wait_for(lambda: not self._jobs, STOP_WAIT_S)

            self.collect()
            if not is_done:
                return

    def stop(self) -> None:
        self.finish()
        with self._wake:
            self._is_stopping = True
            self._wake.notify()

        self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._jobs and not self._is_stopping:
                    self._wake.wait()

                if not self._jobs:
                    return

            self.work()
            with self._wake:
                self._wake.notify_all()
