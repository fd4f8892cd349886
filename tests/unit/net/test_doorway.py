"""Who comes too fast is closed unheard, and does not keep the loop from others."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from broker.net import doorway as module
from broker.net.doorway import Doorway

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets cannot be watched there")


@pytest.fixture(autouse=True)
def _rests_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORTEST_REST_S", 60.0)


class Guest(asyncio.Protocol):
    """Tells when somebody was let in."""

    def __init__(self, has_come: asyncio.Event) -> None:
        self._has_come = has_come

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._has_come.set()
        transport.close()


async def test_after_refusals_nobody_is_accepted_for_a_moment_and_then_everybody_is() -> None:
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    is_open = False
    has_come = asyncio.Event()
    doorway = Doorway(loop, listening, lambda: Guest(has_come), lambda _host, _name: is_open)
    address = listening.getsockname()
    try:
        reader, writer = await asyncio.open_connection(*address)
        # Closed unheard.
        assert await reader.read() == b""
        writer.close()
        assert doorway._rest is not None

        is_open = True
        _, writer = await asyncio.open_connection(*address)
        doorway._rest.cancel()
        assert not has_come.is_set()
        doorway._watch()
        await has_come.wait()
        writer.close()
        assert doorway._rest is None
    finally:
        doorway.close()


async def test_it_may_be_closed_while_it_rests() -> None:
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    doorway = Doorway(loop, listening, asyncio.Protocol, lambda _host, _name: False)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    assert await reader.read() == b""
    writer.close()
    doorway.close()
    assert doorway._rest is not None
    assert doorway._rest.cancelled()
