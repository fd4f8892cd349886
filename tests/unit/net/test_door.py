"""A door starts what is behind it when the first connection comes, and once."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from broker.errors import StartError
from broker.net.door import Door, open_all

if TYPE_CHECKING:
    from broker.net.listeners import Address


class _Server:
    def __init__(self) -> None:
        self.stops = 0

    async def stop(self) -> None:
        self.stops += 1


async def test_nothing_is_started_until_somebody_comes_and_then_it_is_started_once() -> None:
    server = _Server()
    came = asyncio.Event()
    starts: list[list[Address]] = []

    async def serve(_sockets: list[socket.socket], addresses: list[Address]) -> _Server:
        starts.append(addresses)
        came.set()
        return server

    door = Door(open_all([("127.0.0.1", 0, None), ("127.0.0.1", 0, None)]), serve)
    await asyncio.sleep(0)
    assert starts == []
    visitors = [socket.create_connection(address[:2]) for address in door.addresses]
    await came.wait()
    visitors.append(socket.create_connection(door.addresses[0][:2]))
    await asyncio.sleep(0)
    assert starts == [door.addresses]
    await door.stop()
    await door.stop()
    assert server.stops == 1
    for visitor in visitors:
        visitor.close()

    with pytest.raises(OSError, match="refused"):
        socket.create_connection(door.addresses[0][:2])


async def test_a_door_nobody_came_to_closes() -> None:
    async def serve(_sockets: list[socket.socket], _addresses: list[Address]) -> _Server:
        raise AssertionError("nobody came")

    door = Door(open_all([("127.0.0.1", 0, None)]), serve)
    await door.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(door.addresses[0][:2])


async def test_a_server_that_cannot_be_started_is_told_and_leaves_nobody_waiting() -> None:
    told: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: told.set_result(context))

    async def serve(_sockets: list[socket.socket], _addresses: list[Address]) -> _Server:
        raise ImportError("half a package")

    door = Door(open_all([("127.0.0.1", 0, None)]), serve)
    visitor = socket.create_connection(door.addresses[0][:2])
    context = await told
    assert str(context["exception"]) == "half a package"
    assert str(door.addresses[0]) in str(context["message"])
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(door.addresses[0][:2])

    visitor.close()
    await door.stop()
    loop.set_exception_handler(None)


async def test_where_one_address_is_taken_none_is_kept() -> None:
    [taken] = open_all([("127.0.0.1", 0, None)])
    with pytest.raises(StartError):
        open_all([("127.0.0.1", 0, None), ("127.0.0.1", taken.getsockname()[1], None)])

    taken.close()
