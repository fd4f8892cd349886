"""Toolkit, tasks: results in Redis (extra ``redis``).

Invariant: who waits subscribes before looking, so nothing comes in between; one connection per
event loop carries all subscriptions, however many wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from broker.tasks.per_loop import PerLoop
from broker.tasks.redis_link import RedisLink
from broker.tasks.results.base import TTL_S, ResultBackend, Stored, Waiters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio.client import PubSub

    from broker.tasks.link import Link

__all__ = ["RedisResults"]

RECONNECT_S: Final = 0.5


class _Listener:
    """What listens in one event loop."""

    def __init__(self, pubsub: PubSub, prefix: str) -> None:
        self.pubsub = pubsub
        self.waiters = Waiters()
        self._prefix = prefix
        self._lock = asyncio.Lock()
        self._is_closed = False
        self.task: asyncio.Task[None] | None = None

    async def subscribe(self, task_id: str) -> None:
        # Whoever waits may give up in the middle; a command on the shared connection may not.
        await asyncio.shield(self._command(self.pubsub.subscribe, task_id))

    async def unsubscribe(self, task_id: str, future: asyncio.Future[None]) -> None:
        self.waiters.discard(task_id, future)
        if not self.waiters.has(task_id):
            await asyncio.shield(self._command(self.pubsub.unsubscribe, task_id))

    async def _command(self, command: Callable[[str], Awaitable[object]], task_id: str) -> None:
        async with self._lock:
            if command == self.pubsub.unsubscribe and self.waiters.has(task_id):
                return

            # Whoever gave up meanwhile comes late; it would connect again, and nobody close that.
            if self._is_closed:
                return

            await command(self._prefix + task_id)
            if self.task is None:
                self.task = asyncio.get_running_loop().create_task(self._listen())

    async def close(self) -> None:
        async with self._lock:
            self._is_closed = True
            if self.task is not None:
                self.task.cancel()
                await asyncio.gather(self.task, return_exceptions=True)

            close: Callable[[], Awaitable[None]] = self.pubsub.aclose
            await close()

    async def _listen(self) -> None:
        from redis.exceptions import RedisError

        while True:
            try:
                message = await self.pubsub.get_message(timeout=None)
            except (RedisError, OSError):
                # It subscribes again by itself; what came meanwhile is seen by looking.
                await asyncio.sleep(RECONNECT_S)
                self.waiters.wake_all()
                continue

            if message is not None and message["type"] == "message":
                self.waiters.wake(message["channel"].decode()[len(self._prefix) :])


class RedisResults(ResultBackend):
    """Keeps results in Redis, where every process finds them."""

    def __init__(
        self,
        url: str = "redis://127.0.0.1:6379/0",
        ttl: float = TTL_S,
        *,
        prefix: str = "leveret:result:",
    ) -> None:
        super().__init__(ttl)
        self._link = RedisLink(url)
        self._prefix = prefix
        self._listeners: PerLoop[_Listener] = PerLoop()

    async def store(self, task_id: str, stored: Stored, *, link: Link, reply_to: str) -> None:
        redis = await self._link.connect()
        async with redis.pipeline(transaction=True) as both:
            both.set(self._prefix + task_id, _pack(stored), px=max(1, round(self.ttl_s * 1000)))
            if stored.is_final:
                both.publish(self._prefix + task_id, b"")

            await both.execute()

    async def get(self, task_id: str, *, link: Link) -> Stored | None:
        redis = await self._link.connect()
        value = await redis.get(self._prefix + task_id)
        return None if value is None else _unpack(value)

    async def wait(self, task_id: str, *, link: Link) -> Stored:
        stored = await self.get(task_id, link=link)
        if stored is not None and stored.is_final:
            return stored

        listener = await self._listener()
        while True:
            future = listener.waiters.add(task_id)
            try:
                await listener.subscribe(task_id)
                stored = await self.get(task_id, link=link)
                if stored is not None and stored.is_final:
                    return stored

                await future
            finally:
                await listener.unsubscribe(task_id, future)

    async def forget(self, task_id: str, *, link: Link) -> None:
        redis = await self._link.connect()
        await redis.delete(self._prefix + task_id)

    async def close(self) -> None:
        listener = self._listeners.pop()
        if listener is not None:
            with contextlib.suppress(OSError):
                await listener.close()

        await self._link.close()

    async def _listener(self) -> _Listener:
        redis = await self._link.connect()
        return self._listeners.get() or self._listeners.set(_Listener(redis.pubsub(), self._prefix))


def _pack(stored: Stored) -> bytes:
    mark = b"." if stored.is_final else b"~"
    return mark + stored.content_type.encode() + b"\n" + stored.body


def _unpack(value: bytes | str) -> Stored:
    assert isinstance(value, bytes)
    content_type, _, body = value[1:].partition(b"\n")
    return Stored(content_type.decode(), body, value[:1] == b".")
