"""Toolkit, tasks: results in Redis (extra ``redis``).

Invariant: who waits looks after Redis has said that it listens, whenever it has said so, so nothing
comes in between; one connection per event loop carries all subscriptions, however many wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from broker.client.checks import check_kind
from broker.tasks.per_loop import PerLoop
from broker.tasks.redis_link import RedisLink, stop_task
from broker.tasks.results.base import TTL_S, ResultBackend, Stored, Waiters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

    from broker.tasks.link import Link

__all__ = ["RedisResults"]

LOG: Final = logging.getLogger("leveret.tasks")

RECONNECT_S: Final = 0.5


class _Listener:
    """What listens in one event loop, in a task of its own that nobody who waits can cut short."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.waiters = Waiters()
        self._redis = redis
        self._prefix = prefix
        self._wanted: Counter[str] = Counter()
        self._told: set[str] = set()
        self._changed: set[str] = set()
        self._has_news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def begin(self, key: str) -> None:
        """Listen for a task, until :meth:`end` has been called as often as this."""
        self._wanted[key] += 1
        self._change(key)

    def end(self, key: str) -> None:
        """Stop listening for it, unless somebody else does."""
        self._wanted[key] -= 1
        if not self._wanted[key]:
            del self._wanted[key]
            self._change(key)

    def is_told(self, key: str) -> bool:
        """Say whether Redis listens, or is about to and will wake those who wait when it does."""
        return key in self._told

    async def close(self) -> None:
        await stop_task(self._task)
        await self._redis.aclose()

    def _change(self, key: str) -> None:
        self._changed.add(key)
        self._has_news.set()

    async def _run(self) -> None:
        while True:
            pubsub = self._redis.pubsub()
            close: Callable[[], Awaitable[None]] = pubsub.aclose
            try:
                try:
                    await self._listen(pubsub)
                finally:
                    await close()
            except Exception as problem:
                # Besides its own errors, the library lets out whatever a connection that goes
                # away in the middle of something makes of it.
                LOG.debug("listening for results ended, and begins anew: %r", problem)

            self._told.clear()
            self._changed.update(self._wanted)
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self, pubsub: PubSub) -> None:
        reading: asyncio.Task[None] | None = None
        try:
            while reading is None or not reading.done():
                self._has_news.clear()
                await self._tell(pubsub)
                if reading is None and self._told:
                    reading = asyncio.get_running_loop().create_task(self._read(pubsub))
                    reading.add_done_callback(lambda _: self._has_news.set())

                await self._has_news.wait()

            reading.result()
        finally:
            if reading is not None:
                await stop_task(reading)

    async def _tell(self, pubsub: PubSub) -> None:
        changed, self._changed = self._changed, set()
        new = {one for one in changed if one in self._wanted and one not in self._told}
        old = {one for one in changed if one not in self._wanted and one in self._told}
        # Noted before it is sent: who comes in between looks, and is told to look again.
        self._told -= old
        self._told |= new
        if old:
            await pubsub.unsubscribe(*(self._prefix + one for one in old))

        if new:
            await pubsub.subscribe(*(self._prefix + one for one in new))

    async def _read(self, pubsub: PubSub) -> None:
        while True:
            message = await pubsub.get_message(timeout=None)
            if message is not None and message["type"] in {"message", "subscribe"}:
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
        check_kind("prefix", prefix, str, "'leveret:result:'")
        self._prefix = prefix
        self._listeners: PerLoop[_Listener] = PerLoop()

    async def store(self, key: str, stored: Stored, *, link: Link, reply_to: str) -> None:
        async def put(redis: Redis) -> None:
            async with redis.pipeline(transaction=True) as both:
                both.set(self._prefix + key, _pack(stored), px=max(1, round(self.ttl_s * 1000)))
                if stored.is_final:
                    both.publish(self._prefix + key, b"")

                await both.execute()

        await self._link.run(put)

    async def get(self, key: str, *, link: Link) -> Stored | None:
        value = await self._link.run(lambda redis: redis.get(self._prefix + key))
        return None if value is None else _unpack(value)

    async def wait(self, key: str, *, link: Link) -> Stored:
        stored = await self.get(key, link=link)
        if stored is not None and stored.is_final:
            return stored

        listener = self._listener()
        listener.begin(key)
        try:
            while True:
                future = listener.waiters.add(key)
                try:
                    if listener.is_told(key):
                        stored = await self.get(key, link=link)
                        if stored is not None and stored.is_final:
                            return stored

                    await future
                finally:
                    listener.waiters.discard(key, future)
        finally:
            listener.end(key)

    async def forget(self, key: str, *, link: Link) -> None:
        await self._link.run(lambda redis: redis.delete(self._prefix + key))

    async def close(self) -> None:
        listener = self._listeners.pop()
        if listener is not None:
            await listener.close()

        await self._link.close()

    def _listener(self) -> _Listener:
        found = self._listeners.get()
        if found is not None:
            return found

        redis = self._link.connect_to_listen()
        return self._listeners.set(_Listener(redis, self._prefix))


def _pack(stored: Stored) -> bytes:
    mark = b"." if stored.is_final else b"~"
    return mark + stored.content_type.encode() + b"\n" + stored.body


def _unpack(value: bytes | str) -> Stored:
    assert isinstance(value, bytes)
    content_type, _, body = value[1:].partition(b"\n")
    return Stored(content_type.decode(), body, value[:1] == b".")
