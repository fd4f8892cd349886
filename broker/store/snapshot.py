"""A copy of a data directory that a broker can start with, taken while another one uses the first.

See view.py for why the files are those of one moment. What is copied of each log is whole batches:
the state after the last of them. Virtual hosts are copied one after the other, each as it was at a
moment of its own; nothing in one refers to another.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from broker.errors import StoreError
from broker.store.directory import (
    FORMAT_NAME,
    NODE_NAME,
    VHOST_NAME_NAME,
    VHOSTS_NAME,
    check_format,
)
from broker.store.log_files import checkpoint_name, describe, segment_name
from broker.store.node_file import parse_node_file
from broker.store.survey import survey_file
from broker.store.view import open_view
from broker.store.whole_file import sync_directory, sync_file

if TYPE_CHECKING:
    from broker.store.view import DirectoryView, LogView

__all__ = ["Snapshot", "take_snapshot"]


class Snapshot(NamedTuple):
    """What was copied."""

    path: str
    files: int
    bytes: int
    cut_bytes: int
    """Of batches that were being written; nobody was told that they are safe."""


def take_snapshot(source: str, target: str) -> Snapshot:
    """Copy a data directory, in use or not.

    Args:
        source: the data directory.
        target: is not there yet, or empty; it is there when all of it is on the disk.

    Raises:
        StoreError: the source cannot be read, or is damaged where it must not be; the target is
            taken, or cannot be written.

    """
    target = os.path.abspath(target)
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise StoreError(f"{target} is there and not empty: say another directory")

    with open_view(source) as view:
        _require_format(view)
        try:
            return _Copy(view, target).run()
        except OSError as error:
            _clear(target)
            where = error.filename if isinstance(error.filename, str) else target
            raise StoreError(f"cannot write {where}: {describe(error).lower()}") from None
        except BaseException:
            _clear(target)
            raise


def _clear(target: str) -> None:
    """Take back what was copied; the directory may be a mount point, and stays."""
    for name in (VHOSTS_NAME, NODE_NAME, FORMAT_NAME):
        path = os.path.join(target, name)
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _require_format(view: DirectoryView) -> None:
    if view.format is None:
        raise StoreError(f"{view.path} is no data directory of Leveret")

    check_format(view.path, view.format)


class _Copy:
    """One copy on its way.

    Args:
        view: of the source.
        path: where to; it is made if need be.

    """

    def __init__(self, view: DirectoryView, path: str) -> None:
        self._view = view
        self._path = path
        self._files = 0
        self._bytes = 0
        self._cut = 0

    def run(self) -> Snapshot:
        view = self._view
        vhosts = os.path.join(self._path, VHOSTS_NAME)
        os.makedirs(vhosts, mode=0o700)
        for log in self._logs_to_copy():
            self._copy_log(log, os.path.join(vhosts, str(log.number)))

        sync_directory(vhosts)
        if view.node is not None:
            self._write(os.path.join(self._path, NODE_NAME), view.node)

        # The last file: without it nobody takes the directory for whole.
        assert view.format is not None
        self._write(os.path.join(self._path, FORMAT_NAME), view.format)
        sync_directory(self._path)
        sync_directory(os.path.dirname(self._path))
        return Snapshot(self._path, self._files, self._bytes, self._cut)

    def _logs_to_copy(self) -> list[LogView]:
        """Those that are listed, and those that were made since the list was written."""
        view = self._view
        if view.node is None:
            return view.logs

        node = parse_node_file(view.node_path, view.node)
        there = {log.number for log in view.logs}
        for entry in node.vhosts:
            if entry.number not in there:
                path = os.path.join(view.path, VHOSTS_NAME, str(entry.number))
                raise StoreError(f"{path} is missing, the log of virtual host '{entry.name}'")

        listed = {entry.number for entry in node.vhosts}
        return [
            log for log in view.logs if log.number in listed or log.number >= node.next_vhost_number
        ]

    def _copy_log(self, log: LogView, path: str) -> None:
        if log.name is None:
            raise StoreError(f"{os.path.join(log.path, VHOST_NAME_NAME)} is missing")

        os.mkdir(path, mode=0o700)
        raw = log.name.encode("utf-8", "surrogateescape")
        self._write(os.path.join(path, VHOST_NAME_NAME), raw)
        if log.checkpoints:
            name = checkpoint_name(log.checkpoints[-1])
            self._write(os.path.join(path, name), log.read(name))

        for number in log.segments:
            name = segment_name(number)
            data = log.read(name)
            if number == log.last:
                data = self._cut_tail(data, number)
                if not data:
                    continue

            self._write(os.path.join(path, name), data)

        sync_directory(path)

    def _cut_tail(self, data: bytes, number: int) -> bytes:
        """The last segment as far as it is whole; damaged, it stays for the check to find."""
        survey = survey_file(data, number, is_checkpoint=False)
        if survey.is_proven_damaged:
            return data

        end = survey.gaps[0].start if survey.gaps else survey.end
        if survey.gaps:
            self._cut += len(data[end:].rstrip(b"\x00"))

        return data[:end]

    def _write(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            sync_file(file.fileno())

        self._files += 1
        self._bytes += len(data)
