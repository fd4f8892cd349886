"""Keeps users, rights and the list of virtual hosts of a running node on disk. Layer: rim.

Changes come from commands, are rare and small: the whole is written once for all changes of a turn,
in a thread. What is in a virtual host is kept by its log, not here.

Invariant: a virtual host is on the list only when its directory is there, and its directory goes
only after the list without it is on the disk.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.errors import StoreError
from broker.node_state import restore_users, restore_vhosts, state_of
from broker.store.node_file import NodeState, VHostState, read_node_file, write_node_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.auth.users import UserStore
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.store.directory import DataDirectory

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["RETRY_S", "NodeKeeper"]

RETRY_S: Final = 5.0
"""How long after a failure it is tried again to save: a full disk is not emptied sooner."""


class NodeKeeper:
    """Brings back a node's state, and saves it when it changes.

    Args:
        directory: is closed with this.
        log: takes level, event and fields.

    Raises:
        StoreError: what was kept cannot be read.

    """

    def __init__(self, directory: DataDirectory, log: Log) -> None:
        self.directory: Final = directory
        self._log = log
        self._found: Final = directory.vhosts()
        # The numbers of all directories that are there.
        self._made = set(self._found)
        # What the file holds; None before the first start is over.
        self.saved = read_node_file(directory.node_path)
        self._node: Node | None = None
        self._is_dirty = False
        self._is_closing = False
        self._failure = ""
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None

    # -- at start

    def restore_users(self, store: UserStore) -> None:
        """Fill a store with the users that were kept.

        Raises:
            StoreError: one of them cannot be.

        """
        try:
            restore_users(store, self.saved or NodeState())
        except ValueError as problem:
            raise StoreError(f"{self.directory.node_path} is damaged: {problem}") from None

    def restore_vhosts(self, node: Node) -> None:
        """Make the virtual hosts that were kept, empty.

        Raises:
            StoreError: the log of one is missing.

        """
        state = self.saved or NodeState()
        for entry in state.vhosts:
            if entry.number not in self._found:
                raise StoreError(
                    f"{self.directory.vhost_path(entry.number)} is missing, the log of the virtual"
                    f" host '{entry.name}': restore it from a backup; to begin with an empty one,"
                    f" take its line and that with the checksum out of {self.directory.node_path}"
                )

        restore_vhosts(node, self._with_unlisted(state))

    def _with_unlisted(self, state: NodeState) -> NodeState:
        """Add the virtual hosts that were made when the list could not be saved any more."""
        vhosts = {entry.name: entry for entry in state.vhosts}
        next_number = state.next_vhost_number
        for number, name in self._found.items():
            if number >= state.next_vhost_number:
                vhosts[name] = VHostState(name, number)
                next_number = number + 1
                fields: dict[str, object] = {"vhost": name, "number": number}
                self._log("warning", "store.vhost_unlisted", fields)

        return state._replace(next_vhost_number=next_number, vhosts=tuple(vhosts.values()))

    def make_directory(self, vhost: VirtualHost) -> str:
        """The directory for the log of a virtual host, which is made if need be.

        Raises:
            StoreError: it cannot be made.

        """
        path = self.directory.make_vhost(vhost.number, vhost.name)
        self._made.add(vhost.number)
        return path

    def save_now(self, node: Node) -> None:
        """Save, unless nothing has changed, and give up directories that are nobody's.

        Raises:
            StoreError: it cannot be saved.

        """
        state = state_of(node)
        if state != self.saved:
            with self.directory.faults():
                self._write(state)

            self.saved = state

        for number in self._strays(state):
            self._made.discard(number)
            self.directory.remove_vhost(number)

    def _write(self, state: NodeState) -> None:
        for vhost in state.vhosts:
            if vhost.number not in self._made:
                self.directory.make_vhost(vhost.number, vhost.name)
                self._made.add(vhost.number)

        write_node_file(self.directory.node_path, state)

    def _strays(self, state: NodeState) -> set[int]:
        """Directories of virtual hosts that are deleted."""
        return self._made - {vhost.number for vhost in state.vhosts}

    # -- while it runs

    def watch(self, node: Node) -> None:
        """Save changes from now on, in the running loop."""
        self._node = node
        node.on_state_changed = self._on_change

    def _on_change(self) -> None:
        self._is_dirty = True
        if self._task is None:
            # It begins after this turn, with all changes of the turn.
            self._task = asyncio.get_running_loop().create_task(self._save())

    @property
    def failure(self) -> str:
        """Why the last change is not on the disk yet; empty where all of them are."""
        return self._failure if self._is_dirty else ""

    async def flush(self) -> None:
        """Wait until all changes so far are on the disk, or could not be saved yet."""
        if self._task is not None:
            await self._task

    async def _save(self) -> None:
        try:
            while self._is_dirty and self._node is not None:
                self._is_dirty = False
                await self._save_state(state_of(self._node))
        except (OSError, StoreError) as fault:
            self._is_dirty = True
            self._tell_failure(fault)
            self._stop_timer()
            if not self._is_closing:
                self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._on_change)
        finally:
            self._task = None

    async def _save_state(self, state: NodeState) -> None:
        # Now: while it is written, more may be made.
        strays = self._strays(state)
        if state != self.saved:
            await asyncio.to_thread(self._write, state)
            self.saved = state

        if self._failure:
            self._failure = ""
            self._log("info", "store.saved", {"path": self.directory.node_path})

        for number in strays:
            self._made.discard(number)
            await self._remove(number)

    async def _remove(self, number: int) -> None:
        try:
            await asyncio.to_thread(self.directory.remove_vhost, number)
        except StoreError as fault:
            # The next start does it.
            self._log("warning", "store.vhost_left", {"number": number, "reason": str(fault)})

    def _tell_failure(self, fault: OSError | StoreError) -> None:
        reason = str(fault)
        if isinstance(fault, OSError) and fault.strerror:
            reason = fault.strerror.lower()

        if reason != self._failure:
            self._failure = reason
            fields: dict[str, object] = {
                "path": self.directory.node_path,
                "reason": reason,
                "effect": "changes of users, rights and virtual hosts would not survive an end",
                "retry_s": RETRY_S,
            }
            self._log("error", "store.save_failed", fields)

    # -- at the end

    async def close(self) -> None:
        """Save what is not saved yet, and let others have the directory."""
        try:
            self._stop_watching()
            await self.flush()
            if self._is_dirty:
                self._failure = ""
                await self._save()
        finally:
            self.directory.close()

    def abandon(self) -> None:
        """Let others have the directory: the start has failed."""
        self._stop_watching()
        self.directory.close()

    def _stop_watching(self) -> None:
        self._is_closing = True
        self._stop_timer()
        if self._node is not None:
            self._node.on_state_changed = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
