"""The aio-pika suite of interop/ against a broker embedded in the test's own event loop.

The test functions are the very same; here they get a fresh broker each. What waits for wall-clock
time on purpose stays with scripts/interop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from broker.embedded import Broker
from interop.aio_pika import (
    test_connection,
    test_consume,
    test_dead_letter,
    test_exchanges,
    test_patterns,
    test_publish,
    test_queues,
    test_reconnect,
)
from interop.aio_pika.fixtures import channel, connection, make_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from interop.aio_pika.fixtures import RestartableBroker

__all__ = ["channel", "connection", "make_name"]

# The client leaves sockets to the garbage collector when the broker closes a connection first.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_MODULES = (
    test_connection,
    test_publish,
    test_exchanges,
    test_queues,
    test_consume,
    test_dead_letter,
    test_patterns,
    test_reconnect,
)
_SLOW = {
    "test_heartbeat_keeps_a_silent_connection_open",
    "test_two_hundred_connections_come_and_go",
}

# pytest finds tests by the names of this module: the chapters become `connection__test_...`.
for _module in _MODULES:
    _chapter = _module.__name__.rpartition(".")[2]
    for _name, _function in vars(_module).items():
        if _name.startswith("test_") and _name not in _SLOW:
            globals()[f"{_chapter}__{_name.removeprefix('test_')}"] = _function


@pytest_asyncio.fixture(autouse=True)
async def _plain_loop() -> None:
    """Leave asyncio's debug mode: in it the client's many tasks take forty times as long."""
    asyncio.get_running_loop().set_debug(False)


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    """A broker for one test."""
    async with Broker() as broker:
        yield broker.url


class _EmbeddedBroker:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.url = broker.url

    async def start(self) -> None:
        await self._broker.start()

    async def stop(self) -> None:
        await self._broker.stop()


@pytest_asyncio.fixture
async def restartable() -> AsyncIterator[RestartableBroker]:
    """A broker that leaves and comes back on the same port."""
    async with Broker() as probe:
        port = probe.port

    broker = Broker(port=port)
    async with broker:
        yield _EmbeddedBroker(broker)
