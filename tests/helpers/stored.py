"""A world whose virtual host has a log, on a disk of the test's choice; the writing is done by
hand, or at the end of every turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.recovery import recover_vhost
from broker.protocol.connection import Connection
from broker.store.committer import Committer
from broker.store.log import GROUP, LogOptions, SegmentLog
from tests.helpers.core import CoreWorld
from tests.helpers.session import World

if TYPE_CHECKING:
    from broker.core.journal import Journal
    from broker.core.settings import NodeSettings
    from broker.store.disk import Disk
    from broker.store.reserve import Reserve
    from tests.helpers.clock import VirtualClock

__all__ = ["SEGMENT_BYTES", "StoredCoreWorld", "StoredWorld"]

SEGMENT_BYTES = 64 * 1024


class StoredWorld(World):
    """A world that outlives itself: make another one with the same disk and directory.

    Args:
        disk: where the log lies.
        directory: of the log.
        is_prompt: whether what is handed to the log is safe at the end of the turn; otherwise call
            `write`.
        sync: the mode of the log.
        segment_bytes: of the log's segments.
        settings: of the node.
        clock: another one for each world, or its own clock would go on.
        reserve: space kept back on the disk.

    Attributes:
        failures: reasons for which the broker would have stopped.

    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        is_prompt: bool = True,
        sync: str = GROUP,
        segment_bytes: int = SEGMENT_BYTES,
        settings: NodeSettings | None = None,
        clock: VirtualClock | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        super().__init__(settings, clock=clock)
        self.is_prompt = is_prompt
        self.failures: list[str] = []
        self.committer = Committer(self._tried)
        options = LogOptions(self._random_bytes, sync, segment_bytes, reserve)
        self.log = SegmentLog(disk, directory, self.committer, options, self._log)
        self.journal: Journal = recover_vhost(self.vhost, self.log, self.failures.append)
        self.write()

    def _tried(self) -> None:
        """Nobody has to be woken."""

    def settle(self) -> None:
        super().settle()
        if self.is_prompt:
            self.write()

    def write(self) -> None:
        """Have everything that was handed over tried, and what follows from it too."""
        for _ in range(1_000):
            World.settle(self)
            if self.committer.is_idle:
                return

            self.committer.finish()

        raise AssertionError("the log is never done")

    def checkpoint(self) -> None:
        """Keep the state as it is now."""
        self.write()
        self.journal.books.write_checkpoint()
        self.write()

    def stop(self) -> None:
        """End in good order: connections closed, state kept."""
        for connection in list(self.node.connections):
            assert isinstance(connection, Connection)
            connection.connection_lost()

        self.checkpoint()
        self.journal.close_cleanly()
        self.write()
        self.log.close()

    def abandon(self) -> None:
        """End like a process that is killed."""
        self.log.abandon()


class StoredCoreWorld(StoredWorld, CoreWorld):
    """The same without connections: clients speak to the core."""
