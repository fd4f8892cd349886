"""An idempotency store in PostgreSQL (extra ``postgres``). Layer: tasks.

Invariant: every step is one statement, or one transaction that first locks the row of its key.
What is compared with a lease is the server's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.tasks.once.base import TTL_S, Claim, ClaimState, Effect, IdempotencyStore
from broker.tasks.postgres_link import PostgresLink, checked_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PostgresOnce"]

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS {schema}.once (
    key text PRIMARY KEY, owner text NOT NULL, outcome bytea, ends_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS once_owner ON {schema}.once (owner) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS once_ends ON {schema}.once (ends_at);
"""
CLAIM: Final = """
INSERT INTO {schema}.once AS kept (key, owner, outcome, ends_at)
VALUES ($1, $2, NULL, now() + make_interval(secs => $3))
ON CONFLICT (key) DO UPDATE
SET owner = excluded.owner, outcome = NULL, ends_at = excluded.ends_at
WHERE kept.ends_at <= now() OR (kept.outcome IS NULL AND kept.owner = excluded.owner)
RETURNING key
"""
LOOK: Final = """
SELECT outcome, greatest(extract(epoch FROM ends_at - now()), 0)::float8 AS wait_s
FROM {schema}.once WHERE key = $1
"""
COMPLETE: Final = """
UPDATE {schema}.once SET outcome = $3, ends_at = now() + make_interval(secs => $4)
WHERE key = $1 AND owner = $2 AND outcome IS NULL RETURNING key
"""
RELEASE: Final = "DELETE FROM {schema}.once WHERE key = $1 AND owner = $2 AND outcome IS NULL"
RELEASE_OWNER: Final = "DELETE FROM {schema}.once WHERE owner = $1 AND outcome IS NULL"
RENEW: Final = """
UPDATE {schema}.once SET ends_at = now() + make_interval(secs => $2)
WHERE owner = $1 AND outcome IS NULL
"""
FORGET: Final = "DELETE FROM {schema}.once WHERE key = $1"
SWEEP: Final = "DELETE FROM {schema}.once WHERE ends_at < now()"


class PostgresOnce(IdempotencyStore):
    """Remembers in a table of PostgreSQL. Effects are SQL statements with ``$1``, ``$2``, ..."""

    has_effects = True

    def __init__(self, dsn: str, *, ttl: float = TTL_S, schema: str = "leveret") -> None:
        super().__init__(ttl=ttl)
        self._schema = checked_schema(schema)
        self._link = PostgresLink(dsn, self._schema, SCHEMA, self._sql(SWEEP))

    async def claim(self, key: str, owner: str, *, lease_s: float) -> Claim:
        async with self._link.acquire() as connection:
            while True:
                if await connection.fetchval(self._sql(CLAIM), key, owner, lease_s) is not None:
                    return Claim(ClaimState.OURS)

                row = await connection.fetchrow(self._sql(LOOK), key)
                if row is None:  # given back since
                    continue

                if row["outcome"] is not None:
                    return Claim(ClaimState.DONE, outcome=bytes(row["outcome"]))

                return Claim(ClaimState.HELD, wait_s=float(row["wait_s"]))

    async def complete(
        self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect] = ()
    ) -> bool:
        async with self._link.acquire() as connection, connection.transaction():
            marked = await connection.fetchval(self._sql(COMPLETE), key, owner, outcome, self.ttl_s)
            if marked is None:
                return False

            for statement, arguments in effects:
                await connection.execute(statement, *arguments)

            return True

    async def release(self, key: str, owner: str) -> None:
        await self._execute(RELEASE, key, owner)

    async def release_owner(self, owner: str) -> None:
        await self._execute(RELEASE_OWNER, owner)

    async def renew(self, owner: str, *, lease_s: float) -> None:
        await self._execute(RENEW, owner, lease_s)

    async def forget(self, key: str) -> None:
        await self._execute(FORGET, key)

    def is_away(self, problem: Exception) -> bool:
        from asyncpg import InterfaceError, PostgresConnectionError
        from asyncpg.exceptions import OperatorInterventionError

        kinds = (InterfaceError, PostgresConnectionError, OperatorInterventionError)
        return isinstance(problem, kinds) or super().is_away(problem)

    async def close(self) -> None:
        await self._link.close()

    async def _execute(self, statement: str, *arguments: object) -> None:
        async with self._link.acquire() as connection:
            await connection.execute(self._sql(statement), *arguments)

    def _sql(self, statement: str) -> str:
        return statement.replace("{schema}", self._schema)
