"""The socket in a data directory by which ``leveret ctl`` finds its broker. Layer: base.

Whoever can open it is an administrator, so it is for its owner alone (0600) from the moment that it
accepts. The broker that has locked the directory is the only one to make it: one that is there
already was left by a broker that was killed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SOCKET_NAME", "connect_to", "has_local_sockets", "listen_at", "remove", "socket_in"]

SOCKET_NAME: Final = "ctl.sock"

MODE: Final = 0o600
BACKLOG: Final = 16
PATH_BYTES_MAX: Final = 103
"""What the address of such a socket may hold on every system."""


def has_local_sockets() -> bool:
    """Whether this system has such sockets for Python; Windows has none."""
    return hasattr(socket, "AF_UNIX")


def socket_in(directory: str) -> str:
    """Where the socket of a data directory is."""
    return os.path.join(directory, SOCKET_NAME)


def listen_at(path: str) -> socket.socket:
    """Listen at a path that nobody else listens at.

    Raises:
        OSError: the system, or the file system, does not let it.

    """
    remove(path)
    # Where the other is not there, nobody asks.
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        with _short(path) as address:
            listening.bind(address)

        # Before it listens, nobody can connect, whatever its mode is.
        os.chmod(path, MODE)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise

    return listening


def remove(path: str) -> None:
    """Remove the socket; harmless where there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def connect_to(path: str, timeout_s: float | None) -> socket.socket:
    """Connect to a broker.

    Raises:
        OSError: there is none.

    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with _short(path) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise

    return connection


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """A path that is short enough for an address, for as long as it is needed."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX or not sys.platform.startswith("linux"):
        yield path
        return

    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)
