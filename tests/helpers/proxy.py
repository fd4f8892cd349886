"""A line between a client and a broker that can be cut, and be out of order for a while.

Frozen, it is what a broker is whose process was stopped: connections are there, can even be made,
and nobody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Proxy"]


class Proxy:
    """Passes bytes on, both ways: ``async with Proxy(url) as proxy: connect(proxy.url)``."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def url(self) -> str:
        """The URL of the broker, by way of here."""
        user = self._target.netloc.rpartition("@")[0]
        netloc = f"{user}@127.0.0.1:{self._port}" if user else f"127.0.0.1:{self._port}"
        return urlunsplit(self._target._replace(netloc=netloc))

    async def open(self) -> None:
        """Let connections through."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Let none through, and cut those that are there."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

        await self.cut()

    async def cut(self) -> None:
        """Cut the connections that are there."""
        for writer in list(self._writers):
            writer.transport.abort()

        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()

        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._tasks)

    def freeze(self) -> None:
        """Pass on nothing any more, and leave everything open."""
        self._flows.clear()

    def thaw(self) -> None:
        """Go on where it was stopped."""
        self._flows.set()

    async def __aenter__(self) -> Proxy:
        await self.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._flows.wait()
            there, back = await asyncio.open_connection(
                self._target.hostname, self._target.port or 5672
            )
            self._writers.add(back)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_on(reader, back))
                    group.create_task(self._pass_on(there, writer))
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except (asyncio.CancelledError, OSError, ExceptionGroup):
            return
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()

        writer.close()
