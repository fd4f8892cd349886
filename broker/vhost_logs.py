"""Gives each virtual host its log, and drives the thread that writes all of them. Layer: rim.

Invariant: the core is told of what was written in the loop's own thread, between two turns; only
files are touched in the other thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.core.node import LogKeeper
from broker.core.recovery import recover_vhost
from broker.errors import StoreError
from broker.limits import RESERVE_BYTES_MAX, RESERVE_BYTES_MIN, RESERVE_SHARE
from broker.net.disk import free_bytes
from broker.store.committer import ThreadedCommitter
from broker.store.counted import CountedDisk
from broker.store.log import LogOptions, SegmentLog
from broker.store.reserve import Reserve

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.config.schema import StorageConfig
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.net.pump import Pump
    from broker.store.counted import DiskCounts

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["VHostLogs"]


class VHostLogs(LogKeeper):
    """The logs of a node.

    Args:
        storage: how they are kept.
        directory_of: makes the directory of a virtual host and says where it is.
        loop: the broker's.
        tell: takes level, event and fields.

    """

    def __init__(
        self,
        storage: StorageConfig,
        directory_of: Callable[[VirtualHost], str],
        loop: asyncio.AbstractEventLoop,
        tell: Log,
    ) -> None:
        self._directory_of = directory_of
        self._loop = loop
        self._tell = tell
        self._node: Node | None = None
        self._pump: Pump | None = None
        self._on_failure: Callable[[str], None] | None = None
        self._failure = ""
        self._disk = CountedDisk()
        self._options = LogOptions(os.urandom, storage.sync, storage.segment_bytes)
        self._committer = ThreadedCommitter(self._notify)
        self._reserve: Reserve | None = None
        self._logs: dict[str, SegmentLog] = {}

    @property
    def counts(self) -> DiskCounts:
        """What was done to the disk."""
        return self._disk.counts

    def keep_space_back(self, path: str) -> None:
        """Claim some space for the day when there is none; call it before `recover`.

        Args:
            path: of the file for it.

        """
        free = free_bytes(os.path.dirname(path))
        size = RESERVE_BYTES_MAX
        if free is not None:
            size = max(RESERVE_BYTES_MIN, min(size, free // RESERVE_SHARE))

        self._reserve = Reserve(self._disk, path, size)
        self._reserve.find()
        self._options = self._options._replace(reserve=self._reserve)

    def recover(self, node: Node) -> None:
        """Bring back what is in the virtual hosts of a node; those it makes later have logs too.

        Raises:
            StoreError: a log is damaged, or cannot be written.

        """
        self._node = node
        for vhost in node.vhosts.values():
            self.open_log(vhost)

        node.logs = self

    def open_log(self, vhost: VirtualHost) -> None:
        directory = self._directory_of(vhost)
        log = SegmentLog(self._disk, directory, self._committer, self._options, self._tell)
        recover_vhost(vhost, log, self._fail)
        self._logs[vhost.name] = log

    def drop_log(self, vhost: VirtualHost) -> None:
        log = self._logs.pop(vhost.name, None)
        if log is not None:
            self._committer.finish()
            if vhost.journal is not None:
                vhost.journal.abandon()
                vhost.journal = None

            log.abandon()

    def watch(self, pump: Pump, on_failure: Callable[[str], None]) -> None:
        """Let the core go on by itself when something was written, from now on.

        Args:
            pump: the broker's.
            on_failure: told why the broker has to stop.

        """
        self._pump = pump
        self._on_failure = on_failure
        if self._failure:
            on_failure(self._failure)

    def settle(self) -> None:
        """Wait until all that the core has told so far is written.

        Raises:
            StoreError: it cannot be.

        """
        node = self._node
        assert node is not None
        while True:
            node.flush()
            if self._committer.is_idle:
                break

            self._committer.finish()

        if self._failure:
            raise StoreError(self._failure)

    def close(self) -> None:
        """Write the state down, and that this is a clean end; nobody is connected any more."""
        try:
            if not self._failure:
                self._end_cleanly()
        except StoreError as error:
            self._fail(str(error))

        self._committer.stop()
        for log in self._logs.values():
            if self._failure:
                log.abandon()
            else:
                log.close()

    def _end_cleanly(self) -> None:
        node = self._node
        assert node is not None
        for log in self._logs.values():
            log.retry()

        self.settle()
        journals = [vhost.journal for vhost in node.vhosts.values() if vhost.journal is not None]
        for journal in journals:
            if not journal.is_stalled:
                journal.books.write_checkpoint()

        self.settle()
        for journal in journals:
            if not journal.is_stalled:
                journal.close_cleanly()

        self.settle()
        if any(journal.is_stalled for journal in journals):
            raise StoreError("the disk is full: what was not confirmed is lost")

        if self._reserve is not None and not any(journal.is_short for journal in journals):
            # A broker that does not run needs none. Where space is short nobody else may have it.
            self._reserve.remove()

    def abandon(self) -> None:
        """The start has failed: let go of everything as it is."""
        self._committer.stop()
        for log in self._logs.values():
            log.abandon()

    def _notify(self) -> None:
        # The loop may be closed by the time the last job is done.
        if self._pump is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        if self._pump is not None:
            self._pump.run(self._committer.collect)

    def _fail(self, reason: str) -> None:
        if self._failure:
            return

        self._failure = reason
        self._tell("error", "store.failed", {"reason": reason})
        if self._on_failure is not None:
            self._on_failure(reason)
