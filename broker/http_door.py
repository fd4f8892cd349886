"""Listens for the HTTP API, and loads it when somebody comes. Layer: composition root."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from broker.errors import StartError
from broker.net.door import Door, Server, open_all

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from broker.config.schema import Config
    from broker.http_api import Host
    from broker.net.listeners import Address

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["open_http_door"]


def open_http_door(app: Host, config: Config, log: Log) -> Door | None:
    """Listen for the API of a broker; None, and a line in the log, where its port is taken.

    Raises:
        StartError: the configuration names an address that cannot be had.

    """
    try:
        sockets = open_all((one.bind, one.port) for one in config.management.listeners)
    except StartError as problem:
        if config.origin.names(("management", "listeners")):
            raise

        log("warning", "management.unavailable", {"reason": str(problem)})
        return None

    async def serve(sockets: list[socket.socket], addresses: list[Address]) -> Server:
        # AMQP goes on meanwhile.
        module = await asyncio.to_thread(import_module, "broker.http_api")
        server: Server = await module.start_http_api(app, sockets, addresses, config, log)
        return server

    door = Door(sockets, serve)
    log("info", "management.started", {"listening": " ".join(map(str, door.addresses))})
    return door
