"""Listens for somebody who may never come, and starts what serves them when they do. Layer: net.

What answers HTTP brings in aiohttp: a third of a second and fifteen megabytes. A broker whose API
and metrics nobody asks for pays neither. Whoever comes first waits that third of a second; the
sockets have listened all the time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from broker.errors import StartError
from broker.net.listeners import Address, open_sockets

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable, Mapping

__all__ = ["Door", "Server", "open_all"]

BACKLOG = 128


class Server(Protocol):
    """What stands behind a door."""

    async def stop(self) -> None: ...


def open_all(listeners: Iterable[tuple[str, int, str | None]]) -> dict[socket.socket, str | None]:
    """Listen at all of these addresses, or at none.

    Args:
        listeners: name or address, port, and what TLS connections are made with, if they are.

    Returns: the last of these for each socket.

    Raises:
        StartError: one of them cannot be had.

    """
    sockets: dict[socket.socket, str | None] = {}
    try:
        for bind, port, tls in listeners:
            sockets.update(dict.fromkeys(open_sockets(bind, port, BACKLOG), tls))
    except StartError:
        for listening in sockets:
            listening.close()

        raise

    return sockets


class Door:
    """Sockets that listen, with a server behind them or not yet.

    Args:
        sockets: closed with this; with each what TLS connections are made with, if they are.
        serve: starts the server on them.

    Attributes:
        addresses: where they listen, but for those in the file system.

    """

    def __init__(
        self,
        sockets: Mapping[socket.socket, str | None],
        serve: Callable[[list[socket.socket], list[Address]], Awaitable[Server]],
    ) -> None:
        self._sockets = list(sockets)
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._server: Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_watched = False
        names = ((one.getsockname(), tls or "") for one, tls in sockets.items())
        # A socket in the file system has a path, and no address.
        self.addresses = [
            Address(name[0], name[1], tls) for name, tls in names if isinstance(name, tuple)
        ]
        self._watch()

    def _watch(self) -> None:
        try:
            for listening in self._sockets:
                self._loop.add_reader(listening, self._knock)
        except NotImplementedError:  # Windows: nothing can be waited for but by accepting it
            self._knock()
        else:
            self._is_watched = True

    def _knock(self) -> None:
        self._look_away()
        if self._opening is None:
            self._opening = self._loop.create_task(self._open())

    def _look_away(self) -> None:
        if self._is_watched:
            self._is_watched = False
            for listening in self._sockets:
                self._loop.remove_reader(listening)

    async def _open(self) -> None:
        try:
            self._server = await self._serve(self._sockets, self.addresses)
        except Exception as fault:
            # Nobody waits for this task. Whoever comes is refused now, and does not wait either.
            for listening in self._sockets:
                listening.close()

            where = " ".join(map(str, self.addresses))
            context = {"message": f"nothing answers at {where}", "exception": fault}
            self._loop.call_exception_handler(context)

    async def stop(self) -> None:
        """Answer no more; harmless when it is stopped."""
        self._look_away()
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)

        if self._server is not None:
            await self._server.stop()
            self._server = None

        for listening in self._sockets:
            listening.close()
