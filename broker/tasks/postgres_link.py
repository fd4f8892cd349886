"""Toolkit, tasks: a pool of connections to PostgreSQL per event loop (extra ``postgres``).

Invariant: the schema exists before the first connection is handed out. Several processes may make
it at once: an advisory lock puts them in a row.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from broker.client.checks import shown
from broker.client.errors import InvalidValue
from broker.tasks.extras import needs_extra
from broker.tasks.per_loop import PerLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

__all__ = ["PostgresLink", "checked_schema"]

CONNECTIONS_MAX: Final = 8
SWEEP_S: Final = 60.0
LOCK: Final = 0x6C657665
"""An arbitrary number of ours: the letters "leve"."""


class _Pool:
    """What belongs to one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.pool: asyncpg.Pool | None = None
        self.swept_s = time.monotonic()


class PostgresLink:
    """Connects to ``dsn`` and makes tables.

    Args:
        dsn: as in ``postgresql://user:password@host:5432/database``.
        schema: the schema that all tables are in.
        tables: the statements that make them where they are not.
        sweep: a statement that deletes what is over; run now and then.

    """

    def __init__(self, dsn: str, schema: str, tables: str, sweep: str) -> None:
        self.dsn = dsn
        self._schema = schema
        self._tables = tables.replace("{schema}", schema)
        self._sweep = sweep
        self._pools: PerLoop[_Pool] = PerLoop()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[PoolConnectionProxy]:
        """Lend a connection of the running loop's pool."""
        own = self._pools.get() or self._pools.set(_Pool())
        if own.pool is None:
            async with own.lock:
                if own.pool is None:
                    own.pool = await self._open()

        async with own.pool.acquire() as connection:
            if time.monotonic() - own.swept_s > SWEEP_S:
                own.swept_s = time.monotonic()
                await connection.execute(self._sweep)

            yield connection

    async def connect(self) -> asyncpg.Connection:
        """Open a connection beside the pool, to listen on."""
        async with self.acquire():
            pass

        with needs_extra("postgres"):
            import asyncpg as library

        return await library.connect(self.dsn)

    async def close(self) -> None:
        """Close the pool of the running loop."""
        own = self._pools.pop()
        if own is not None and own.pool is not None:
            await own.pool.close()

    async def _open(self) -> asyncpg.Pool:
        with needs_extra("postgres"):
            import asyncpg as library

        pool = await library.create_pool(self.dsn, min_size=1, max_size=CONNECTIONS_MAX)
        try:
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
                await connection.execute(self._tables)
        except BaseException:
            # Who gave up meanwhile leaves nobody who could close it.
            pool.terminate()
            raise

        return pool


def checked_schema(name: str) -> str:
    """Return a name of a schema that needs no quoting, or raise."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
        raise InvalidValue(f"schema is to be a name of a-z, 0-9 and _, not {shown(name)}")

    return name
