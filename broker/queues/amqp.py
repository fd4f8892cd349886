"""Toolkit: a queue at a broker, as an object that can be sent to and iterated over.

Invariant: iterations survive the connection: what was taken over one that is gone is not given to
anybody, since the broker gives it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.client.checks import check_count, check_kind, check_queue
from broker.client.errors import Closed
from broker.client.intake import PREFETCH_MAX, Intake
from broker.client.patience import ANSWER_S, at_most, carried
from broker.client.spec import QueueSpec
from broker.queues.protocols import Queue
from broker.queues.pump import OnError, Pump

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from types import TracebackType
    from typing import Self

    from broker.client.client import Client
    from broker.client.codecs import Form
    from broker.client.delivery import Delivery
    from broker.client.message import Sent
    from broker.queues.middlewares import Dispatcher, Middleware

__all__ = ["AmqpQueue", "receive"]

T = TypeVar("T")


class AmqpQueue(Queue[T]):
    """A queue at a broker. Also made by :meth:`Client.queue`.

    Args:
        client: the connection.
        name: the queue; it is declared when it is first used.
        type: what messages are; what does not fit is a dead letter.
        spec: what the queue is like; None to take it as it is, or make it as ``QueueSpec()``.
        prefetch: how many messages to hold ahead; None for one, or as many as a pump handles at a
            time.

    """

    _type: type[T] | None

    def __init__(
        self,
        client: Client,
        name: str,
        type: type[T] | Form | None = None,  # noqa: A002 - what one calls it
        *,
        spec: QueueSpec | None = None,
        prefetch: int | None = None,
    ) -> None:
        if prefetch is not None:
            check_count("prefetch", prefetch, high=PREFETCH_MAX)

        if spec is not None:
            check_kind("spec", spec, QueueSpec, "QueueSpec(max_length=100)")

        self.name = check_queue(name, "name")
        self._client = client
        self._type = client.core.codecs.check_type(type)
        self._spec = spec
        self._prefetch = prefetch
        self._is_declared = False
        self._lock = asyncio.Lock()
        self._intakes: list[Intake[T]] = []
        self._held = 0
        self._ready: deque[Delivery[T]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def send(self, message: T, /) -> Sent:
        """Return when the broker has confirmed it."""
        self._check_open()
        await self._declare()
        return await self._client.send(self.name, message)

    def __aiter__(self) -> AsyncIterator[Delivery[T]]:
        return self.iterate(1)

    def iterate(self, prefetch: int) -> AsyncIterator[Delivery[T]]:
        """Begin to take messages, so many ahead unless the queue was told otherwise."""
        return _Iteration(self, self._prefetch or prefetch)

    async def take(self, prefetch: int = 1, *, wait: float | None = None) -> Delivery[T] | None:
        """Return the next delivery, or wait for it, ``wait`` seconds, None for as long as it takes.

        None when none has come by then, or the queue was closed. With 0 the broker is asked for
        what is there now.
        """
        if wait == 0:
            return await self._take_now()

        await self._require(prefetch)
        try:
            async with asyncio.timeout(wait):
                return await self._take()
        except TimeoutError:
            return None

    async def _take_now(self) -> Delivery[T] | None:
        delivery = self._pop()
        if delivery is not None or self._closed:
            return delivery

        await self._declare()
        if self._type is None:
            return await self._client.get(self.name)

        return await self._client.get(self.name, type=self._type)

    def _pop(self) -> Delivery[T] | None:
        while self._ready:
            delivery = self._ready.popleft()
            if not delivery.is_stale:
                delivery.start_clock()
                return delivery

        return None

    async def _take(self) -> Delivery[T] | None:
        while True:
            delivery = self._pop()
            if delivery is not None:
                return delivery

            if self._closed:
                return None

            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()

                raise

    @property
    def closed(self) -> bool:
        """Whether it was closed here; at the broker it stays."""
        return self._closed

    async def close(self) -> None:
        """Take no more, hand back what nobody has begun to handle, and let iterations end.

        It takes two seconds at most, whether the broker answers or not.
        """
        self._closed = True
        if self.close in self._client.core.closers:
            self._client.core.closers.remove(self.close)

        await carried(self._leave())

    async def _leave(self) -> None:
        await at_most(ANSWER_S, asyncio.gather(*(intake.end() for intake in self._intakes)))
        while self._ready:
            await self._ready.popleft().requeue()

        while self._takers:
            self._wake_one()

    async def __aenter__(self) -> Self:
        await self._declare()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def draining(
        self,
        dispatcher: Dispatcher[T],
        concurrency: int | None = None,
        *,
        on_error: OnError = "log",
        middlewares: tuple[Middleware, ...] = (),
        timeout: float | None = 10.0,  # noqa: ASYNC109 - of leaving, not of being inside
    ) -> AsyncIterator[Self]:
        """Handle what comes while the block runs; at its end what is in hand comes to its end.

        For that there are ``timeout`` seconds; then it is cancelled and handed back.
        """
        pump = Pump(self, dispatcher, on_error=on_error, middlewares=middlewares)
        async with pump.draining(concurrency, graceful=True, timeout=timeout):
            yield self

    # -- inside

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the queue {self.name!r} was closed here")

    async def _declare(self) -> None:
        if self._is_declared:
            return

        await self._client.declare(self.name, self._spec)
        self._is_declared = True

    async def _require(self, prefetch: int) -> None:
        """See to it that so many messages are held ahead, however many iterations there are."""
        if self._held >= prefetch or self._closed:
            return

        async with self._lock:
            missing = prefetch - self._held
            if missing <= 0:
                return

            await self._declare()
            if not self._intakes:
                self._client.core.closers.append(self.close)

            intake: Intake[T] = Intake(
                self._client.core, self.name, self._put, into=self._type, prefetch=missing
            )
            await intake.start()
            self._held = prefetch
            self._intakes.append(intake)

    def _put(self, delivery: Delivery[T]) -> None:
        self._ready.append(delivery)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return


async def receive(
    client: Client, name: str, into: type[T] | Form | None, *, prefetch: int, wait: float | None
) -> AsyncGenerator[Delivery[T], None]:
    """Yield deliveries of a queue until none comes for ``wait`` seconds; what is left goes back."""
    queue = AmqpQueue(client, name, into, prefetch=prefetch)
    try:
        while (delivery := await queue.take(prefetch, wait=wait)) is not None:
            yield delivery
    finally:
        await queue.close()


class _Iteration(Generic[T]):
    def __init__(self, queue: AmqpQueue[T], prefetch: int) -> None:
        self._queue = queue
        self._prefetch = prefetch

    def __aiter__(self) -> _Iteration[T]:
        return self

    async def __anext__(self) -> Delivery[T]:
        delivery = await self._queue.take(self._prefetch)
        if delivery is None:
            raise StopAsyncIteration

        return delivery
