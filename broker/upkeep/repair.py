"""Mends a data directory: keeps what can be read, and says what is lost. Layer: rim.

A log is made anew beside the damaged one and takes its place by its name; until then nothing is
touched. What a batch holds counts as a whole, so of a damaged one nothing is kept.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import StoreError
from broker.local_socket import SOCKET_NAME
from broker.store.directory import (
    FORMAT_NAME,
    FORMAT_VERSION,
    LOCK_NAME,
    NODE_NAME,
    VHOST_NAME_NAME,
    VHOSTS_NAME,
    check_format,
)
from broker.store.lock import DirectoryLock
from broker.store.log_files import SEGMENT_SUFFIX, describe
from broker.store.node_file import NodeState, parse_node_file
from broker.store.view import open_view
from broker.store.whole_file import NEW_SUFFIX, replace_file, sync_directory
from broker.upkeep.check import CheckReport, check_view
from broker.upkeep.losses import losses_of
from broker.upkeep.rebuild import Rebuilt, link_or_copy, rebuild_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.store.view import DirectoryView, LogView

__all__ = ["RepairReport", "repair_directory"]

BROKEN_SUFFIX: Final = ".broken-"
DAMAGED_SUFFIX: Final = ".damaged"


class RepairReport(NamedTuple):
    """What was done."""

    path: str
    backup: str
    """Where the directory is as it was; empty without one."""

    before: CheckReport
    lines: list[str]
    """What was done, what is lost, and what may come back; for people."""

    after: CheckReport


def repair_directory(path: str, *, has_backup: bool = True) -> RepairReport:
    """Mend a data directory.

    Args:
        path: of the directory; no broker may be using it.
        has_backup: keep all as it was, in a directory beside.

    Raises:
        StoreError: it is in use, or cannot be mended: nothing is changed then but what has been
            told.

    """
    path = os.path.abspath(path)
    if not os.path.isdir(path):
        raise StoreError(f"{path} is no directory")

    try:
        lock = DirectoryLock(path, os.path.join(path, LOCK_NAME))
        try:
            return _Repair(path, has_backup=has_backup).run()
        finally:
            lock.release()
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise StoreError(f"cannot use {where}: {describe(error).lower()}") from None


class _Repair:
    def __init__(self, path: str, *, has_backup: bool) -> None:
        self._path = path
        self._has_backup = has_backup
        self._vhosts = os.path.join(path, VHOSTS_NAME)
        self._lines: list[str] = []

    def run(self) -> RepairReport:
        self._finish_earlier()
        with open_view(self._path) as view:
            if view.format is None and not view.logs and view.node is None:
                raise StoreError(f"{self._path} is no data directory of Leveret")

            before = _without_holder(check_view(view))
            if not before.findings:
                return RepairReport(self._path, "", before, [], before)

            self._refuse_newer(view)
            backup = self._back_up() if self._has_backup else ""
            self._mend(view, before)

        with open_view(self._path) as view:
            after = _without_holder(check_view(view))

        return RepairReport(self._path, backup, before, self._lines, after)

    def _refuse_newer(self, view: DirectoryView) -> None:
        try:
            check_format(self._path, view.format or b"")
        except StoreError as fault:
            if "knows none above" in str(fault):
                raise

    def _finish_earlier(self) -> None:
        """A repair that was cut short between two names: the damaged log gets its own again."""
        if not os.path.isdir(self._vhosts):
            return

        for entry in os.listdir(self._vhosts):
            if entry.endswith(DAMAGED_SUFFIX):
                path = os.path.join(self._vhosts, entry)
                own = path.removesuffix(DAMAGED_SUFFIX)
                if os.path.isdir(own):
                    shutil.rmtree(path)
                else:
                    os.rename(path, own)

    def _back_up(self) -> str:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        backup = f"{self._path}{BROKEN_SUFFIX}{stamp}"
        for base, directories, files in os.walk(self._path):
            target = os.path.join(backup, os.path.relpath(base, self._path))
            os.makedirs(target, mode=0o700, exist_ok=True)
            directories.sort()
            # A broker cuts the last segment, and no other.
            last = max((name for name in files if name.endswith(SEGMENT_SUFFIX)), default="")
            for name in files:
                if name not in (LOCK_NAME, SOCKET_NAME):
                    link_or_copy(os.path.join(base, name), target, may_change=name == last)

            sync_directory(target)

        self._lines.append(f"all is kept as it was in {backup}")
        return backup

    def _mend(self, view: DirectoryView, before: CheckReport) -> None:
        wrong = {finding.path for finding in before.findings}
        if os.path.join(self._path, FORMAT_NAME) in wrong:
            text = f"leveret {FORMAT_VERSION}\n".encode("ascii")
            replace_file(os.path.join(self._path, FORMAT_NAME), text)
            self._lines.append(f"wrote the file '{FORMAT_NAME}'")

        node = self._mend_node(view, is_wrong=view.node_path in wrong)
        listed = {entry.number: entry.name for entry in node.vhosts}
        os.makedirs(self._vhosts, mode=0o700, exist_ok=True)
        for log in view.logs:
            name = listed.get(log.number, log.name) or f"vhost-{log.number}"
            if any(_is_in(one, log.path) for one in wrong):
                self._mend_log(log, name)

        there = {log.number for log in view.logs}
        for number in sorted(set(listed) - there):
            self._replace(number, listed[number], lambda _path: None)
            self._lines.append(f"lost: all of virtual host '{listed[number]}'; it is empty now")

    def _mend_node(self, view: DirectoryView, *, is_wrong: bool) -> NodeState:
        if view.node is None:
            return NodeState()

        if not is_wrong:
            return parse_node_file(view.node_path, view.node)

        os.replace(view.node_path, view.node_path + DAMAGED_SUFFIX)
        sync_directory(self._path)
        self._lines.append(
            "lost: users, permissions and limits; the next start begins with those of its"
            f" configuration. What they were can be read in {NODE_NAME}{DAMAGED_SUFFIX}, but not"
            " trusted"
        )
        return NodeState()

    def _mend_log(self, log: LogView, name: str) -> None:
        rebuilt: list[Rebuilt] = []

        def rebuild(path: str) -> None:
            rebuilt.append(rebuild_log(log, name, path))

        losses = losses_of(log)
        self._replace(log.number, name, rebuild)
        self._lines.append(f"virtual host '{name}': {rebuilt[0].messages} messages are kept")
        if log.name != name:
            self._lines.append(f"virtual host '{name}': wrote the file '{VHOST_NAME_NAME}'")

        self._lines += losses
        is_lost = any(line.startswith("lost") for line in losses)
        self._tell(rebuilt[0], are_settlements_lost=is_lost)

    def _tell(self, rebuilt: Rebuilt, *, are_settlements_lost: bool) -> None:
        lines = self._lines
        for queue, count in sorted(rebuilt.lost.items()):
            lines.append(f"lost: {count} messages of '{queue}'")

        for queue in rebuilt.declared_anew:
            lines.append(
                f"the declaration of queue '{queue}' was lost: it is a plain one now, without"
                " arguments and bindings"
            )

        if rebuilt.has_old_state:
            lines.append(
                "may come back: messages that were settled, and bindings that were removed, before"
                " the oldest segment: the checkpoint that knew was lost"
            )
        elif are_settlements_lost:
            lines.append(
                "may come back: messages whose settlement stood in what was lost; all messages"
                " are marked as redelivered"
            )

    def _replace(self, number: int, name: str, fill: Callable[[str], None]) -> None:
        """Put a directory in the place of one that is damaged, or not there."""
        path = os.path.join(self._vhosts, str(number))
        beside = path + NEW_SUFFIX
        if os.path.isdir(beside):
            shutil.rmtree(beside)

        os.mkdir(beside, mode=0o700)
        raw = name.encode("utf-8", "surrogateescape")
        replace_file(os.path.join(beside, VHOST_NAME_NAME), raw)
        fill(beside)
        sync_directory(beside)
        if os.path.isdir(path):
            os.rename(path, path + DAMAGED_SUFFIX)

        os.rename(beside, path)
        sync_directory(self._vhosts)
        if os.path.isdir(path + DAMAGED_SUFFIX):
            shutil.rmtree(path + DAMAGED_SUFFIX)


def _without_holder(report: CheckReport) -> CheckReport:
    """The lock is ours."""
    return report._replace(used_by="")


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)
