"""Result backends: all of them do the same, with real servers. AMQP's are tested with a broker."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from broker.tasks import MemoryResults, PostgresResults, RedisResults
from broker.tasks.results.base import ResultBackend, Stored
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KINDS = ("memory", "redis", "postgres")
LINK: Any = None
"""Of AMQP these know nothing."""

TURNS_MAX = 60
"""It takes fewer turns of the loop to connect and to begin to wait."""

SILENCE_S = 3.0
"""Less than the library waits for an answer."""

DONE = Stored("application/json", b'["succeeded"]')
PROGRESS = Stored("application/json", b'["started"]', is_final=False)


def _backend(kind: str, request: pytest.FixtureRequest, ttl: float = 60.0) -> ResultBackend:
    if kind == "memory":
        return MemoryResults(ttl)

    if kind == "redis":
        return RedisResults(request.getfixturevalue("redis_url"), ttl)

    return PostgresResults(request.getfixturevalue("postgres_dsn"), ttl)


@pytest_asyncio.fixture(params=KINDS)
async def results(request: pytest.FixtureRequest) -> AsyncIterator[ResultBackend]:
    one = _backend(request.param, request)
    yield one
    await one.close()


@pytest.fixture
def task_id() -> str:
    return uuid.uuid4().hex


async def test_of_an_unknown_task_there_is_nothing(results: ResultBackend, task_id: str) -> None:
    assert await results.get(task_id, link=LINK) is None


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(DONE, id="json"),
        pytest.param(PROGRESS, id="progress"),
        pytest.param(Stored("application/msgpack", bytes(range(256))), id="octets"),
        pytest.param(Stored("", b""), id="nothing"),
    ],
)
async def test_what_is_stored_is_found(
    results: ResultBackend, task_id: str, stored: Stored
) -> None:
    await results.store(task_id, stored, link=LINK, reply_to="")
    assert await results.get(task_id, link=LINK) == stored
    assert await results.get(task_id, link=LINK) == stored


async def test_who_waits_is_told(results: ResultBackend, task_id: str) -> None:
    waiting = [asyncio.ensure_future(results.wait(task_id, link=LINK)) for _ in range(5)]
    await asyncio.sleep(0)
    await results.store(task_id, PROGRESS, link=LINK, reply_to="")
    await results.store(task_id, DONE, link=LINK, reply_to="")
    async with asyncio.timeout(10):
        assert await asyncio.gather(*waiting) == [DONE] * 5


async def test_who_comes_later_does_not_wait(results: ResultBackend, task_id: str) -> None:
    await results.store(task_id, DONE, link=LINK, reply_to="")
    async with asyncio.timeout(10):
        assert await results.wait(task_id, link=LINK) == DONE


async def test_many_results_race_with_those_who_wait(results: ResultBackend) -> None:
    # More than the libraries open connections.
    ids = [uuid.uuid4().hex for _ in range(150)]
    waiting = [asyncio.ensure_future(results.wait(one, link=LINK)) for one in ids]
    async with asyncio.timeout(15):
        await asyncio.gather(*(results.store(one, DONE, link=LINK, reply_to="") for one in ids))
        assert await asyncio.gather(*waiting) == [DONE] * len(ids)


async def test_who_gives_up_leaves_the_others_waiting(results: ResultBackend, task_id: str) -> None:
    patient = asyncio.ensure_future(results.wait(task_id, link=LINK))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await results.wait(task_id, link=LINK)

    await results.store(task_id, DONE, link=LINK, reply_to="")
    async with asyncio.timeout(10):
        assert await patient == DONE


async def test_who_gives_up_is_let_go_wherever_that_is(
    results: ResultBackend, task_id: str
) -> None:
    """The library's ``asyncio.wait_for`` misses a cancel of Python 3.11 that comes as it ends."""
    waiting: list[asyncio.Future[Stored]] = []
    for turns in range(TURNS_MAX):
        waiting.append(asyncio.ensure_future(results.wait(f"{task_id}{turns}", link=LINK)))
        for _ in range(turns):
            await asyncio.sleep(0)

        waiting[-1].cancel()

    _, left = await asyncio.wait(waiting, timeout=10)
    for one in left:
        one.cancel()

    assert [turns for turns, one in enumerate(waiting) if one in left] == []
    assert all(one.cancelled() for one in waiting)


async def test_who_gives_up_while_redis_is_silent_is_let_go(task_id: str) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        results = RedisResults(f"redis://127.0.0.1:{port}/0")
        began_s = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await results.wait(task_id, link=LINK)

        assert time.monotonic() - began_s < SILENCE_S
        await results.close()


async def test_a_result_is_found_that_came_while_the_connection_was_lost(
    redis_url: str, task_id: str
) -> None:
    results = RedisResults(redis_url)
    waiting = asyncio.ensure_future(results.wait(task_id, link=LINK))
    async with Redis.from_url(redis_url) as redis:
        channel = f"leveret:result:{task_id}"

        async def listens() -> bool:
            return bool((await redis.pubsub_numsub(channel))[0][1])

        await until(listens)
        # All in one step, so that nobody can listen again in between.
        async with redis.pipeline(transaction=True) as step:
            step.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            step.set(channel, b".application/json\n" + DONE.body)
            step.publish(channel, b"")
            await step.execute()

    async with asyncio.timeout(10):
        assert await waiting == DONE

    await results.close()


async def test_who_gives_up_when_it_is_closed_leaves_no_connection(
    redis_url: str, task_id: str
) -> None:
    results = RedisResults(f"{redis_url}?client_name={task_id}")
    waiting = asyncio.ensure_future(results.wait(task_id, link=LINK))
    async with Redis.from_url(redis_url) as redis:

        async def connections() -> int:
            return sum(one["name"] == task_id for one in await redis.client_list())

        async def has_two() -> bool:
            return await connections() == 2

        async def has_none() -> bool:
            return await connections() == 0

        await until(has_two)
        waiting.cancel()
        await results.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        await until(has_none)


async def test_what_is_forgotten_is_gone(results: ResultBackend, task_id: str) -> None:
    await results.store(task_id, DONE, link=LINK, reply_to="")
    await results.forget(task_id, link=LINK)
    assert await results.get(task_id, link=LINK) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_does_not_outlive_its_time(
    kind: str, request: pytest.FixtureRequest, task_id: str
) -> None:
    results = _backend(kind, request, ttl=0.05)
    await results.store(task_id, DONE, link=LINK, reply_to="")

    async def is_gone() -> bool:
        return await results.get(task_id, link=LINK) is None

    await until(is_gone)
    await results.close()


async def test_memory_keeps_a_bounded_number(task_id: str) -> None:
    results = MemoryResults(count_max=3)
    for number in range(10):
        results.put(str(number), DONE)

    assert len(results) == 3
    assert await results.get("9", link=LINK) == DONE
    assert await results.get("6", link=LINK) is None


async def test_memory_wakes_waiters_of_other_loops() -> None:
    results = MemoryResults()

    def wait() -> Stored:
        return asyncio.run(asyncio.wait_for(results.wait("x", link=LINK), 10))

    waiting = asyncio.get_running_loop().run_in_executor(None, wait)
    await asyncio.sleep(0.02)
    results.put("x", DONE)
    assert await waiting == DONE


@pytest.mark.parametrize("ttl", [0, -1, float("inf"), True])
def test_a_time_to_live_is_a_number_of_seconds(ttl: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        MemoryResults(ttl)
