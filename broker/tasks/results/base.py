"""Toolkit, tasks: what a result backend does. It keeps octets and does not look into them.

Invariant: a result that was stored is found until its time to live is over, by whoever waited for
it before it was there as well as by whoever comes later.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.checks import check_seconds

if TYPE_CHECKING:
    from broker.tasks.link import Link

__all__ = ["TTL_S", "ResultBackend", "Stored", "Waiters"]

TTL_S: Final = 3600.0


class Stored(NamedTuple):
    """What is kept of a task."""

    content_type: str
    body: bytes
    is_final: bool = True
    gives_way: bool = False
    """Whether it is not to take the place of a final one; whoever stores it has looked, where one
    can: see :mod:`broker.tasks.dropped`."""


class ResultBackend(ABC):
    """Keeps results for ``ttl`` seconds.

    What one is kept by, its ``key``, is the name of its task, a line end and the id.
    """

    is_shared: bool = True
    """Whether a process that did not send a task can ask for its result."""

    def __init__(self, ttl: float = TTL_S) -> None:
        check_seconds("ttl", ttl)
        self.ttl_s = float(ttl)

    async def prepare(self, link: Link) -> str:
        """Get ready to wait for results of tasks sent over ``link``.

        Return where they are to go, which is sent along with each task; empty if that is known.
        """
        return ""

    @abstractmethod
    async def store(self, key: str, stored: Stored, *, link: Link, reply_to: str) -> None:
        """Keep what came of a task. A later call replaces an earlier one."""

    @abstractmethod
    async def get(self, key: str, *, link: Link) -> Stored | None:
        """Return what is kept of a task; None if there is nothing, or not any more."""

    @abstractmethod
    async def wait(self, key: str, *, link: Link) -> Stored:
        """Wait until the final outcome of a task is there, and return it."""

    @abstractmethod
    async def forget(self, key: str, *, link: Link) -> None:
        """Let go of what is kept of a task."""

    async def close(self) -> None:
        """Let go of the running loop's connections."""
        return


class Waiters:
    """Who waits for what, in one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> asyncio.Future[None]:
        """Return a future that :meth:`wake` completes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(future)
        return future

    def discard(self, key: str, future: asyncio.Future[None]) -> None:
        """Wait no longer."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[key]

    def has(self, key: str) -> bool:
        """Say whether anybody waits for this."""
        return key in self._waiting

    def wake(self, key: str) -> None:
        """Tell those who wait for this that there is something to look at."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        """Tell everybody to look again."""
        for key in list(self._waiting):
            self.wake(key)
