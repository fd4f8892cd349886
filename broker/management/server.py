"""Serves the API on its listeners (management layer).

Invariant: a server that failed to start, or was stopped, has no socket open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

__all__ = ["ManagementServer"]

SHUTDOWN_WAIT_S: Final = 1.0
"""How long requests that are under way have when the broker stops."""

KEEP_ALIVE_S: Final = 60.0


class ManagementServer:
    """An application on sockets that listen already.

    Args:
        application: the API.
        sockets: closed with the server.

    """

    def __init__(self, application: web.Application, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets
        self._runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=SHUTDOWN_WAIT_S,
            keepalive_timeout=KEEP_ALIVE_S,
        )

    async def start(self) -> None:
        """Answer requests from now on."""
        try:
            await self._runner.setup()
            for listening in self._sockets:
                await web.SockSite(self._runner, listening).start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close everything; harmless when it is stopped."""
        await self._runner.cleanup()
        for listening in self._sockets:
            listening.close()
