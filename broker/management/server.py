"""Serves the API on its listeners (management layer).

Invariant: a server that failed to start, or was stopped, has no socket open.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final, Protocol, cast

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from broker.management.call import is_local
from broker.management.hardening import loggable_path
from broker.management.refusals import QUIET, reticent
from broker.management.threshold import IDLE_S, Threshold

if TYPE_CHECKING:
    import logging
    import socket
    from collections.abc import Callable, Sequence

    Log = Callable[[str, str, dict[str, object]], None]
    OpenEntrance = Callable[[socket.socket, Callable[[], asyncio.BaseProtocol]], "Closable | None"]

__all__ = ["Closable", "ManagementServer", "OpenEntrance"]

SHUTDOWN_WAIT_S: Final = 1.0
"""How long requests that are under way have when the broker stops."""


class Closable(Protocol):
    """Something that accepts until it is closed."""

    def close(self) -> None: ...


class _AccessLog(AbstractAccessLogger):
    """Tells the log of each request. What stands in the place of a logger is the log itself."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        write = cast("Log", self.logger)
        fields: dict[str, object] = {
            "method": request.method,
            "path": loggable_path(request.raw_path),
            "status": response.status,
            "user": _user_of(request.headers.get("authorization", "")),
            "peer": request.remote or "local socket",
            "duration_ms": round(time * 1000, 1),
        }
        write("info", "access.request", fields)

    @property
    def enabled(self) -> bool:
        return True


def _user_of(header: str) -> str | None:
    """The name alone of who asks, whether it was let in or not."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None

    try:
        decoded = base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return None

    return decoded.partition(":")[0]


class ManagementServer:
    """An application on sockets that listen already.

    Args:
        application: the API.
        sockets: closed with the server.
        access_log: told of each request; None for nobody.
        open_entrance: accepts in its own way at a socket; says None where it does not.
        threshold: sees to it that nobody stands in the door.

    """

    def __init__(
        self,
        application: web.Application,
        sockets: Sequence[socket.socket],
        access_log: Log | None = None,
        open_entrance: OpenEntrance | None = None,
        threshold: Threshold | None = None,
    ) -> None:
        self._sockets = sockets
        self._threshold = threshold or Threshold()
        application.middlewares.append(self._threshold.middleware)
        self._open_entrance = open_entrance
        self._servers: list[Closable] = []
        self._runner = web.AppRunner(
            application,
            access_log=cast("logging.Logger | None", access_log),
            access_log_class=_AccessLog,
            logger=QUIET,
            shutdown_timeout=SHUTDOWN_WAIT_S,
            keepalive_timeout=IDLE_S,
        )

    async def start(self) -> None:
        """Answer requests from now on."""
        try:
            await self._runner.setup()
            for listening in self._sockets:
                await self._serve(listening)
        except BaseException:
            await self.stop()
            raise

    async def _serve(self, listening: socket.socket) -> None:
        server = self._runner.server
        assert server is not None
        answerer = self._threshold.guarded(reticent(server))
        if self._open_entrance is not None:
            entrance = self._open_entrance(listening, answerer)
            if entrance is not None:
                self._servers.append(entrance)
                return

        loop = asyncio.get_running_loop()
        if is_local(listening.getsockname()):
            self._servers.append(await loop.create_unix_server(answerer, sock=listening))
        else:
            self._servers.append(await loop.create_server(answerer, sock=listening))

    async def stop(self) -> None:
        """Close everything; harmless when it is stopped."""
        for server in self._servers:
            server.close()

        self._servers.clear()
        self._threshold.stop()
        await self._runner.cleanup()
        for listening in self._sockets:
            listening.close()
