"""Idempotency stores: all of them do the same, with real servers."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from typing import TYPE_CHECKING

import asyncpg
import pytest
import pytest_asyncio
import redis

from broker.tasks import MemoryOnce, PostgresOnce, RedisOnce, SqliteOnce
from broker.tasks.once.base import ClaimState, Effect, IdempotencyStore
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KINDS = ("memory", "sqlite", "redis", "postgres")
OUTCOME = b"\x00what came of it\xff"


@pytest_asyncio.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[IdempotencyStore]:
    one = _store(request.param, request, tmp_path)
    yield one
    await one.close()


def _store(
    kind: str, request: pytest.FixtureRequest, folder: Path, ttl_s: float = 60.0
) -> IdempotencyStore:
    if kind == "memory":
        return MemoryOnce(ttl=ttl_s)

    if kind == "sqlite":
        return SqliteOnce(folder / "once.sqlite", ttl=ttl_s)

    if kind == "redis":
        return RedisOnce(request.getfixturevalue("redis_url"), ttl=ttl_s)

    return PostgresOnce(request.getfixturevalue("postgres_dsn"), ttl=ttl_s)


async def _is_ours(store: IdempotencyStore, key: str, owner: str) -> bool:
    return (await store.claim(key, owner, lease_s=30)).state is ClaimState.OURS


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


async def test_the_first_claim_is_ours(store: IdempotencyStore, key: str) -> None:
    assert (await store.claim(key, "a", lease_s=30)).state is ClaimState.OURS


async def test_another_owner_has_to_wait_for_the_lease(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    claim = await store.claim(key, "b", lease_s=30)
    assert claim.state is ClaimState.HELD
    assert 20 < claim.wait_s <= 30.5


async def test_the_owner_may_claim_again(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    assert (await store.claim(key, "a", lease_s=30)).state is ClaimState.OURS


async def test_of_many_at_once_one_gets_it(store: IdempotencyStore, key: str) -> None:
    claims = await asyncio.gather(
        *(store.claim(key, f"owner {number}", lease_s=30) for number in range(20))
    )
    assert sum(claim.state is ClaimState.OURS for claim in claims) == 1


async def test_what_is_done_is_not_claimed_again(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    assert await store.complete(key, "a", OUTCOME)
    for owner in ("a", "b"):
        claim = await store.claim(key, owner, lease_s=30)
        assert claim.state is ClaimState.DONE
        assert claim.outcome == OUTCOME


async def test_it_is_completed_once(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    assert await store.complete(key, "a", OUTCOME)
    assert not await store.complete(key, "a", b"again")


async def test_who_lost_the_claim_cannot_complete(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=0.05)
    await until(lambda: _is_ours(store, key, "b"))
    assert not await store.complete(key, "a", OUTCOME)
    assert await store.complete(key, "b", OUTCOME)


async def test_a_renewed_lease_lasts(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=1)
    await store.renew("a", lease_s=30)
    claim = await store.claim(key, "b", lease_s=30)
    assert claim.state is ClaimState.HELD
    assert claim.wait_s > 20


async def test_what_is_released_is_free(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    await store.release(key, "b")
    assert (await store.claim(key, "b", lease_s=30)).state is ClaimState.HELD
    await store.release(key, "a")
    assert (await store.claim(key, "b", lease_s=30)).state is ClaimState.OURS


async def test_a_dead_owner_gives_back_what_is_not_done(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    await store.claim(key + "done", "a", lease_s=30)
    await store.complete(key + "done", "a", OUTCOME)
    await store.release_owner("a")
    assert (await store.claim(key, "b", lease_s=30)).state is ClaimState.OURS
    assert (await store.claim(key + "done", "b", lease_s=30)).state is ClaimState.DONE


async def test_what_is_forgotten_can_be_done_again(store: IdempotencyStore, key: str) -> None:
    await store.claim(key, "a", lease_s=30)
    await store.complete(key, "a", OUTCOME)
    await store.forget(key)
    assert (await store.claim(key, "b", lease_s=30)).state is ClaimState.OURS


@pytest.mark.parametrize("kind", KINDS)
async def test_after_its_time_to_live_it_can_be_done_again(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, key: str
) -> None:
    store = _store(kind, request, tmp_path, ttl_s=0.05)
    await store.claim(key, "a", lease_s=30)
    await store.complete(key, "a", OUTCOME)
    await until(lambda: _is_ours(store, key, "b"))
    await store.close()


async def test_memory_refuses_effects(key: str) -> None:
    store = MemoryOnce()
    await store.claim(key, "a", lease_s=30)
    with pytest.raises(TypeError, match="MemoryOnce cannot commit effects"):
        await store.complete(key, "a", OUTCOME, [Effect("INSERT")])


async def test_sqlite_commits_effects_with_the_mark_or_not_at_all(tmp_path: Path, key: str) -> None:
    path = tmp_path / "once.sqlite"
    store = SqliteOnce(path)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sold (hares INTEGER)")

    effect = Effect("INSERT INTO sold VALUES (?)", (2,))
    await store.claim(key, "a", lease_s=30)
    with pytest.raises(sqlite3.OperationalError):
        await store.complete(key, "a", OUTCOME, [effect, Effect("NONSENSE")])

    assert await store.complete(key, "a", OUTCOME, [effect])
    assert not await store.complete(key, "a", OUTCOME, [effect])
    assert not await store.complete("never claimed", "a", OUTCOME, [effect])
    await store.close()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT hares FROM sold").fetchall() == [(2,)]


async def test_postgres_commits_effects_with_the_mark_or_not_at_all(
    postgres_dsn: str, key: str
) -> None:
    import asyncpg

    store = PostgresOnce(postgres_dsn)
    database = await asyncpg.connect(postgres_dsn)
    await database.execute("CREATE TABLE IF NOT EXISTS sold (hares int)")
    effect = Effect("INSERT INTO sold VALUES ($1)", (2,))
    await store.claim(key, "a", lease_s=30)
    with pytest.raises(asyncpg.PostgresError):
        await store.complete(key, "a", OUTCOME, [effect, Effect("NONSENSE")])

    assert await store.complete(key, "a", OUTCOME, [effect])
    assert not await store.complete(key, "a", OUTCOME, [effect])
    assert [row["hares"] for row in await database.fetch("SELECT hares FROM sold")] == [2]
    await database.close()
    await store.close()


async def test_redis_does_effects_with_the_mark(redis_url: str, key: str) -> None:
    from redis.asyncio import Redis

    store = RedisOnce(redis_url)
    effect = Effect("INCRBY", (f"sold:{key}", 2))
    await store.claim(key, "a", lease_s=30)
    assert await store.complete(key, "a", OUTCOME, [effect])
    assert not await store.complete(key, "a", OUTCOME, [effect])
    redis = Redis.from_url(redis_url)
    assert await redis.get(f"sold:{key}") == b"2"
    await redis.aclose()
    await store.close()


async def test_two_processes_share_a_file(tmp_path: Path, key: str) -> None:
    first, second = SqliteOnce(tmp_path / "once"), SqliteOnce(tmp_path / "once")
    await first.claim(key, "a", lease_s=30)
    assert (await second.claim(key, "b", lease_s=30)).state is ClaimState.HELD
    await first.close()
    await second.close()


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan")])
def test_a_time_to_live_is_more_than_nothing(ttl_s: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        MemoryOnce(ttl=ttl_s)


AWAY = [
    (PostgresOnce, asyncpg.AdminShutdownError("x"), True),
    (PostgresOnce, asyncpg.CannotConnectNowError("x"), True),
    (PostgresOnce, asyncpg.ConnectionDoesNotExistError("x"), True),
    (PostgresOnce, asyncpg.InterfaceError("x"), True),
    (PostgresOnce, ConnectionRefusedError(), True),
    (PostgresOnce, asyncpg.UniqueViolationError("x"), False),
    (RedisOnce, redis.ConnectionError(), True),
    (RedisOnce, redis.BusyLoadingError(), True),
    (RedisOnce, redis.TimeoutError(), True),
    (RedisOnce, redis.ResponseError(), False),
]


@pytest.mark.parametrize(("kind", "problem", "is_away"), AWAY)
def test_a_store_that_is_away_is_told_from_one_that_refuses(
    kind: type[PostgresOnce | RedisOnce], problem: Exception, is_away: bool
) -> None:
    url = "postgresql://localhost/x" if kind is PostgresOnce else "redis://localhost/"
    assert kind(url).is_away(problem) is is_away
