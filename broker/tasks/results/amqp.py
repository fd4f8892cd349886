"""Toolkit, tasks: results over AMQP, with no other server than the broker.

By default a result goes back to the process that sent the task: one queue per process, and a
result is one more message. With ``shared=True`` each task has a queue of its own for its result,
where any process finds it as often as it likes.

Invariant: whatever nobody fetches is gone after the time to live: queues expire, and so does what
a process keeps. A result is posted on the channel that acknowledges its task, before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from broker.client.checks import SECONDS_MAX, check_flag, check_queue, check_seconds
from broker.client.errors import InvalidName, InvalidValue, Unavailable
from broker.tasks.frames import template
from broker.tasks.identity import key_of, new_id, parts_of
from broker.tasks.per_loop import PerLoop
from broker.tasks.port import CONNECTION_ERRORS
from broker.tasks.results.base import TTL_S, ResultBackend, Stored
from broker.tasks.results.memory import MemoryResults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiormq.abc import DeliveredMessage
    from pamqp.common import FieldValue

    from broker.client.underlay import Channel
    from broker.tasks.intake import Received
    from broker.tasks.link import Link

__all__ = ["AmqpResults"]

PROGRESS: Final = "progress"
"""What the type of messages has that are not final, in a second line; in the first is the task."""
GIVES_WAY: Final = "dropped"
"""What it has there of messages that give way to another one."""
RETRY_S: Final = 0.2


class _Inbox:
    """Where results of one event loop's tasks arrive."""

    def __init__(self, ttl_s: float, link: Link) -> None:
        self.queue = f"leveret.results.{new_id()}"
        self.kept = MemoryResults(ttl_s)
        self.link = link
        self.is_open = False
        self.opening = asyncio.Lock()
        self._arguments = _arguments(ttl_s, is_single=False)

    async def open(self) -> None:
        """Declare the queue and consume it, on each connection."""
        work = self.link.port.work_channel
        if work is not None:
            # Not an exclusive queue: that would go with its connection, and take results along.
            await work.queue_declare(self.queue, durable=True, arguments=self._arguments)
            # With acknowledgements: what is sent to a connection that is gone comes again.
            await self.link.port.consume(self.queue, self._arrive, restore=self.open)

    def _arrive(self, message: Received) -> None:
        given = message.properties
        name, mark = _split(given.message_type)
        stored = Stored(
            given.content_type or "", message.body, mark != PROGRESS, gives_way=mark == GIVES_WAY
        )
        self.kept.put(key_of(name, given.message_id or ""), stored)
        self.link.port.ack(message)


class AmqpResults(ResultBackend):
    """Keeps results in queues.

    Args:
        ttl: for how many seconds.
        shared: let any process ask, at the price of a queue per task; else the one that sent it.

    """

    def __init__(self, ttl: float = TTL_S, *, shared: bool = False) -> None:
        super().__init__(ttl)
        check_seconds("ttl", ttl, high=SECONDS_MAX)
        check_flag("shared", shared)
        self.is_shared = shared
        self._inboxes: PerLoop[_Inbox] = PerLoop()

    async def prepare(self, link: Link) -> str:
        if self.is_shared:
            return ""

        inbox = self._inboxes.get()
        if inbox is None or inbox.link is not link:
            inbox = self._inboxes.set(_Inbox(self.ttl_s, link))

        if not inbox.is_open:
            async with inbox.opening:
                if not inbox.is_open:
                    await link.on_open("results", inbox.open)
                    inbox.is_open = True

        return inbox.queue

    async def store(self, key: str, stored: Stored, *, link: Link, reply_to: str) -> None:
        name, task_id = parts_of(key)
        kind = name
        if not stored.is_final or stored.gives_way:
            kind = f"{name}\n{GIVES_WAY if stored.gives_way else PROGRESS}"

        props = template(stored.content_type, kind, is_persistent=self.is_shared).with_id(task_id)
        if not self.is_shared:
            if reply_to:
                link.port.post(reply_to, props, stored.body)

            return

        queue = self._queue_of(key)
        work = link.port.work_channel
        if work is not None:
            await work.queue_declare(
                queue, durable=True, arguments=_arguments(self.ttl_s, is_single=True)
            )
            link.port.post(queue, props, stored.body)

    async def get(self, key: str, *, link: Link) -> Stored | None:
        if not self.is_shared:
            return await self._inbox().kept.get(key, link=link)

        async with self._opened(key, link) as channel:
            message = await channel.basic_get(self._queue_of(key))
            return _stored(message) if message.delivery_tag is not None else None

    async def wait(self, key: str, *, link: Link) -> Stored:
        if not self.is_shared:
            return await self._inbox().kept.wait(key, link=link)

        while True:
            try:
                return await self._wait_shared(key, link)
            except (*CONNECTION_ERRORS, Unavailable):
                await asyncio.sleep(RETRY_S)
                await link.port.wait_open()

    def _inbox(self) -> _Inbox:
        """Return where results of what was sent here arrive; others' arrive at others'."""
        inbox = self._inboxes.get()
        if inbox is None:
            raise InvalidValue(
                "nothing was sent from here since the application was opened, and a result goes to "
                "whoever has sent its task: say results=AmqpResults(shared=True) for any process "
                "to ask"
            )

        return inbox

    async def forget(self, key: str, *, link: Link) -> None:
        inbox = self._inboxes.get()
        if inbox is not None:
            await inbox.kept.forget(key, link=link)

        if self.is_shared:
            async with self._opened(key, link) as channel:
                await channel.queue_delete(self._queue_of(key))

    async def close(self) -> None:
        inbox = self._inboxes.pop()
        if inbox is None:
            return

        inbox.link.forget("results")
        work = inbox.link.port.work_channel
        if work is not None:
            with contextlib.suppress(*CONNECTION_ERRORS):
                await work.queue_delete(inbox.queue)

    async def _wait_shared(self, key: str, link: Link) -> Stored:
        arrived: asyncio.Queue[Stored] = asyncio.Queue()

        async def arrive(message: DeliveredMessage) -> None:
            arrived.put_nowait(_stored(message))

        async with self._opened(key, link) as channel:
            await channel.basic_consume(self._queue_of(key), arrive)
            while True:
                waiting = asyncio.ensure_future(arrived.get())
                try:
                    await asyncio.wait(
                        (waiting, channel.closing), return_when=asyncio.FIRST_COMPLETED
                    )
                    if not waiting.done():
                        raise Unavailable("the connection was lost")

                    stored = waiting.result()
                finally:
                    waiting.cancel()

                if stored.is_final:
                    return stored

    @contextlib.asynccontextmanager
    async def _opened(self, key: str, link: Link) -> AsyncIterator[Channel]:
        """Open a channel, which gives back when it is closed whatever it was shown."""
        channel = await link.port.channel()
        try:
            await channel.queue_declare(
                self._queue_of(key),
                durable=True,
                arguments=_arguments(self.ttl_s, is_single=True),
            )
            yield channel
        finally:
            with contextlib.suppress(*CONNECTION_ERRORS):
                await channel.close()

    def _queue_of(self, key: str) -> str:
        name, task_id = parts_of(key)
        try:
            return check_queue(f"leveret.result.{_digest(name, 8)}.{task_id}")
        except InvalidName:
            # The id of a tick has a plus in it, and a key may be any text.
            return f"leveret.result.{_digest(key, 16)}"


def _arguments(ttl_s: float, *, is_single: bool) -> dict[str, FieldValue]:
    ttl_ms = math.ceil(ttl_s * 1000)
    found: dict[str, FieldValue] = {"x-expires": max(ttl_ms, 1000), "x-message-ttl": ttl_ms}
    if is_single:
        found |= {"x-max-length": 1, "x-overflow": "drop-head"}

    return found


def _stored(message: DeliveredMessage) -> Stored:
    props = message.header.properties
    is_final = _split(props.message_type)[1] != PROGRESS
    return Stored(props.content_type or "", message.body, is_final)


def _split(message_type: str | None) -> tuple[str, str]:
    name, _, mark = (message_type or "").partition("\n")
    return name, mark


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
