"""An idempotency store in a SQLite file: for all processes of one machine. Layer: tasks.

Invariant: every step is one transaction that takes the write lock first, so that processes see one
another's claims in order. All of it runs in one thread per store, never on an event loop. The file
is synced by SQLite (WAL, ``synchronous=NORMAL``): what a killed process wrote is there; a machine
that loses power may forget the last moments, and then runs those tasks again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from broker.tasks.once.base import TTL_S, Claim, ClaimState, Effect, IdempotencyStore

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["SqliteOnce"]

T = TypeVar("T")

BUSY_S: Final = 30.0
"""How long to wait for another process's transaction: they take well under a millisecond."""
SWEEP_S: Final = 60.0

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS leveret_once (
    key TEXT PRIMARY KEY, owner TEXT NOT NULL, outcome BLOB, ends_s REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leveret_once_owner ON leveret_once (owner) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS leveret_once_ends ON leveret_once (ends_s);
"""
CLAIM: Final = """
INSERT INTO leveret_once (key, owner, outcome, ends_s) VALUES (?, ?, NULL, ?)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, outcome = NULL, ends_s = excluded.ends_s
"""
COMPLETE: Final = """
UPDATE leveret_once SET outcome = ?, ends_s = ? WHERE key = ? AND owner = ? AND outcome IS NULL
"""


class SqliteOnce(IdempotencyStore):
    """Remembers in the file at ``path``. Effects are SQL statements on the same file."""

    has_effects = True

    def __init__(self, path: str | os.PathLike[str], *, ttl: float = TTL_S) -> None:
        super().__init__(ttl=ttl)
        self.path = path
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._open: sqlite3.Connection | None = None
        self._swept_s = 0.0

    async def claim(self, key: str, owner: str, *, lease_s: float) -> Claim:
        return await self._run(lambda: self._claim(key, owner, lease_s))

    async def complete(
        self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect] = ()
    ) -> bool:
        return await self._run(lambda: self._complete(key, owner, outcome, effects))

    async def release(self, key: str, owner: str) -> None:
        await self._execute(
            "DELETE FROM leveret_once WHERE key = ? AND owner = ? AND outcome IS NULL", key, owner
        )

    async def release_owner(self, owner: str) -> None:
        await self._execute("DELETE FROM leveret_once WHERE owner = ? AND outcome IS NULL", owner)

    async def renew(self, owner: str, *, lease_s: float) -> None:
        await self._execute(
            "UPDATE leveret_once SET ends_s = ? WHERE owner = ? AND outcome IS NULL",
            time.time() + lease_s,
            owner,
        )

    async def forget(self, key: str) -> None:
        await self._execute("DELETE FROM leveret_once WHERE key = ?", key)

    async def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None

        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    def _claim(self, key: str, owner: str, lease_s: float) -> Claim:
        now_s = time.time()
        with self._transaction() as database:
            if now_s - self._swept_s > SWEEP_S:
                self._swept_s = now_s
                database.execute("DELETE FROM leveret_once WHERE ends_s < ?", (now_s,))

            row = database.execute(
                "SELECT owner, outcome, ends_s FROM leveret_once WHERE key = ?", (key,)
            ).fetchone()
            if row is not None and row[2] > now_s:
                if row[1] is not None:
                    return Claim(ClaimState.DONE, outcome=row[1])

                if row[0] != owner:
                    return Claim(ClaimState.HELD, wait_s=row[2] - now_s)

            database.execute(CLAIM, (key, owner, now_s + lease_s))
            return Claim(ClaimState.OURS)

    def _complete(self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect]) -> bool:
        with self._transaction() as database:
            marked = database.execute(COMPLETE, (outcome, time.time() + self.ttl_s, key, owner))
            if marked.rowcount != 1:
                return False

            for effect in effects:
                database.execute(effect.statement, effect.arguments)

            return True

    async def _execute(self, statement: str, *arguments: object) -> None:
        def run() -> None:
            with self._transaction() as database:
                database.execute(statement, arguments)

        await self._run(run)

    async def _run(self, step: Callable[[], T]) -> T:
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="leveret-once")

            thread = self._thread

        return await asyncio.get_running_loop().run_in_executor(thread, step)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._open
        if database is None:
            database = self._connect()
            self._open = database

        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
        except BaseException:
            database.execute("ROLLBACK")
            raise

        database.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(SCHEMA)
        return database

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
