"""Toolkit, tasks: results in the memory of one process: for tests, and for workers in a thread.

Invariant: every step holds one lock, so several threads and loops may use it; a result is there
before those who wait for it are told.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from broker.client.checks import check_count
from broker.tasks.results.base import TTL_S, ResultBackend, Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tasks.link import Link

__all__ = ["MemoryResults"]

RESULTS_MAX: Final = 100_000
"""The oldest go when there are more."""


class MemoryResults(ResultBackend):
    """Keeps results in this process: only handles and workers of this process see them."""

    def __init__(
        self,
        ttl: float = TTL_S,
        *,
        count_max: int = RESULTS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ttl)
        check_count("count_max", count_max)
        self._count_max = count_max
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, Stored]] = OrderedDict()
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        with self._lock:
            self._drop_old()
            return len(self._kept)

    async def store(self, key: str, stored: Stored, *, link: Link, reply_to: str) -> None:
        self.put(key, stored)

    def put(self, key: str, stored: Stored) -> None:
        """Keep what came of a task, from any thread."""
        with self._lock:
            there = self._look(key) if stored.gives_way else None
            if there is not None and there.is_final:
                return

            self._kept.pop(key, None)
            self._kept[key] = (self._clock() + self.ttl_s, stored)
            self._drop_old()
            waiting = self._waiting.pop(key, set()) if stored.is_final else set()

        for future in waiting:
            future.get_loop().call_soon_threadsafe(_wake, future)

    async def get(self, key: str, *, link: Link) -> Stored | None:
        with self._lock:
            return self._look(key)

    async def wait(self, key: str, *, link: Link) -> Stored:
        while True:
            future = asyncio.get_running_loop().create_future()
            with self._lock:
                stored = self._look(key)
                if stored is not None and stored.is_final:
                    return stored

                self._waiting.setdefault(key, set()).add(future)

            try:
                await future
            finally:
                with self._lock:
                    waiting = self._waiting.get(key)
                    if waiting is not None:
                        waiting.discard(future)
                        if not waiting:
                            del self._waiting[key]

    async def forget(self, key: str, *, link: Link) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _look(self, key: str) -> Stored | None:
        kept = self._kept.get(key)
        if kept is None or kept[0] <= self._clock():
            return None

        return kept[1]

    def _drop_old(self) -> None:
        now_s = self._clock()
        while self._kept:
            ends_s, _ = next(iter(self._kept.values()))
            if ends_s > now_s and len(self._kept) <= self._count_max:
                return

            self._kept.popitem(last=False)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
