"""Fixtures of the toolkit's tests: a broker, a client, and names that nobody else uses."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from broker.client import Client, connect
from broker.client.spec import dead_queue_name
from broker.embedded import Broker
from broker.tasks import AmqpResults, MemoryResults, PostgresResults, RedisResults, Tasks
from tests.helpers.proxy import Proxy
from tests.helpers.servers import postgres_server, redis_server
from tests.helpers.toolkit import LIVE_URL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from broker.tasks import ResultBackend

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The client's library leaves sockets to the garbage collector when it loses a connection."""
    mark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(mark)


@pytest_asyncio.fixture(autouse=True)
async def _plain_loop() -> None:
    """Leave asyncio's debug mode: in it the library's many tasks take forty times as long."""
    asyncio.get_running_loop().set_debug(False)


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    """Where a broker is."""
    if LIVE_URL is not None:
        yield LIVE_URL
        return

    async with Broker(log_level="error") as broker:
        yield broker.url


@pytest_asyncio.fixture
async def client(url: str) -> AsyncIterator[Client]:
    """A client of it."""
    async with connect(url, name="toolkit tests") as opened:
        yield opened


@pytest_asyncio.fixture
async def proxy(url: str) -> AsyncIterator[Proxy]:
    """A line to it that can be cut."""
    async with Proxy(url) as line:
        yield line


@pytest_asyncio.fixture
async def name(url: str) -> AsyncIterator[Callable[[str], str]]:
    """Make names of queues; these, and their dead letters, are deleted after the test."""
    made: list[str] = []

    def make(kind: str = "queue") -> str:
        made.append(f"toolkit-test.{kind}.{uuid.uuid4().hex[:12]}")
        return made[-1]

    yield make
    if LIVE_URL is None or not made:
        return

    async with connect(url) as cleaner:
        for queue in made:
            for one in (queue, dead_queue_name(queue)):
                await cleaner.delete(one)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    with postgres_server() as dsn:
        yield dsn


@pytest.fixture(params=["amqp", "shared", "memory", "redis", "postgres"])
def results(request: pytest.FixtureRequest) -> ResultBackend:
    """A back end of each kind."""
    if request.param == "redis":
        return RedisResults(request.getfixturevalue("redis_url"))

    if request.param == "postgres":
        return PostgresResults(request.getfixturevalue("postgres_dsn"))

    if request.param == "memory":
        return MemoryResults()

    return AmqpResults(shared=request.param == "shared")


@pytest_asyncio.fixture
async def make(url: str) -> AsyncIterator[Callable[..., Tasks]]:
    """Make applications; their queues are deleted after the test."""
    made: list[Tasks] = []

    def new(**settings: Any) -> Tasks:
        at = settings.pop("at", url)
        name = settings.pop("name", f"toolkit-test.tasks-{time.time_ns():x}")
        made.append(Tasks(at, name=name, **settings))
        return made[-1]

    yield new
    for tasks in made:
        await tasks.close()

    async with connect(url) as client:
        for tasks in made:
            for queue in [*tasks.queues(), f"{tasks.name}.beat", f"{tasks.name}.dropped"]:
                await client.delete(queue)
                await client.delete(f"{queue}.dead")
