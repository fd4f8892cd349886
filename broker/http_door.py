"""Listens for the HTTP API, and starts it when somebody comes. Layer: composition root.

The API brings in aiohttp: a third of a second and fifteen megabytes. A broker whose API nobody asks
for pays neither. Whoever comes first waits that third of a second; the socket has listened all
the time.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Final

from broker.errors import StartError
from broker.net.listeners import Address, open_sockets

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from broker.config.schema import Config
    from broker.http_api import HTTPAPI, Host

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["HTTPDoor", "open_http_door"]

BACKLOG: Final = 128


class HTTPDoor:
    """Sockets that listen, with the API behind them or not yet.

    Args:
        app: the broker.
        sockets: closed with this.
        config: of the broker.
        log: takes level, event and fields.

    """

    def __init__(self, app: Host, sockets: list[socket.socket], config: Config, log: Log) -> None:
        self._app = app
        self._sockets = sockets
        self._config = config
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._api: HTTPAPI | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_watched = False
        self.addresses = [Address(*one.getsockname()[:2]) for one in sockets]

    def watch(self) -> None:
        """Start the API when the first connection comes."""
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
        # AMQP goes on meanwhile.
        module = await asyncio.to_thread(import_module, "broker.http_api")
        self._api = await module.start_http_api(
            self._app, self._sockets, self.addresses, self._config, self._log
        )

    async def stop(self) -> None:
        """Answer no more."""
        self._look_away()
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)

        if self._api is not None:
            await self._api.stop()

        for listening in self._sockets:
            listening.close()


def open_http_door(app: Host, config: Config, log: Log) -> HTTPDoor | None:
    """Listen for the API of a broker; None, and a line in the log, where its port is taken.

    Raises:
        StartError: the configuration names an address that cannot be had.

    """
    sockets: list[socket.socket] = []
    try:
        for listener in config.management.listeners:
            sockets += open_sockets(listener.bind, listener.port, BACKLOG)
    except StartError as problem:
        for listening in sockets:
            listening.close()

        if config.origin.names(("management", "listeners")):
            raise

        log("warning", "management.unavailable", {"reason": str(problem)})
        return None

    door = HTTPDoor(app, sockets, config, log)
    door.watch()
    log("info", "management.started", {"listening": " ".join(map(str, door.addresses))})
    return door
