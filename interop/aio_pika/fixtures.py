"""Fixtures of the aio-pika suite; `tests/integration` uses them against an embedded broker.

Both places give the fixture ``url``; all else follows from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

import aio_pika
import pytest_asyncio

from interop.support.names import unique_name

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection

__all__ = ["NameMaker", "RestartableBroker", "channel", "connection", "make_name"]

NameMaker = Callable[[str], str]


class RestartableBroker(Protocol):
    """A broker of the test's own that serves the same port after each start."""

    @property
    def url(self) -> str:
        """Where it serves when it does."""

    async def start(self) -> None:
        """Return when it accepts connections."""

    async def stop(self) -> None:
        """Return when it has gone."""


@pytest_asyncio.fixture
async def connection(url: str) -> AsyncIterator[AbstractConnection]:
    """A plain connection, closed after the test."""
    opened = await aio_pika.connect(url)
    async with opened:
        yield opened


@pytest_asyncio.fixture
async def channel(connection: AbstractConnection) -> AbstractChannel:
    """A channel with confirms and returns, as aio-pika opens it by default."""
    return await connection.channel()


@pytest_asyncio.fixture
async def make_name(url: str) -> AsyncIterator[NameMaker]:
    """Make names of queues and exchanges; what bears them is deleted after the test."""
    made: list[str] = []

    def make(kind: str) -> str:
        made.append(unique_name(kind))
        return made[-1]

    yield make
    if made:
        async with await aio_pika.connect(url) as cleaner:
            channel = await cleaner.channel()
            for name in made:
                await channel.queue_delete(name)
                await channel.exchange_delete(name)
