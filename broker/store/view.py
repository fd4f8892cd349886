"""A data directory as it was at one moment, while a broker may be at work in it (store layer).

A log's files are never changed where they have been written: the last segment grows, and all the
others, like node.json, come and go as a whole, under numbers that are never used again. So when two
listings before and after the opening of all files are equal, the files are those of one moment,
and stay what they are however long they are read. What the last segment has grown by until it is
read is whole batches, and perhaps one that is being written: a tail like that after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import StoreError
from broker.store.directory import (
    FORMAT_NAME,
    LOCK_NAME,
    NODE_NAME,
    VHOST_NAME_NAME,
    VHOSTS_NAME,
)
from broker.store.lock import lock_holder
from broker.store.log_files import CHECKPOINT_SUFFIX, SEGMENT_SUFFIX, describe, is_number
from broker.store.survey import survey_file
from broker.store.whole_file import read_file

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["DirectoryView", "LogView", "open_view"]

ATTEMPTS_MAX: Final = 200
"""A listing takes a millisecond, and segments do not come faster for long."""

READS_MAX: Final = 20


class _Listing(NamedTuple):
    """What is in a data directory; compared with another, it tells whether something changed."""

    format: bytes | None
    node: bytes | None
    logs: dict[int, tuple[str | None, frozenset[str]]]


class LogView:
    """The files of one virtual host's log.

    Attributes:
        number: of the directory.
        name: of the virtual host; None where the directory does not tell.
        path: of the directory.
        checkpoints: numbers of the checkpoints, ascending.
        segments: numbers of the segments, ascending.

    """

    def __init__(self, number: int, name: str | None, path: str, names: frozenset[str]) -> None:
        self.number = number
        self.name = name
        self.path = path
        self.checkpoints = sorted(_number_of(one) for one in names if _is_checkpoint(one))
        self.segments = sorted(_number_of(one) for one in names if not _is_checkpoint(one))
        self.names = sorted(names)
        self._descriptors: dict[str, int] = {}
        self._tail = b""
        self._tail_name = ""

    @property
    def last(self) -> int:
        """The number of the last segment; 0 where there is none."""
        return self.segments[-1] if self.segments else 0

    def take(self, descriptors: dict[str, int]) -> None:
        """Own the open files, and read the one that still grows."""
        self._descriptors = descriptors
        if self.last:
            name = f"{self.last:08d}{SEGMENT_SUFFIX}"
            self._tail = self._read_tail(name)
            self._tail_name = name

    def _read_tail(self, name: str) -> bytes:
        """The last segment as it was at one moment.

        What is read while it is written can show a batch half, and behind it one that came later.
        But what came later was begun when the first was whole: read again, that one is.

        """
        start = -1
        for _ in range(READS_MAX):
            buffer = self._read_all(name)
            survey = survey_file(buffer, self.last, is_checkpoint=False)
            if not survey.is_proven_damaged or survey.gaps[0].start == start:
                return buffer

            start = survey.gaps[0].start

        return buffer

    def read(self, name: str) -> bytes:
        """All of a file.

        Raises:
            StoreError: it cannot be read.

        """
        if name == self._tail_name:
            return self._tail

        return self._read_all(name)

    def _read_all(self, name: str) -> bytes:
        descriptor = self._descriptors[name]
        try:
            return _read_at(descriptor, os.fstat(descriptor).st_size, 0)
        except OSError as error:
            path = os.path.join(self.path, name)
            raise StoreError(f"cannot read {path}: {describe(error)}") from None

    def read_at(self, name: str, size: int, offset: int) -> bytes:
        """Part of a file; may raise OSError."""
        if name == self._tail_name:
            return self._tail[offset : offset + size]

        return _read_at(self._descriptors[name], size, offset)

    def size(self, name: str) -> int:
        """How long a file is; may raise OSError."""
        if name == self._tail_name:
            return len(self._tail)

        return os.fstat(self._descriptors[name]).st_size

    def written_s(self, name: str) -> float:
        """When a file was last written, in seconds since 1970."""
        return os.fstat(self._descriptors[name]).st_mtime


class DirectoryView:
    """All of a data directory. Whoever has one must close it.

    Attributes:
        path: of the directory.
        format: what its file ``format`` says; None without one.
        node: the file with users, rights and virtual hosts; None without one.
        logs: those of the virtual hosts, by number.
        holder: the broker that uses it, for people to read; empty when none does.

    """

    def __init__(self, path: str, listing: _Listing, logs: list[LogView], holder: str) -> None:
        self.path = path
        self.format = listing.format
        self.node = listing.node
        self.logs = logs
        self.holder = holder
        self._descriptors: list[int] = []

    def own(self, descriptors: list[int]) -> None:
        """Close these with the view."""
        self._descriptors = descriptors

    @property
    def node_path(self) -> str:
        """The path of the file with users, rights and virtual hosts."""
        return os.path.join(self.path, NODE_NAME)

    def __enter__(self) -> DirectoryView:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all files."""
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)


def open_view(path: str) -> DirectoryView:
    """Open all files of a data directory as they are at one moment.

    Raises:
        StoreError: it is no data directory, cannot be read, or does not hold still.

    """
    path = os.path.abspath(path)
    opened: dict[tuple[int, str], int] = {}
    try:
        listing = _open_all(path, opened)
        view = _view_of(path, listing, opened)
        view.own(list(opened.values()))
    except BaseException as error:
        for descriptor in opened.values():
            os.close(descriptor)

        if isinstance(error, OSError):
            raise StoreError(_complaint(path, error)) from None

        raise

    return view


def _open_all(path: str, opened: dict[tuple[int, str], int]) -> _Listing:
    before = _list(path)
    for _ in range(ATTEMPTS_MAX):
        for number, (_, names) in before.logs.items():
            for name in names:
                if (number, name) not in opened:
                    # One that is not there any more shows in the next listing.
                    with contextlib.suppress(FileNotFoundError):
                        opened[number, name] = _open(os.path.join(_log_path(path, number), name))

        after = _list(path)
        wanted = {(number, one) for number, (_, names) in after.logs.items() for one in names}
        if after == before and wanted <= opened.keys():
            return before

        before = after

    raise StoreError(f"the files in {path} change faster than they can be opened: try again")


def _view_of(path: str, listing: _Listing, opened: dict[tuple[int, str], int]) -> DirectoryView:
    logs: list[LogView] = []
    for number, (name, names) in sorted(listing.logs.items()):
        log = LogView(number, name, _log_path(path, number), names)
        log.take({one: opened[number, one] for one in names})
        logs.append(log)

    return DirectoryView(path, listing, logs, lock_holder(os.path.join(path, LOCK_NAME)))


def _list(path: str) -> _Listing:
    node = read_file(os.path.join(path, NODE_NAME))
    logs: dict[int, tuple[str | None, frozenset[str]]] = {}
    vhosts = os.path.join(path, VHOSTS_NAME)
    entries = os.listdir(path)
    if VHOSTS_NAME in entries:
        for entry in os.listdir(vhosts):
            if entry.isascii() and entry.isdecimal():
                with contextlib.suppress(FileNotFoundError):
                    logs[int(entry)] = _list_log(os.path.join(vhosts, entry))

    return _Listing(read_file(os.path.join(path, FORMAT_NAME)), node, logs)


def _list_log(path: str) -> tuple[str | None, frozenset[str]]:
    raw = read_file(os.path.join(path, VHOST_NAME_NAME))
    name = None if raw is None else raw.decode("utf-8", "surrogateescape")
    return name, frozenset(filter(_is_of_log, os.listdir(path)))


def _is_of_log(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix in (SEGMENT_SUFFIX, CHECKPOINT_SUFFIX) and is_number(stem)


def _is_checkpoint(name: str) -> bool:
    return name.endswith(CHECKPOINT_SUFFIX)


def _number_of(name: str) -> int:
    return int(os.path.splitext(name)[0])


def _log_path(path: str, number: int) -> str:
    return os.path.join(path, VHOSTS_NAME, str(number))


def _open(path: str) -> int:
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno != errno.EMFILE or not _allow_more_files():
            raise

    return os.open(path, flags)


def _allow_more_files() -> bool:
    """Take all the file descriptors that the system grants; False when it grants no more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return False

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False

    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    if not hasattr(os, "pread"):  # Windows
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)

    data = os.pread(descriptor, size, offset)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            break

        data += more

    return data


def _complaint(path: str, error: OSError) -> str:
    where = error.filename if isinstance(error.filename, str) else path
    return f"cannot read {where}: {describe(error).lower()}"
