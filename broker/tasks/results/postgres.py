"""Toolkit, tasks: results in PostgreSQL (extra ``postgres``).

Invariant: who waits is on the list before looking, so nothing comes in between; one connection per
event loop listens for all of them, however many wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.tasks.per_loop import PerLoop
from broker.tasks.postgres_link import PostgresLink, checked_schema
from broker.tasks.results.base import TTL_S, ResultBackend, Stored, Waiters

if TYPE_CHECKING:
    import asyncpg

    from broker.tasks.link import Link

__all__ = ["PostgresResults"]

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS {schema}.results (
    id text PRIMARY KEY, content_type text NOT NULL, body bytea NOT NULL,
    is_final boolean NOT NULL, ends_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS results_ends ON {schema}.results (ends_at);
"""
STORE: Final = """
INSERT INTO {schema}.results (id, content_type, body, is_final, ends_at)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))
ON CONFLICT (id) DO UPDATE SET content_type = excluded.content_type, body = excluded.body,
    is_final = excluded.is_final, ends_at = excluded.ends_at
"""
GET: Final = """
SELECT content_type, body, is_final FROM {schema}.results WHERE id = $1 AND ends_at > now()
"""
FORGET: Final = "DELETE FROM {schema}.results WHERE id = $1"
SWEEP: Final = "DELETE FROM {schema}.results WHERE ends_at < now()"


class _Listener:
    """What listens in one event loop."""

    def __init__(self) -> None:
        self.waiters = Waiters()
        self.lock = asyncio.Lock()
        self.connection: asyncpg.Connection | None = None


class PostgresResults(ResultBackend):
    """Keeps results in a table of PostgreSQL, where every process finds them."""

    def __init__(self, dsn: str, ttl: float = TTL_S, *, schema: str = "leveret") -> None:
        super().__init__(ttl)
        self._schema = checked_schema(schema)
        self._link = PostgresLink(dsn, self._schema, SCHEMA, self._sql(SWEEP))
        self._listeners: PerLoop[_Listener] = PerLoop()

    async def store(self, key: str, stored: Stored, *, link: Link, reply_to: str) -> None:
        content_type, body, is_final, _ = stored
        async with self._link.acquire() as connection, connection.transaction():
            await connection.execute(
                self._sql(STORE), key, content_type, body, is_final, self.ttl_s
            )
            if is_final:
                await connection.execute("SELECT pg_notify($1, $2)", self._channel(), key)

    async def get(self, key: str, *, link: Link) -> Stored | None:
        async with self._link.acquire() as connection:
            row = await connection.fetchrow(self._sql(GET), key)

        if row is None:
            return None

        return Stored(row["content_type"], bytes(row["body"]), row["is_final"])

    async def wait(self, key: str, *, link: Link) -> Stored:
        listener = self._listeners.get() or self._listeners.set(_Listener())
        while True:
            await self._listen(listener)
            future = listener.waiters.add(key)
            try:
                stored = await self.get(key, link=link)
                if stored is not None and stored.is_final:
                    return stored

                await future
            finally:
                listener.waiters.discard(key, future)

    async def forget(self, key: str, *, link: Link) -> None:
        async with self._link.acquire() as connection:
            await connection.execute(self._sql(FORGET), key)

    async def close(self) -> None:
        listener = self._listeners.pop()
        if listener is not None and listener.connection is not None:
            await listener.connection.close()

        await self._link.close()

    async def _listen(self, listener: _Listener) -> None:
        async with listener.lock:
            if listener.connection is not None and not listener.connection.is_closed():
                return

            connection = await self._link.connect()
            await connection.add_listener(
                self._channel(), lambda _connection, _pid, _channel, id_: listener.waiters.wake(id_)
            )
            # Whoever waits looks again when the connection is lost, and connects again.
            connection.add_termination_listener(lambda _: listener.waiters.wake_all())
            listener.connection = connection

    def _channel(self) -> str:
        return f"{self._schema}_results"

    def _sql(self, statement: str) -> str:
        return statement.replace("{schema}", self._schema)
