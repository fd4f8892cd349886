"""A disk in memory that loses power, fills up and fails, as a seed decides.

What was written is in the *cache* until it is synced: everybody reads it, and a power failure
leaves of each sector what some of the writes made of it, the first ones up to any, each sector for
itself. Names are no better: a file that was made, renamed or removed is so for good only when its
directory was synced.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.store.disk import Disk, File

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

__all__ = ["ALL", "FakeDisk", "Fault", "PowerCut"]

SECTOR_BYTES: Final = 512
TEAR_CHANCE: Final = 0.1
"""How often a sector is cut in two, which good disks do not do."""

STALE_CHANCE: Final = 0.2
"""How often a block that was never written holds what lay there before, not zeros."""

KEEPING: Final = (0.0, 0.5, 0.9, 1.0)
"""One of these is how likely a name survives one power failure."""

ALL: Final = frozenset(
    {"write", "sync", "allocate", "truncate", "create", "rename", "unlink", "names"}
)
"""Kinds of operations that change something; "names" is to sync a directory."""


class PowerCut(BaseException):
    """The machine is off, or the process dead: nobody is there to handle it."""


class Fault(NamedTuple):
    """An error that operations of some kinds end in.

    Attributes:
        kinds: of `ALL`, and "read", "open", "list".
        code: of the error.
        first: the operation of these kinds that fails first, counted from 0.
        times: how many fail.

    """

    kinds: frozenset[str]
    code: int
    first: int = 0
    times: int = 1


class _Change(NamedTuple):
    """A write, or (no data) a new size."""

    offset: int
    data: bytes | None


class _Content:
    """What one file holds: as it is read, as it is on the disk, and what is between the two."""

    __slots__ = ("cache", "changes", "disk")

    def __init__(self) -> None:
        self.cache = bytearray()
        self.disk = bytearray()
        self.changes: list[_Change] = []

    def change(self, change: _Change) -> None:
        _apply(self.cache, change)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            _apply(self.disk, change)

        self.changes.clear()

    def lose(self, random: Random) -> None:
        """A sync has failed: the system forgets what is unwritten, whether it is or not."""
        self.disk = bytearray(self.survivor(random, b""))
        self.changes.clear()

    def survivor(self, random: Random, stale: bytes) -> bytes:
        """What a power failure leaves.

        Args:
            random: decides.
            stale: what may stand in blocks that the file has got and that were not written.

        """
        if not self.changes:
            return bytes(self.disk)

        states = [bytes(self.disk)]
        for change in self.changes:
            state = bytearray(states[-1])
            _apply(state, change)
            states.append(bytes(state))

        last = len(self.changes)
        first = random.choice((0, last - 1, last, random.randint(0, last)))
        versions = random.choice(((first,), (first, min(first + 1, last)), range(last + 1)))
        size = len(states[random.choice(versions)])
        data = b"".join(
            _sector(states, start, random.choice(versions), random)
            for start in range(0, size, SECTOR_BYTES)
        )
        data = data[:size]
        if stale and size > len(self.disk) and random.random() < STALE_CHANCE:
            data = _with_stale_blocks(data, len(self.disk), random, stale)

        return data


def _apply(data: bytearray, change: _Change) -> None:
    end = change.offset if change.data is None else change.offset + len(change.data)
    if len(data) < end:
        data.extend(bytes(end - len(data)))

    if change.data is None:
        del data[change.offset :]
    else:
        data[change.offset : end] = change.data


def _sector(states: list[bytes], start: int, version: int, random: Random) -> bytes:
    """A sector as some of the writes have left it."""
    found = states[version][start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
    if version + 1 < len(states) and random.random() < TEAR_CHANCE:
        newer = states[version + 1][start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        cut = random.randrange(SECTOR_BYTES)
        return newer[:cut] + found[cut:]

    return found


def _with_stale_blocks(data: bytes, start: int, random: Random, stale: bytes) -> bytes:
    """Blocks behind a place that got no content show what was there before."""
    shown = bytearray(data)
    first = start + -start % SECTOR_BYTES
    for border in range(first, len(shown), SECTOR_BYTES):
        stop = min(border + SECTOR_BYTES, len(shown))
        if not any(shown[border:stop]) and random.random() < 0.5:
            place = random.randrange(max(len(stale) - SECTOR_BYTES, 1))
            old = stale[place : place + stop - border]
            shown[border : border + len(old)] = old

    return bytes(shown)


class FakeFile(File):
    """An open file of a `FakeDisk`."""

    __slots__ = ("_content", "_disk", "_is_closed", "path")

    def __init__(self, disk: FakeDisk, path: str, content: _Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._is_closed = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def read_at(self, size: int, offset: int) -> bytes:
        self._check_open()
        self._disk.begin("read", self.path)
        return bytes(self._content.cache[offset : offset + size])

    def write_at(self, data: bytes, offset: int) -> None:
        self._check_open()
        is_cut = self._disk.begin("write", self.path)
        cut = self._disk.random.randint(0, len(data)) if is_cut else len(data)
        room = self._disk.room_for(self._content, offset + cut)
        if cut:
            self._content.change(_Change(offset, data[: cut if room is None else room - offset]))

        self._disk.end(is_cut)
        if room is not None:
            raise OSError(self._disk.full_code, os.strerror(self._disk.full_code))

    def sync(self) -> None:
        self._check_open()
        try:
            is_cut = self._disk.begin("sync", self.path)
        except OSError:
            self._content.lose(self._disk.random)
            raise

        if not is_cut or self._disk.random.random() < 0.5:
            self._content.sync()

        self._disk.end(is_cut)

    def allocate(self, size: int) -> None:
        self._check_open()
        is_cut = self._disk.begin("allocate", self.path)
        if size > len(self._content.cache):
            if self._disk.room_for(self._content, size) is not None:
                raise OSError(self._disk.full_code, os.strerror(self._disk.full_code))

            self._content.change(_Change(size, None))

        self._disk.end(is_cut)

    def truncate(self, size: int) -> None:
        self._check_open()
        is_cut = self._disk.begin("truncate", self.path)
        self._content.change(_Change(size, None))
        self._disk.end(is_cut)

    def size(self) -> int:
        self._check_open()
        return len(self._content.cache)

    def close(self) -> None:
        self._check_open()
        self._is_closed = True


class FakeDisk(Disk):
    """A disk.

    Args:
        random: decides what is lost, and how.

    Attributes:
        operations: how many have begun that change something.
        cut_at: the number of the operation during which the power fails; None for never.
        faults: what is to go wrong.
        capacity_bytes: of all files together; None is no bound.
        full_code: of the error when that is used up.

    """

    __slots__ = (
        "_counts",
        "_names",
        "_names_changed",
        "_names_synced",
        "capacity_bytes",
        "cut_at",
        "faults",
        "full_code",
        "operations",
        "random",
    )

    def __init__(self, random: Random) -> None:
        self.random = random
        self.operations = 0
        self.cut_at: int | None = None
        self.faults: list[Fault] = []
        self.capacity_bytes: int | None = None
        self.full_code = errno.ENOSPC
        self._names: dict[str, _Content] = {}
        self._names_synced: dict[str, _Content] = {}
        # Each one or two names, and what they stand for from then on; None for nothing.
        self._names_changed: list[dict[str, _Content | None]] = []
        self._counts: dict[Fault, int] = {}

    # -- what may go wrong

    def fail(
        self, kinds: Iterable[str], code: int = errno.EIO, *, first: int = 0, times: int = 1
    ) -> None:
        """Let operations of these kinds fail, from the one with that number on."""
        self.faults.append(Fault(frozenset(kinds), code, first, times))

    def heal(self) -> None:
        """Let nothing go wrong any more; there is space again."""
        self.faults.clear()
        self._counts.clear()
        self.capacity_bytes = None

    def begin(self, kind: str, path: str) -> bool:
        """An operation begins; True: the power fails before it ends.

        Raises:
            OSError: it was to fail.

        """
        for fault in self.faults:
            if kind in fault.kinds:
                number = self._counts.get(fault, 0)
                self._counts[fault] = number + 1
                if fault.first <= number < fault.first + fault.times:
                    raise OSError(fault.code, os.strerror(fault.code), path)

        if kind not in ALL:
            return False

        self.operations += 1
        return self.cut_at is not None and self.operations >= self.cut_at

    def end(self, is_cut: bool) -> None:
        """An operation has ended, in one way or another."""
        if is_cut:
            raise PowerCut

    @property
    def used_bytes(self) -> int:
        """What all files take."""
        return sum(len(content.cache) for content in self._names.values())

    def room_for(self, content: _Content, size: int) -> int | None:
        """The size that a file can have, when there is no room for the one it wants; else None."""
        more = size - len(content.cache)
        if self.capacity_bytes is None or more <= 0:
            return None

        room = self.capacity_bytes - self.used_bytes
        return None if more <= room else len(content.cache) + max(room, 0)

    # -- what is there afterwards

    def killed(self) -> FakeDisk:
        """The disk after the process was killed: all that was written is there, if not for good."""
        disk = FakeDisk(self.random)
        disk._names = dict(self._names)
        disk._names_synced = dict(self._names_synced)
        disk._names_changed = list(self._names_changed)
        return disk

    def crashed(self) -> FakeDisk:
        """The disk after the power has failed."""
        random = self.random
        names = dict(self._names_synced)
        # Most file systems keep a journal of names, and so an order; none is promised.
        chance = random.choice(KEEPING)
        is_ordered = random.random() < 0.5
        for change in self._names_changed:
            if random.random() < chance:
                _rename(names, change)
            elif is_ordered:
                break

        disk = FakeDisk(random)
        for path, content in names.items():
            others = [one for one in self._names.values() if one is not content]
            stale = b"".join(bytes(one.cache) for one in others)
            disk.put(path, content.survivor(random, stale))

        return disk

    def put(self, path: str, data: bytes) -> None:
        """Have a file with that content, synced."""
        content = _Content()
        content.cache.extend(data)
        content.disk.extend(data)
        self._names[path] = content
        self._names_synced[path] = content

    def contents(self) -> dict[str, bytes]:
        """All files, as everybody reads them."""
        return {path: bytes(content.cache) for path, content in self._names.items()}

    # -- the disk

    def create(self, path: str) -> FakeFile:
        is_cut = self.begin("create", path)
        content = self._names.get(path)
        if content is None:
            content = _Content()
            self._change_names({path: content})
        else:
            content.change(_Change(0, None))

        self.end(is_cut)
        return FakeFile(self, path, content)

    def open(self, path: str) -> FakeFile:
        self.begin("open", path)
        return FakeFile(self, path, self._content_of(path))

    def _content_of(self, path: str) -> _Content:
        content = self._names.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

        return content

    def _change_names(self, change: dict[str, _Content | None]) -> None:
        _rename(self._names, change)
        self._names_changed.append(change)

    def rename(self, old: str, new: str) -> None:
        is_cut = self.begin("rename", old)
        content = self._content_of(old)
        if not is_cut or self.random.random() < 0.5:
            self._change_names({old: None, new: content})

        self.end(is_cut)

    def unlink(self, path: str) -> None:
        is_cut = self.begin("unlink", path)
        if path in self._names:
            self._change_names({path: None})

        self.end(is_cut)

    def list_directory(self, path: str) -> list[str]:
        self.begin("list", path)
        start = path + os.sep
        return sorted(name[len(start) :] for name in self._names if name.startswith(start))

    def make_directory(self, path: str) -> None:
        """Directories are everywhere."""

    def sync_directory(self, path: str) -> None:
        is_cut = self.begin("names", path)
        if not is_cut or self.random.random() < 0.5:
            for change in self._names_changed:
                _rename(self._names_synced, change)

            self._names_changed.clear()

        self.end(is_cut)


def _rename(names: dict[str, _Content], change: dict[str, _Content | None]) -> None:
    for path, content in change.items():
        if content is None:
            names.pop(path, None)
        else:
            names[path] = content
