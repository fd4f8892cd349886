"""Toolkit: what is published under topics, to handlers that want it now.

Invariant: a handler gets what was published one at a time and in order; what it is too slow for is
dropped from the old end, and counted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from broker.client.calling import call, handler_of, note_handler
from broker.client.checks import check_callable, check_count, check_text
from broker.client.errors import InvalidName
from broker.client.events import ClientEvent, logger
from broker.client.intake import Intake
from broker.client.patience import ANSWER_S, at_most, carried, end_all
from broker.client.wire import table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from broker.client.core import Core
    from broker.client.delivery import Delivery
    from broker.client.message import Message
    from broker.client.underlay import Channel

__all__ = ["Subscription", "check_topic"]

T = TypeVar("T")


def check_topic(topic: str) -> str:
    """Return the topic, if AMQP has room for it.

    Raises:
        InvalidName: it has not.

    """
    return check_text("topic", topic, is_empty_ok=True, error=InvalidName)


class Subscription(Generic[T]):
    """A subscription at work. Made by :meth:`Client.subscribe`; also a context manager."""

    def __init__(
        self,
        core: Core,
        pattern: str,
        to_message: Callable[[Delivery[T]], Message[T]],
        handler: Callable[[Message[T]], Awaitable[object] | object],
        *,
        max_pending: int,
        into: type[T] | None,
    ) -> None:
        check_callable("handler", handler)
        check_count("max_pending", max_pending)
        self.pattern = check_topic(pattern)
        self.dropped = 0
        """How many messages the handler was too slow for."""

        self.on_end: Callable[[], object] | None = None
        self._core = core
        self._exchange = core.options.topics
        self._to_message = to_message
        self._handler = handler
        self._pending: deque[Delivery[T]] = deque()
        self._max_pending = max_pending
        self._has_some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._intake: Intake[T] = Intake(
            core, f"topic {pattern}", self._take, into=into, prefetch=0
        )
        self._intake.prepare = self._prepare

    async def start(self, exchange: str | None = None) -> None:
        """Begin."""
        if exchange is not None:
            self._exchange = exchange

        await self._intake.start()
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        """End it; what waits is not handled any more. It takes two seconds at most."""
        if self.on_end is not None:
            self.on_end()

        await carried(self._end(handler_of(self._core)))

    async def _end(self, current: asyncio.Task[Any] | None) -> None:
        await at_most(ANSWER_S, self._intake.close())
        task, self._task = self._task, None
        if task is not None and task is not current:
            await end_all({task})

    async def __aenter__(self) -> Subscription[T]:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.cancel()

    async def _prepare(self, channel: Channel) -> str:
        name = f"leveret.subscription.{uuid.uuid4().hex}"
        # Bounded at the broker too: that is where it waits while the network is slow.
        arguments = table({"x-max-length": self._max_pending, "x-overflow": "drop-head"})
        await channel.queue_declare(name, exclusive=True, auto_delete=True, arguments=arguments)
        await channel.queue_bind(name, self._exchange, routing_key=self.pattern)
        return name

    def _take(self, delivery: Delivery[T]) -> None:
        self._pending.append(delivery)
        if len(self._pending) > self._max_pending:
            self._pending.popleft()
            self.dropped += 1

        self._has_some.set()

    async def _run(self) -> None:
        note_handler(self._core)
        while True:
            while self._pending:
                await self._handle(self._pending.popleft())
                if self._task is None:
                    return

            self._has_some.clear()
            await self._has_some.wait()

    async def _handle(self, delivery: Delivery[T]) -> None:
        try:
            await call(self._handler, self._to_message(delivery))
        except Exception as problem:
            logger.debug("the handler of %s has failed", self.pattern, exc_info=problem)
            self._core.events.emit(
                ClientEvent("handler_failed", queue=self.pattern, id=delivery.id, error=problem)
            )
