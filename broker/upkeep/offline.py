"""A node without sockets, for what lies in a data directory. Layer: rim.

Its clock stands still at the moment of its making, so what is over by then is over, as at a start,
and nothing more. Its milliseconds are those since 1970, as the log has them.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from broker.auth.users import UserStore
from broker.clock import Clock
from broker.config.schema import DEFAULT_CONFIG
from broker.core.node import LogKeeper, Node
from broker.core.recovery import recover_vhost
from broker.core.settings import NodeSettings
from broker.errors import StoreError
from broker.keeper import NodeKeeper
from broker.store.committer import Committer
from broker.store.directory import DataDirectory
from broker.store.disk import SystemDisk
from broker.store.frozen import FrozenDisk
from broker.store.log import LogOptions, SegmentLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from broker.core.journal import Journal
    from broker.core.vhost import VirtualHost
    from broker.store.view import LogView

    Tell = Callable[[str, str, dict[str, object]], None]

__all__ = ["OpenDirectory", "Tell", "fail", "look_into", "new_node", "settle", "unheard"]


class StoppedClock(Clock):
    """It is always the moment of its making."""

    def __init__(self) -> None:
        self._now_s = time.time()

    def monotonic(self) -> float:
        return self._now_s

    def wall(self) -> float:
        return self._now_s


def unheard(level: str, event: str, fields: dict[str, object]) -> None:
    """Tell nobody."""


def fail(reason: str) -> None:
    """What would stop a broker ends a tool.

    Raises:
        StoreError: always.

    """
    raise StoreError(reason)


def new_node(users: UserStore, tell: Tell) -> Node:
    """A node with nothing in it."""
    return Node(
        NodeSettings(),
        StoppedClock(),
        users=users,
        mechanisms={},
        random_bytes=os.urandom,
        log=tell,
    )


def settle(node: Node, committer: Committer) -> None:
    """Have all that the core has told so far written."""
    while True:
        node.flush()
        if committer.is_idle:
            return

        committer.finish()


def look_into(log: LogView, name: str, tell: Tell = unheard) -> VirtualHost:
    """Make the virtual host that a log tells of, as a start would, with nothing changed.

    Raises:
        StoreError: the log is damaged.

    """
    node = new_node(UserStore(), tell)
    vhost = node.add_vhost(name, number=log.number)
    committer = Committer(_nobody)
    options = LogOptions(os.urandom)
    segments = SegmentLog(FrozenDisk(log), log.path, committer, options, tell)
    recover_vhost(vhost, segments, fail)
    settle(node, committer)
    return vhost


def _nobody() -> None:
    """The committer works when it is called."""


class OpenDirectory(LogKeeper):
    """A data directory that a tool has for itself, and the node that lies in it.

    Args:
        path: is made when it is not there.
        tell: takes level, event and fields of what recovery tells.
        segment_bytes: of the segments that are begun.

    Attributes:
        node: with all that is in the directory. What is done to it is kept by `settle`.
        is_new: there was nothing in it.

    Raises:
        StoreError: it is in use, damaged, or cannot be written.

    """

    def __init__(
        self,
        path: str,
        tell: Tell = unheard,
        *,
        segment_bytes: int = DEFAULT_CONFIG.storage.segment_bytes,
    ) -> None:
        self._disk = SystemDisk()
        self._committer = Committer(_nobody)
        self._options = LogOptions(os.urandom, segment_bytes=segment_bytes)
        self._tell = tell
        self._logs: dict[str, SegmentLog] = {}
        directory = DataDirectory(path)
        try:
            self._keeper = NodeKeeper(directory, tell)
            users = UserStore()
            self._keeper.restore_users(users)
            self.node = new_node(users, tell)
            self._keeper.restore_vhosts(self.node)
            self.is_new = self._keeper.saved is None and not self.node.vhosts
            for vhost in self.node.vhosts.values():
                self.open_log(vhost)
        except BaseException:
            directory.close()
            raise

        self.node.logs = self

    @property
    def path(self) -> str:
        """Of the directory."""
        return self._keeper.directory.path

    def open_log(self, vhost: VirtualHost) -> None:
        directory = self._keeper.make_directory(vhost)
        log = SegmentLog(self._disk, directory, self._committer, self._options, self._tell)
        recover_vhost(vhost, log, fail)
        self._logs[vhost.name] = log

    def drop_log(self, vhost: VirtualHost) -> None:
        self._committer.finish()
        self._logs.pop(vhost.name).abandon()

    def settle(self) -> None:
        """Have all that was done so far written.

        Raises:
            StoreError: it cannot be.

        """
        settle(self.node, self._committer)
        for journal in self._journals():
            if journal.is_stalled:
                raise StoreError(f"no space is left for {self.path}")

    def _journals(self) -> list[Journal]:
        vhosts = self.node.vhosts.values()
        return [vhost.journal for vhost in vhosts if vhost.journal is not None]

    def save_people(self) -> None:
        """Write down users, rights, and the list of virtual hosts.

        Raises:
            StoreError: it cannot be written.

        """
        self._keeper.save_now(self.node)

    def save(self) -> None:
        """Write the state down, and that this is a clean end.

        Raises:
            StoreError: it cannot be written.

        """
        self.settle()
        for journal in self._journals():
            journal.books.write_checkpoint()

        self.settle()
        for journal in self._journals():
            journal.close_cleanly()

        self.settle()
        self.save_people()
        for log in self._logs.values():
            log.close()

    def close(self) -> None:
        """Let go of the directory; what was not saved is as after a kill."""
        for log in self._logs.values():
            log.abandon()

        self._keeper.directory.close()

    def __enter__(self) -> OpenDirectory:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
