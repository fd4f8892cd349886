"""A selector that looks again for a moment before it sleeps. Layer: net.

A process that sleeps in ``epoll_wait`` is woken tens of microseconds after the bytes are there, and
in a virtual machine later still: more than a message takes. So while what is waited for keeps
coming within such a moment, the wait begins with looking again and again.

Invariant: a look that finds nothing takes a part of that habit away, and a thread that reports
takes all of it: a broker that waits for its clients' next idea or for its disk sleeps as any other.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import FileDescriptorLike

    Ready = list[tuple[selectors.SelectorKey, int]]

__all__ = ["HABIT_MAX", "HABIT_MIN", "LOOK_S", "EagerSelector", "new_event_loop"]

LOOK_S: Final = 150e-6
"""For how long it looks, and what counts as a moment.

As long as a peer in the same machine needs to wake, to answer and to sleep again.
"""
HABIT_MIN: Final = 4
"""After so many waits that were short it looks."""
HABIT_MAX: Final = 16
DISAPPOINTMENT: Final = 2
"""What a look that found nothing takes away; what came soon adds one."""


class EagerSelector(selectors.DefaultSelector):
    """What asyncio waits with.

    Args:
        monotonic: tells the time, in seconds.

    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._habit = 0
        # asyncio registers first the pipe through which other threads wake it.
        self._threads: selectors.SelectorKey | None = None

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        """Watch a file; the first one is the one that threads report through."""
        key = super().register(fileobj, events, data)
        if self._threads is None:
            self._threads = key

        return key

    def select(self, timeout: float | None = None) -> Ready:
        """Wait for one of the registered files, at most ``timeout`` seconds."""
        ready = self.look(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready

        start = self._monotonic()
        if self._habit >= HABIT_MIN:
            ready = self._look_for_a_moment(start, timeout)

        if not ready:
            ready = self.look(timeout)

        self._learn(ready, self._monotonic() - start)
        return ready

    def look(self, timeout: float | None) -> Ready:
        """Ask the system once."""
        return super().select(timeout)

    def _look_for_a_moment(self, start: float, timeout: float | None) -> Ready:
        monotonic = self._monotonic
        end = start + (LOOK_S if timeout is None else min(LOOK_S, timeout))
        while monotonic() < end:
            ready = self.look(0)
            if ready:
                return ready

        return []

    def _learn(self, ready: Ready, waited_s: float) -> None:
        if waited_s >= LOOK_S:
            self._habit = max(self._habit - DISAPPOINTMENT, 0)
        elif ready and ready[0][0] is self._threads:
            self._habit = 0
        elif ready:
            self._habit = min(self._habit + 1, HABIT_MAX)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make asyncio's usual loop; where that one waits with a selector, with an eager one."""
    loop = asyncio.new_event_loop()
    if not isinstance(loop, asyncio.SelectorEventLoop):
        return loop

    loop.close()
    return asyncio.SelectorEventLoop(EagerSelector())
