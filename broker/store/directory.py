"""The data directory: where it is, whose it is, and what stands where in it (store layer).

::

    lock            held by the broker that uses the directory
    format          which version of Leveret can read it
    node.json       users, rights and virtual hosts, see :mod:`broker.store.node_file`
    vhosts/NUMBER   the log of one virtual host; the file ``name`` in it says whose

Invariant: a directory with a number is whole: it has its ``name`` from the moment it is there, and
one that is being deleted has lost its number first.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from broker.errors import StoreError
from broker.store.lock import DirectoryLock
from broker.store.whole_file import NEW_SUFFIX, read_file, replace_file, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "DIRECTORY_VARIABLE",
    "FORMAT_NAME",
    "FORMAT_VERSION",
    "LOCK_NAME",
    "NODE_NAME",
    "RESERVE_NAME",
    "VHOSTS_NAME",
    "VHOST_NAME_NAME",
    "DataDirectory",
    "check_format",
    "default_data_directory",
]

DIRECTORY_VARIABLE: Final = "LEVERET_DATA_DIR"
FORMAT_VERSION: Final = 1

FORMAT_NAME: Final = "format"
LOCK_NAME: Final = "lock"
VHOST_NAME_NAME: Final = "name"
NODE_NAME: Final = "node.json"
RESERVE_NAME: Final = "reserve"
_PROBE: Final = "probe" + NEW_SUFFIX
VHOSTS_NAME: Final = "vhosts"
_DELETED_SUFFIX: Final = ".deleted"

_NOT_OURS_ALLOWED: Final = frozenset({LOCK_NAME, FORMAT_NAME + NEW_SUFFIX, _PROBE, "lost+found"})
"""What a new directory may hold: a start that was cut short, a file system of its own."""

_ELSEWHERE: Final = "or give the broker another one with --data-dir or storage.data_dir"

_ADVICE: Final = {
    errno.EACCES: f"give it to the user who runs the broker, {_ELSEWHERE}",
    errno.EPERM: f"give it to the user who runs the broker, {_ELSEWHERE}",
    errno.EROFS: f"mount it for writing, {_ELSEWHERE}",
    errno.ENOTDIR: f"remove the file that is in the way, {_ELSEWHERE}",
    errno.EEXIST: f"remove the file that is in the way, {_ELSEWHERE}",
    errno.ENOSPC: f"make room, {_ELSEWHERE}",
    errno.EDQUOT: f"make room, {_ELSEWHERE}",
    errno.ENOLCK: f"its file system has no locks: use a local one, {_ELSEWHERE}",
    errno.EOPNOTSUPP: f"its file system has no locks: use a local one, {_ELSEWHERE}",
}


def default_data_directory(
    environ: Mapping[str, str] | None = None,
    *,
    platform: str = sys.platform,
    is_root: bool | None = None,
) -> str:
    """Where the data is when nobody says otherwise: what the system's other programs do.

    Raises:
        StoreError: the user has no home directory.

    """
    environ = os.environ if environ is None else environ
    named = environ.get(DIRECTORY_VARIABLE)
    if named:
        return os.path.abspath(named)

    if platform == "win32":
        base = environ.get("LOCALAPPDATA") or os.path.join(_home(environ), "AppData", "Local")
        return os.path.join(base, "leveret")

    if is_root is None:
        is_root = os.geteuid() == 0

    if is_root:
        return "/var/lib/leveret"

    if platform == "darwin":
        return os.path.join(_home(environ), "Library", "Application Support", "leveret")

    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # such a value does not count, says its specification
        base = os.path.join(_home(environ), ".local", "share")

    return os.path.join(base, "leveret")


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise StoreError(
            "cannot say where to keep the data: this user has no home directory - give one with"
            f" --data-dir, storage.data_dir or {DIRECTORY_VARIABLE}, or run with --memory-only"
        )

    return home


class DataDirectory:
    """A data directory that this process has for itself, until :meth:`close`.

    Args:
        path: the directory; it is made when it is not there.

    Raises:
        StoreError: it cannot be had; the text says why and what to do.

    """

    __slots__ = ("_lock", "path")

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        with self.faults():
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._lock = DirectoryLock(self.path, os.path.join(self.path, LOCK_NAME))

        try:
            with self.faults():
                self._check_is_writable()
                self._check_format()
                os.makedirs(os.path.join(self.path, VHOSTS_NAME), mode=0o700, exist_ok=True)
                self._clean_up()
        except BaseException:
            self.close()
            raise

    @property
    def node_path(self) -> str:
        """The file with users, rights and virtual hosts."""
        return os.path.join(self.path, NODE_NAME)

    @property
    def reserve_path(self) -> str:
        """The file that keeps space back."""
        return os.path.join(self.path, RESERVE_NAME)

    def close(self) -> None:
        """Let other brokers have it; harmless when it is closed already."""
        self._lock.release()

    # -- virtual hosts

    def vhosts(self) -> dict[int, str]:
        """The numbers that are there, and the names of their virtual hosts.

        Raises:
            StoreError: one cannot be read.

        """
        found: dict[int, str] = {}
        with self.faults():
            for entry in os.listdir(os.path.join(self.path, VHOSTS_NAME)):
                if entry.isascii() and entry.isdecimal():
                    number = int(entry)
                    found[number] = self._name_of(number)

        return dict(sorted(found.items()))

    def vhost_path(self, number: int) -> str:
        """The directory with the log of a virtual host."""
        return os.path.join(self.path, VHOSTS_NAME, str(number))

    def make_vhost(self, number: int, name: str) -> str:
        """Make the directory of a virtual host, on the disk when this returns; or find it.

        Raises:
            StoreError: it cannot be made, or the number is another virtual host's.

        """
        path = self.vhost_path(number)
        with self.faults():
            if os.path.isdir(path):
                there = self._name_of(number)
                if there != name:
                    raise StoreError(
                        f"{path} belongs to the virtual host '{there}', not to '{name}':"
                        " the data directory holds parts of two, restore it from one backup"
                    )

                return path

            beside = path + NEW_SUFFIX
            # It may be there from an attempt that failed.
            os.makedirs(beside, mode=0o700, exist_ok=True)
            name_path = os.path.join(beside, VHOST_NAME_NAME)
            replace_file(name_path, name.encode("utf-8", "surrogateescape"))
            os.rename(beside, path)
            sync_directory(os.path.dirname(path))

        return path

    def remove_vhost(self, number: int) -> None:
        """Delete the directory of a virtual host; harmless when there is none.

        Raises:
            StoreError: it could not be deleted; the next start goes on with it.

        """
        path = self.vhost_path(number)
        with self.faults():
            if os.path.isdir(path):
                os.rename(path, path + _DELETED_SUFFIX)
                sync_directory(os.path.dirname(path))
                _remove_tree(path + _DELETED_SUFFIX)

    def _name_of(self, number: int) -> str:
        path = os.path.join(self.vhost_path(number), VHOST_NAME_NAME)
        raw = read_file(path)
        if raw is None:
            raise StoreError(
                f"{path} is missing, so nobody knows whose log stands beside it: restore the file"
                " (the name of the virtual host, no line end), or move that directory away"
            )

        return raw.decode("utf-8", "surrogateescape")

    # -- opening

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn what the system says into words that help."""
        try:
            yield
        except OSError as fault:
            path = fault.filename if isinstance(fault.filename, str) else self.path
            why = (fault.strerror or str(fault)).lower()
            where = "" if path == self.path else f" ({path})"
            advice = _ADVICE.get(fault.errno or 0, f"mend it, {_ELSEWHERE}")
            raise StoreError(
                f"cannot use the data directory {self.path}: {why}{where} - {advice}"
            ) from None

    def _check_is_writable(self) -> None:
        """Ask by doing, since that says why not; the lock file may be from better days."""
        probe = os.path.join(self.path, _PROBE)
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
        os.unlink(probe)

    def _check_format(self) -> None:
        path = os.path.join(self.path, FORMAT_NAME)
        raw = read_file(path)
        if raw is None:
            self._check_is_new()
            replace_file(path, f"leveret {FORMAT_VERSION}\n".encode("ascii"))
            return

        check_format(self.path, raw)

    def _check_is_new(self) -> None:
        strange = sorted(set(os.listdir(self.path)) - _NOT_OURS_ALLOWED)
        if strange:
            raise StoreError(
                f"{self.path} is no data directory of Leveret: there is no file '{FORMAT_NAME}' in"
                f" it, but '{strange[0]}' - give an empty directory, or one that is not there yet"
            )

    def _clean_up(self) -> None:
        """Finish what was being made or deleted when a broker ended."""
        vhosts = os.path.join(self.path, VHOSTS_NAME)
        for entry in os.listdir(vhosts):
            if entry.endswith((NEW_SUFFIX, _DELETED_SUFFIX)):
                _remove_tree(os.path.join(vhosts, entry))


def check_format(directory: str, raw: bytes) -> None:
    """Whether this Leveret can read a directory whose file ``format`` says this.

    Raises:
        StoreError: it cannot.

    """
    path = os.path.join(directory, FORMAT_NAME)
    name, _, version = raw.decode("ascii", "replace").strip().partition(" ")
    if name != "leveret" or not (version.isascii() and version.isdecimal()):
        raise StoreError(
            f"{path} is damaged, or not of Leveret: it should say 'leveret {FORMAT_VERSION}'"
        )

    if int(version) > FORMAT_VERSION:
        raise StoreError(
            f"data directory {directory} has format {version}, and this Leveret knows none"
            f" above {FORMAT_VERSION}: run the newer Leveret that wrote it, {_ELSEWHERE}"
        )


def _remove_tree(path: str) -> None:
    # Imported when there is something to remove: starting does not pay for it.
    import shutil

    shutil.rmtree(path)
