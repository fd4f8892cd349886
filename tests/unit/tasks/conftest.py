"""Servers that the stores of tasks are tested with, once per run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.helpers.servers import postgres_server, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest_asyncio.fixture(autouse=True)
async def _plain_loop() -> None:
    """Leave asyncio's debug mode: in it the libraries' many steps take very long."""
    asyncio.get_running_loop().set_debug(False)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    with postgres_server() as dsn:
        yield dsn
