"""Toolkit: takes messages from a queue, on one connection after the other, until told to stop.

Invariant: however a consumer is lost, with its connection, its channel or its queue, it is begun
again; whoever wants to know is told.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from broker.client.checks import check_count
from broker.client.delivery import Delivery
from broker.client.errors import ToolkitError
from broker.client.events import ClientEvent
from broker.client.link import LIBRARY_ERRORS, LinkLost, translated_error
from broker.client.retry import Exponential
from broker.client.source import Source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiormq.abc import DeliveredMessage

    from broker.client.core import Core
    from broker.client.link import Link
    from broker.client.retry import Retry
    from broker.client.underlay import Channel

__all__ = ["PREFETCH_MAX", "Intake"]

T = TypeVar("T")

AGAIN: Final = Exponential(0.2, cap=10.0, jitter=0.2)
"""How long to wait before a consumer that the broker has ended is begun again."""

PREFETCH_MAX: Final = 65_535


class Intake(Generic[T]):
    """A consumer that comes back.

    Args:
        core: the client.
        queue: the queue; where ``prepare`` is given, only what it is called in events.
        on_delivery: gets each message; has to return at once.
        into: what type bodies are to have.
        prefetch: how many messages the broker hands out that are not settled; 0 for all, at once
            and settled on arrival.

    """

    def __init__(
        self,
        core: Core,
        queue: str,
        on_delivery: Callable[[Delivery[T]], None],
        *,
        into: type[T] | None = None,
        prefetch: int = 10,
    ) -> None:
        check_count("prefetch", prefetch, low=0, high=PREFETCH_MAX)
        self.queue = queue
        self.retry: Retry | None = None
        self.prepare: Callable[[Channel], Awaitable[str]] | None = None
        """Makes the queue on each connection, and returns its name."""

        self._core = core
        self._on_delivery = on_delivery
        self._into = into
        self._prefetch = prefetch
        self._source: Source[T] | None = None
        self._tag = ""
        self._is_stopped = False
        self._again: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    @property
    def is_lost(self) -> bool:
        """Whether the broker has ended it, and it has not begun again."""
        return self._source is None

    async def start(self) -> None:
        """Begin.

        Raises:
            QueueNotFound: there is no such queue.

        """
        await self._core.session.run(self._begin)
        self._core.session.add(self)

    async def restore(self, link: Link) -> None:
        """Begin on a new connection."""
        try:
            await self._begin(link)
        except LIBRARY_ERRORS as problem:
            if not link.is_alive:
                raise LinkLost from problem

            self._lose(translated_error(problem) or problem)

    async def stop_taking(self) -> None:
        """Take no more. What was taken can still be settled."""
        self._is_stopped = True
        self._core.session.discard(self)
        if self._again is not None:
            self._again.cancel()

        async with self._lock:
            source = self._source
            tag, self._tag = self._tag, ""
            if source is None or not tag:
                return

            if self.prepare is None:
                await source.cancel(tag)
            else:
                # Its queue would go with it, but a little later, and refuse what comes meanwhile.
                await source.delete_queue()

    async def close(self) -> None:
        """Take no more, and give back what is not settled."""
        await self.stop_taking()
        source, self._source = self._source, None
        if source is not None:
            await source.close_channel()

    async def end(self) -> None:
        """Take no more, and close the channel when all is settled."""
        await self.stop_taking()
        self.release()

    def release(self) -> None:
        """When no more is taken: close the channel as soon as all is settled."""
        source, self._source = self._source, None
        if source is not None:
            source.end()

    async def _begin(self, link: Link) -> None:
        async with self._lock:
            source = self._source
            if self._is_stopped or (source is not None and source.is_consuming_on(link)):
                return

            channel = await link.open_channel()
            try:
                self._source = await self._consume(link, channel)
            except BaseException:
                self._source = None
                channel.leave()
                raise

    async def _consume(self, link: Link, channel: Channel) -> Source[T]:
        queue = self.queue if self.prepare is None else await self.prepare(channel)
        source = Source(self._core, link, channel, queue, self._into)
        if self.retry is not None:
            source.retry = self.retry

        if self._prefetch:
            await channel.basic_qos(prefetch_count=self._prefetch)
        else:
            source.is_settled_on_arrival = True

        channel.on_consumer_gone = lambda _: self._on_gone(source)

        is_begun = asyncio.Event()

        async def on_message(raw: DeliveredMessage) -> None:
            # None is handled before whoever has begun this knows that it was, or is interrupted.
            if not is_begun.is_set():
                await is_begun.wait()

            await self._take(raw, source)

        answer = await channel.basic_consume(queue, on_message, no_ack=not self._prefetch)
        self._tag = answer.consumer_tag or ""
        is_begun.set()
        channel.closing.add_done_callback(lambda _: self._on_gone(source))
        return source

    async def _take(self, raw: DeliveredMessage, source: Source[T]) -> None:
        delivery = Delivery(raw, source)
        if delivery.is_duplicate:
            await delivery.ack()
        elif self._is_stopped:
            await delivery.requeue()
        else:
            self._on_delivery(delivery)

    def _on_gone(self, source: Source[T]) -> None:
        """The broker has ended the consumer, or its channel; maybe because we wanted it."""
        if self._is_stopped or source is not self._source or not source.is_link_alive:
            return

        self._source = None
        self._lose(None)

    def _lose(self, error: BaseException | None) -> None:
        self._core.events.emit(ClientEvent("consumer_lost", queue=self.queue, error=error))
        if self._again is None or self._again.done():
            self._again = self._core.spawn(self._begin_again())

    async def _begin_again(self) -> None:
        failures = 0
        while not self._is_stopped:
            failures += 1
            await asyncio.sleep(AGAIN.wait(failures, random.random()))  # noqa: S311
            try:
                await self._core.session.run(self._begin)
            except ToolkitError:
                continue

            self._core.events.emit(ClientEvent("consumer_restored", queue=self.queue))
            return
