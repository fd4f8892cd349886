"""Listens for the HTTP API and for ``leveret ctl``, and loads what answers when somebody comes.

Layer: composition root.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from broker.errors import StartError
from broker.local_socket import has_local_sockets, listen_at, remove, socket_in
from broker.net.door import Door, Server, open_all

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping

    from broker.config.schema import Config
    from broker.http_api import Host
    from broker.net.listeners import Address

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["HTTPDoor", "open_http_door"]


class HTTPDoor(Door):
    """A door of which one socket may be in the data directory.

    Args:
        sockets: closed with this; with each what TLS connections are made with, if they are.
        serve: starts the server on them.
        local_path: of the socket that is removed with this; empty where there is none.

    """

    def __init__(
        self,
        sockets: Mapping[socket.socket, str | None],
        serve: Callable[[list[socket.socket], list[Address]], Awaitable[Server]],
        local_path: str,
    ) -> None:
        super().__init__(sockets, serve)
        self.local_path = local_path

    async def stop(self) -> None:
        """Answer no more; harmless when it is stopped."""
        await super().stop()
        if self.local_path:
            remove(self.local_path)


def open_http_door(app: Host, config: Config, log: Log) -> HTTPDoor | None:
    """Listen for the API of a broker; None where there is nowhere to.

    A port that is taken, where the configuration does not name it, is a line in the log; so is a
    data directory that can hold no socket.

    Raises:
        StartError: the configuration names an address that cannot be had.

    """
    opened = _open_addresses(config, log) if config.management.is_enabled else {}
    local = _open_local(app.data_directory, log)
    local_path = ""
    if local is not None:
        local_path, listening = local
        opened[listening] = None

    if not opened:
        return None

    async def serve(sockets: list[socket.socket], addresses: list[Address]) -> Server:
        # AMQP goes on meanwhile.
        module = await asyncio.to_thread(import_module, "broker.http_api")
        entrances = None
        if app.security is not None:
            entrances = partial(app.security.open_entrance, opened)

        api = module.HTTPListening(sockets, addresses, entrances)
        server: Server = await module.start_http_api(app, api, config, log)
        return server

    door = HTTPDoor(opened, serve, local_path)
    fields: dict[str, object] = {"listening": " ".join(map(str, door.addresses))}
    log("info", "management.started", {**fields, "socket": local_path or None})
    return door


def _open_addresses(config: Config, log: Log) -> dict[socket.socket, str | None]:
    try:
        return open_all((one.bind, one.port, one.tls) for one in config.management.listeners)
    except StartError as problem:
        if config.origin.names(("management", "listeners")):
            raise

        log("warning", "management.unavailable", {"reason": str(problem)})
        return {}


def _open_local(directory: str | None, log: Log) -> tuple[str, socket.socket] | None:
    if directory is None or not has_local_sockets():
        return None

    path = socket_in(directory)
    try:
        return path, listen_at(path)
    except OSError as problem:
        reason = f"{path}: {problem.strerror or problem}"
        log("warning", "management.no_socket", {"reason": reason})
        return None
