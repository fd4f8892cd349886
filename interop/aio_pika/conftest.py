"""Makes the shared fixtures known to this folder, and gives it a broker that can be stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interop.aio_pika.fixtures import RestartableBroker, channel, connection, make_name

if TYPE_CHECKING:
    from interop.support.process import BrokerProcess

__all__ = ["channel", "connection", "make_name", "restartable"]


class _BrokerInProcess:
    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self.url = process.url

    async def start(self) -> None:
        await asyncio.to_thread(self._process.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self._process.stop)


@pytest.fixture
def restartable(broker_process: BrokerProcess) -> RestartableBroker:
    """Wrap the process for tests that live in an event loop."""
    return _BrokerInProcess(broker_process)
