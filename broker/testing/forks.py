"""Children that a test forks while its broker runs. Layer: testing.

A forked child has a copy of every descriptor of its parent, the broker's sockets among them; and
the system closes a socket with its last copy: a connection that the broker drops would stay open,
and its port taken. Invariant: the child lets go of all sockets of brokers as soon as it is there.
"""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    import selectors
    from collections.abc import Iterator

__all__ = ["Forked", "let_go", "watch"]

DESCRIPTORS: Final = "/dev/fd"


class Forked(Protocol):
    """Who has something to do in the child."""

    def forked(self) -> None:
        """This is the child."""


_watched: WeakSet[Forked] = WeakSet()


def watch(whom: Forked) -> None:
    """Have it told in every child that is forked from now on."""
    _watched.add(whom)


def _in_child() -> None:
    for one in list(_watched):
        one.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def let_go(selector: selectors.BaseSelector) -> None:
    """Give up the sockets of an event loop, and what they have accepted, but not their numbers.

    Objects of the child still have these, and would close whatever had got them since.

    Args:
        selector: the loop's.

    """
    ours = {key.fd for key in selector.get_map().values()}
    open_sockets = dict(_sockets())
    # One that is not read from at the moment is not in the selector; its port tells whose it is.
    ports = {open_sockets[one] for one in ours if open_sockets.get(one)}
    ours |= {one for one, port in open_sockets.items() if port in ports}
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in ours:
        os.dup2(nothing, one, inheritable=False)

    os.close(nothing)


def _sockets() -> Iterator[tuple[int, int]]:
    """The sockets of this process, with their ports; 0 where there is none."""
    for name in os.listdir(DESCRIPTORS):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue

            found = socket.socket(fileno=int(name))
        except OSError:
            # The one that the list was read from.
            continue

        try:
            own = found.getsockname()
        except OSError:
            own = ""
        finally:
            found.detach()

        yield int(name), own[1] if isinstance(own, tuple) else 0
