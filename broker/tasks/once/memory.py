"""An idempotency store in memory: for tests, and for one process. Layer: tasks.

Invariant: it may be used from several threads and event loops; every step holds one lock.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from broker.tasks.once.base import TTL_S, Claim, ClaimState, Effect, IdempotencyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["MemoryOnce"]

SWEEP_EVERY: Final = 1024
"""Claims between two looks at what is over; keeps memory in proportion to what is alive."""


class _Entry:
    __slots__ = ("ends_s", "outcome", "owner")

    def __init__(self, owner: str, ends_s: float) -> None:
        self.owner = owner
        self.outcome: bytes | None = None
        self.ends_s = ends_s


class MemoryOnce(IdempotencyStore):
    """Remembers in this process only: a restart forgets, and other processes do not see it."""

    is_shared = False

    def __init__(self, *, ttl: float = TTL_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(ttl=ttl)
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._claims = 0

    def __len__(self) -> int:
        return len(self._entries)

    async def claim(self, key: str, owner: str, *, lease_s: float) -> Claim:
        now_s = self._clock()
        with self._lock:
            self._sweep(now_s)
            entry = self._entries.get(key)
            if entry is None or entry.ends_s <= now_s:
                self._entries[key] = _Entry(owner, now_s + lease_s)
                return Claim(ClaimState.OURS)

            if entry.outcome is not None:
                return Claim(ClaimState.DONE, outcome=entry.outcome)

            if entry.owner == owner:
                entry.ends_s = now_s + lease_s
                return Claim(ClaimState.OURS)

            return Claim(ClaimState.HELD, wait_s=entry.ends_s - now_s)

    async def complete(
        self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect] = ()
    ) -> bool:
        self.refuse_effects(effects)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.owner != owner or entry.outcome is not None:
                return False

            entry.outcome = outcome
            entry.ends_s = self._clock() + self.ttl_s
            return True

    async def release(self, key: str, owner: str) -> None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.owner == owner and entry.outcome is None:
                del self._entries[key]

    async def release_owner(self, owner: str) -> None:
        with self._lock:
            gone = [
                key
                for key, entry in self._entries.items()
                if entry.owner == owner and entry.outcome is None
            ]
            for key in gone:
                del self._entries[key]

    async def renew(self, owner: str, *, lease_s: float) -> None:
        ends_s = self._clock() + lease_s
        with self._lock:
            for entry in self._entries.values():
                if entry.owner == owner and entry.outcome is None:
                    entry.ends_s = ends_s

    async def forget(self, key: str) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def _sweep(self, now_s: float) -> None:
        self._claims += 1
        if self._claims % SWEEP_EVERY:
            return

        for key in [key for key, entry in self._entries.items() if entry.ends_s <= now_s]:
            del self._entries[key]
