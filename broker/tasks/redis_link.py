"""Toolkit, tasks: a connection to Redis per event loop (extra ``redis``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.tasks.extras import needs_extra
from broker.tasks.per_loop import PerLoop

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisLink"]


class RedisLink:
    """Connects to ``url`` once per event loop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: PerLoop[Redis] = PerLoop()

    async def connect(self) -> Redis:
        """Return the client of the running loop."""
        client = self._clients.get()
        if client is None:
            with needs_extra("redis"):
                from redis.asyncio import Redis as Client

            client = self._clients.set(Client.from_url(self.url))

        return client

    async def script(self, text: str, keys: list[str], *arguments: Any) -> object:
        """Run a Lua script, which Redis keeps after the first time."""
        client = await self.connect()
        answer: object = await client.register_script(text)(keys=keys, args=arguments)
        return answer

    async def close(self) -> None:
        """Close the client of the running loop."""
        client = self._clients.pop()
        if client is not None:
            await client.aclose()
