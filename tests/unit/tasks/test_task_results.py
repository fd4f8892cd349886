"""Result backends: all of them do the same, with real servers. AMQP's are tested with a broker."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from broker.tasks import MemoryResults, PostgresResults, RedisResults
from broker.tasks.results.base import ResultBackend, Stored
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KINDS = ("memory", "redis", "postgres")
LINK: Any = None
"""Of AMQP these know nothing."""

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
    ids = [uuid.uuid4().hex for _ in range(50)]
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


async def test_who_gives_up_when_it_is_closed_leaves_no_connection(
    redis_url: str, task_id: str
) -> None:
    results = RedisResults(redis_url)
    waiting = asyncio.ensure_future(results.wait(task_id, link=LINK))
    listener = await results._listener()
    await until(lambda: listener.pubsub.subscribed)
    # It unsubscribes in the background, as of a wait that is cancelled twice.
    async with listener._lock:
        waiting.cancel()
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(results.close())
        late = asyncio.ensure_future(listener.unsubscribe("another", asyncio.Future()))
        await asyncio.sleep(0)

    await asyncio.gather(waiting, closing, late, return_exceptions=True)
    assert listener.pubsub.connection is None


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
