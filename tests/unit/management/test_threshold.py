"""Slow and idle clients of HTTP: each has a time by which something has to happen."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from broker.management.server import ManagementServer
from broker.management.threshold import FIRST_OF_CONNECTION, HEAD_S, IDLE_S, Threshold, _Visit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"


class Watched(Threshold):
    """Tells when somebody has come in, or would have."""

    def __init__(self, connections_max: int, request_timeout_s: float) -> None:
        super().__init__(connections_max, request_timeout_s)
        self.has_entered = asyncio.Event()

    def enter(self, visit: _Visit, transport: asyncio.BaseTransport) -> bool:
        self.has_entered.set()
        return super().enter(visit, transport)


class Scene:
    def __init__(self, threshold: Watched, port: int) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.threshold = threshold
        self.port = port
        self.is_working = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.were_first: list[bool] = []

    async def connect(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that is in."""
        self.threshold.has_entered.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(data)
        await self.threshold.has_entered.wait()
        return reader, writer

    async def handle(self, request: web.Request) -> web.Response:
        self.is_working.set()
        self.were_first.append(FIRST_OF_CONNECTION.get())
        body = await request.read()
        await self.may_end.wait()
        return web.Response(body=body)

    def left_s(self) -> list[int]:
        """How long each connection still has, the one that has waited for longest first."""
        now_s = asyncio.get_running_loop().time()
        return [round(visit.due_s - now_s) for visit in self.threshold._visits]

    def let_time_pass(self) -> None:
        """The time of everybody is over."""
        for visit in self.threshold._visits:
            visit.due_s = 0.0

        self.threshold.sweep()


@asynccontextmanager
async def serving(connections_max: int = 100) -> AsyncIterator[Scene]:
    listening = socket.create_server(("127.0.0.1", 0))
    threshold = Watched(connections_max, 33.0)
    scene = Scene(threshold, listening.getsockname()[1])
    application = web.Application()
    application.router.add_route("*", "/", scene.handle)
    server = ManagementServer(application, [listening], threshold=threshold)
    await server.start()
    yield scene
    scene.may_end.set()
    for writer in scene.writers:
        writer.close()

    await server.stop()


async def assert_cut_off(reader: asyncio.StreamReader) -> None:
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)


async def test_headers_that_never_end_are_not_waited_for() -> None:
    """The slow header attack: a byte now and then keeps no connection."""
    async with serving() as scene:
        reader, writer = await scene.connect(HEAD)
        assert scene.left_s() == [HEAD_S]
        writer.write(b"x-slow: 1\r\n")
        scene.let_time_pass()
        await assert_cut_off(reader)
        assert scene.threshold.count == 0


async def test_who_says_nothing_at_all_is_not_waited_for_either() -> None:
    async with serving() as scene:
        reader, _ = await scene.connect()
        scene.let_time_pass()
        await assert_cut_off(reader)


async def test_a_body_that_never_ends_is_not_waited_for() -> None:
    async with serving() as scene:
        reader, _ = await scene.connect(HEAD + b"\r\nab")
        await scene.is_working.wait()
        assert scene.left_s() == [33]
        scene.let_time_pass()
        await assert_cut_off(reader)


async def test_who_has_sent_all_waits_as_long_as_we_need() -> None:
    async with serving() as scene:
        scene.may_end.clear()
        reader, _ = await scene.connect(HEAD + b"\r\nabcde")
        await scene.is_working.wait()
        await asyncio.sleep(0)
        scene.let_time_pass()
        scene.may_end.set()
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        assert (await reader.readuntil(b"abcde")).endswith(b"abcde")


async def test_a_connection_is_kept_for_the_next_request_but_not_for_ever() -> None:
    async with serving() as scene:
        reader, writer = await scene.connect(HEAD + b"\r\nabcde")
        await reader.readuntil(b"abcde")
        assert scene.left_s() == [IDLE_S]
        scene.is_working.clear()
        writer.write(HEAD + b"\r\nfghij")
        await reader.readuntil(b"fghij")
        scene.let_time_pass()
        await assert_cut_off(reader)


async def test_whoever_has_been_idle_for_longest_makes_room() -> None:
    async with serving(connections_max=2) as scene:
        idle, _ = await scene.connect()
        other, writer = await scene.connect()
        newcomer, _ = await scene.connect(HEAD + b"\r\nabcde")
        await newcomer.readuntil(b"abcde")
        await assert_cut_off(idle)
        writer.write(HEAD + b"\r\nabcde")
        await other.readuntil(b"abcde")


async def test_where_all_are_at_work_there_is_no_room() -> None:
    async with serving(connections_max=1) as scene:
        scene.may_end.clear()
        reader, _ = await scene.connect(HEAD + b"\r\nabcde")
        await scene.is_working.wait()
        newcomer, _ = await scene.connect()
        await assert_cut_off(newcomer)
        scene.may_end.set()
        await reader.readuntil(b"abcde")


@pytest.mark.parametrize("path", ["/", "/nowhere"])
async def test_every_answer_has_the_headers_of_safety(path: str) -> None:
    async with serving() as scene:
        reader, writer = await scene.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        for line in (b"x-content-type-options: nosniff", b"x-frame-options: deny"):
            assert line in head

        assert b"content-security-policy: default-src 'none'" in head


async def test_it_is_known_which_request_is_the_first_of_a_connection() -> None:
    async with serving() as scene:
        for _ in range(2):
            reader, writer = await scene.connect(HEAD + b"\r\nabcde")
            await reader.readuntil(b"abcde")
            writer.write(HEAD + b"\r\nabcde")
            await reader.readuntil(b"abcde")

        assert scene.were_first == [True, False] * 2
