"""Compares slow password hashes in threads. Layer: net.

Whoever knocks makes work here, so it is bounded and shared out: one hash at a time on one core, in
a thread that gives way to the broker's own where the system knows such a thing; addresses take
turns, and each has so many places in the line. The same password for the same user is compared
once, however many wait for it: a thousand clients that come back at once are one hash.

Invariant: callbacks run in the loop, as commands to the core; after :meth:`stop` none does.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from broker.auth.passwords import verify_password

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.auth.logins import Check

__all__ = ["WAITING_MAX", "WAITING_PER_SOURCE_MAX", "ThreadedVerifier"]

WAITING_PER_SOURCE_MAX: Final = 32
"""Passwords of one address that wait to be compared: a second of one core."""

WAITING_MAX: Final = 256
"""Of all together: the last one has its answer before its handshake is out of time (eight seconds).
Who comes while they wait is refused."""

WATCHERS_MAX: Final = 65_536
"""Connections that wait for the same one."""

NICENESS: Final = 10
"""What the thread adds to the niceness of the process, on Linux, where a thread has its own."""


class ThreadedVerifier:
    """Compares hashes for one broker.

    Args:
        loop: that the broker runs in.
        run: does one thing to the core from outside a connection.

    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run: Callable[[Callable[[], None]], None]
    ) -> None:
        self._loop = loop
        self._run = run
        self._pool: ThreadPoolExecutor | None = None
        self._is_busy = False
        self._is_open = True
        # Who waits for a check, and the checks by address; the addresses take turns.
        self._watchers: dict[bytes, list[Callable[[bool], None]]] = {}
        self._lines: dict[str, deque[Check]] = {}

    @property
    def waiting_count(self) -> int:
        """Checks that are under way or wait."""
        return len(self._watchers)

    def verify(self, check: Check, then: Callable[[bool], None]) -> bool:
        """Compare a password and call back; False where too many wait already."""
        watchers = self._watchers.get(check.key)
        if watchers is not None:
            if len(watchers) >= WATCHERS_MAX:
                return False

            watchers.append(then)
            return True

        line = self._lines.get(check.source)
        if not self._is_open or len(self._watchers) >= WAITING_MAX:
            return False

        if line is not None and len(line) >= WAITING_PER_SOURCE_MAX:
            return False

        self._watchers[check.key] = [then]
        self._lines.setdefault(check.source, deque()).append(check)
        self._go_on()
        return True

    def stop(self) -> None:
        """Call nobody back any more; what is under way is left to end."""
        self._is_open = False
        self._watchers.clear()
        self._lines.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _go_on(self) -> None:
        if self._is_busy or not self._lines:
            return

        source = next(iter(self._lines))
        line = self._lines.pop(source)
        check = line.popleft()
        if line:
            # Its next one waits until everybody else had a turn.
            self._lines[source] = line

        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "leveret-passwords", initializer=_give_way)

        self._is_busy = True
        future = self._pool.submit(verify_password, check.password, check.expected)
        future.add_done_callback(lambda done: self._tell(check.key, done))

    def _tell(self, key: bytes, done: Future[bool]) -> None:
        """Runs in the thread."""
        if done.cancelled():
            return

        is_right = done.exception() is None and done.result()
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended, key, is_right)

    def _ended(self, key: bytes, is_right: bool) -> None:
        self._is_busy = False
        watchers = self._watchers.pop(key, [])
        self._go_on()

        def tell_all() -> None:
            for then in watchers:
                then(is_right)

        if watchers:
            self._run(tell_all)


def _give_way() -> None:
    """Let the broker's own thread go before this one, where threads have their own niceness."""
    setpriority = getattr(os, "setpriority", None)
    if setpriority is not None and os.uname().sysname == "Linux":
        with contextlib.suppress(OSError):
            setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
