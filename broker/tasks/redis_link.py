"""Toolkit, tasks: a connection to Redis per event loop (extra ``redis``).

Invariant: a command runs in a task of its own, and whoever gives up waiting for it is let go. The
library itself may miss a cancel and go on as if there had been none: before Python 3.12,
``asyncio.wait_for``, which it sends with, does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.tasks.extras import needs_extra
from broker.tasks.per_loop import PerLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio import Redis

__all__ = ["RedisLink", "stop_task"]

T = TypeVar("T")

CONNECTIONS_MAX: Final = 8
"""Commands beyond that take their turn: the library refuses them when its own bound is reached."""

COMMAND_END_S: Final = 0.25
"""How long a command may take to end when nobody wants its answer any more."""

CANCEL_AGAIN_S: Final = 0.1


class _Pool:
    """What belongs to one event loop."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        count = min(CONNECTIONS_MAX, client.connection_pool.max_connections)
        self._turns = asyncio.Semaphore(count)

    async def run(self, command: Callable[[Redis], Awaitable[T]]) -> T:
        async with self._turns:
            return await command(self.client)


class RedisLink:
    """Connects to ``url`` once per event loop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pools: PerLoop[_Pool] = PerLoop()

    def connect_to_listen(self) -> Redis:
        """Return a client for who listens: it tells of a lost connection instead of mending it.

        Whoever asks for it closes it.
        """
        with needs_extra("redis"):
            from redis.asyncio import Redis as Client
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

        # Without errors to try again after: reading and sending would both connect, and one of the
        # two connections would be nobody's.
        client: Redis = Client.from_url(self.url, retry=Retry(NoBackoff(), 0, ()))
        return client

    async def run(self, command: Callable[[Redis], Awaitable[T]]) -> T:
        """Carry out a command, and return its answer.

        Who is cancelled meanwhile goes when the command has ended, so that nothing of theirs comes
        after what they do next, or without that when it takes too long.
        """
        running = asyncio.ensure_future(self._pool().run(command))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_look_at)
            try:
                await asyncio.wait((running,), timeout=COMMAND_END_S)
            finally:
                running.cancel()

            raise

    async def script(self, text: str, keys: list[str], *arguments: Any) -> object:
        """Run a Lua script, which Redis keeps after the first time."""

        async def run(client: Redis) -> object:
            answer: object = await client.register_script(text)(keys=keys, args=arguments)
            return answer

        return await self.run(run)

    async def close(self) -> None:
        """Close the client of the running loop."""
        pool = self._pools.pop()
        if pool is not None:
            await pool.client.aclose()

    def _pool(self) -> _Pool:
        found = self._pools.get()
        if found is not None:
            return found

        with needs_extra("redis"):
            from redis.asyncio import Redis as Client

        return self._pools.set(_Pool(Client.from_url(self.url)))


async def stop_task(task: asyncio.Task[None]) -> None:
    """Cancel a task that the library is at work in, until it has noticed."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=CANCEL_AGAIN_S)

    _look_at(task)


def _look_at(done: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for, or asyncio complains that nobody did."""
    if not done.cancelled():
        done.exception()
