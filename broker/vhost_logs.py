"""Gives each virtual host its log, and drives the thread that writes all of them. Layer: rim.

Invariant: the core is told of what was written in the loop's own thread, between two turns; only
files are touched in the other thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.core.node import LogKeeper
from broker.core.recovery import recover_vhost
from broker.store.committer import ThreadedCommitter
from broker.store.disk import SystemDisk
from broker.store.log import LogOptions, SegmentLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.config.schema import StorageConfig
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.net.pump import Pump

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["VHostLogs"]


class VHostLogs(LogKeeper):
    """The logs of a node.

    Args:
        node: whose.
        storage: how they are kept.
        directory_of: makes the directory of a virtual host and says where it is.
        loop: the broker's.
        on_failure: told why the broker has to stop.

    """

    def __init__(
        self,
        node: Node,
        storage: StorageConfig,
        directory_of: Callable[[VirtualHost], str],
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[str], None],
    ) -> None:
        self._node = node
        self._directory_of = directory_of
        self._loop = loop
        self._on_failure = on_failure
        self._pump: Pump | None = None
        self._disk = SystemDisk()
        self._options = LogOptions(os.urandom, storage.sync, storage.segment_bytes)
        self._committer = ThreadedCommitter(self._notify)
        self._logs: dict[str, SegmentLog] = {}
        self._has_failed = False

    def open_log(self, vhost: VirtualHost) -> None:
        log = SegmentLog(
            self._disk, self._directory_of(vhost), self._committer, self._options, self._node.log
        )
        self._logs[vhost.name] = log
        recover_vhost(vhost, log, self._fail)

    def drop_log(self, vhost: VirtualHost) -> None:
        log = self._logs.pop(vhost.name, None)
        if log is not None:
            self._committer.finish()
            log.abandon()

    def watch(self, pump: Pump) -> None:
        """Let the core go on by itself when something was written, from now on."""
        self._pump = pump

    def settle(self) -> None:
        """Wait until all that the core has told so far is written."""
        while True:
            self._node.flush()
            if self._committer.is_idle:
                return

            self._committer.finish()

    def close(self) -> None:
        """Write the state down, and that this is a clean end; nobody is connected any more."""
        if not self._has_failed:
            self.settle()
            self._end_cleanly()

        self._committer.stop()
        if not self._has_failed:
            for log in self._logs.values():
                log.close()

    def _end_cleanly(self) -> None:
        journals = [
            vhost.journal for vhost in self._node.vhosts.values() if vhost.journal is not None
        ]
        for journal in journals:
            journal.books.write_checkpoint()

        self.settle()
        for journal in journals:
            journal.close_cleanly()

        self.settle()

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
        if not self._has_failed:
            self._has_failed = True
            self._node.log("error", "store.failed", {"reason": reason})
            self._on_failure(reason)
