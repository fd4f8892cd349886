"""Toolkit: where a client lives: in one event loop of one process. Layer: client.

Invariant: elsewhere it says so at once. There its connection would never answer, or two processes
would write to it.
"""

from __future__ import annotations

import asyncio
import os

__all__ = ["Home"]


class Home:
    """The process, and from :meth:`settle` on the event loop, that this was made in."""

    __slots__ = ("_loop", "_process")

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    def settle(self) -> None:
        """It is the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    @property
    def is_other_process(self) -> bool:
        """Whether this process was forked from the one it was made in."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise RuntimeError in another process."""
        if self.is_other_process:
            raise RuntimeError(
                "this client belongs to another process, of which this one is a fork: "
                "connect anew in each"
            )

    def check(self) -> None:
        """Raise RuntimeError in another event loop, or process."""
        self.check_process()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError(
                "this client belongs to another event loop: connect one in each, "
                "or use that of broker.client.sync, which all threads may share"
            )
