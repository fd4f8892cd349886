"""Toolkit: a queue without a broker, for tests and within a process, like one that has one.

Invariant: a message is buffered, in hand, waiting for its next attempt, or a dead letter; and what
was taken and not settled goes back to the front.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.client.calling import INTERRUPTIONS
from broker.client.checks import check_kind, shown
from broker.client.errors import Closed, InvalidValue, QueueFull
from broker.client.message import DeadLetter
from broker.client.retry import NO_RETRY, Retry
from broker.client.texts import text_of
from broker.queues.protocols import Queue
from broker.queues.pump import OnError, Pump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

    from broker.queues.middlewares import Dispatcher, Middleware

__all__ = ["MemoryDelivery", "MemoryQueue"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    message: T
    attempt: int = 1
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    sent: asyncio.Future[None] | None = None
    """Of a sender that waits until it was taken."""


class MemoryQueue(Queue[T]):
    """A queue in memory.

    Args:
        maxsize: how many messages are kept before ``send`` waits: any number by default; with 0 it
            waits until somebody takes the message.
        retry: what happens to messages that fail; by default they are dead letters at once.

    """

    def __init__(self, maxsize: float = math.inf, *, retry: Retry = NO_RETRY) -> None:
        is_number = isinstance(maxsize, int | float) and not isinstance(maxsize, bool)
        if not is_number or maxsize < 0 or (math.isfinite(maxsize) and maxsize != int(maxsize)):
            raise InvalidValue(f"maxsize is to be a whole number from 0 on, not {shown(maxsize)}")

        if math.isnan(maxsize):
            raise InvalidValue("maxsize is to be a number")

        check_kind("retry", retry, Retry, "Retry(3)")
        self.maxsize = maxsize
        self.retry = retry
        self.dead: list[DeadLetter[T]] = []
        """Messages that failed for good, the oldest first."""

        self._ready: deque[_Entry[T]] = deque()
        self._senders: deque[_Entry[T]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._in_hand = 0
        self._delayed = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    # -- sending

    async def send(self, message: T, /) -> None:
        """Return when there is room for it; raises :class:`Closed`."""
        self._check_open()
        entry = _Entry(message)
        if self._has_room:
            self._put(entry)
            return

        entry.sent = asyncio.get_running_loop().create_future()
        self._senders.append(entry)
        self._wake_one()
        try:
            await entry.sent
        except asyncio.CancelledError:
            if entry in self._senders:
                self._senders.remove(entry)

            raise

    def send_nowait(self, message: T, /) -> None:
        """Put it there now; raises :class:`QueueFull` where there is no room."""
        self._check_open()
        if not self._has_room and not self._takers:
            raise QueueFull(f"there are {len(self._ready)} messages, and no room for more")

        self._put(_Entry(message))

    @property
    def size(self) -> int:
        """How many messages wait to be taken."""
        return len(self._ready) + len(self._senders)

    @property
    def in_hand(self) -> int:
        """How many are being handled."""
        return self._in_hand

    async def join(self) -> None:
        """Wait until nothing waits, is in hand or is to be tried again."""
        await self._idle.wait()

    # -- taking

    def __aiter__(self) -> AsyncIterator[MemoryDelivery[T]]:
        return _Iteration(self)

    async def take(self) -> MemoryDelivery[T] | None:
        """Return the next delivery, or wait for it; None when the queue was closed and is empty."""
        while True:
            entry = self._pop()
            if entry is not None:
                return MemoryDelivery(self, entry)

            if self._closed and not self._in_hand and not self._delayed:
                return None

            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker in self._takers:
                    self._takers.remove(taker)
                else:
                    self._wake_one()

                raise

    # -- the end

    @property
    def closed(self) -> bool:
        """Whether it takes no more."""
        return self._closed

    async def close(self) -> None:
        """Take no more. What is there is still given; then iterations end."""
        self._closed = True
        self._wake_all()

    async def __aenter__(self) -> Self:
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
        timeout: float | None = None,  # noqa: ASYNC109 - of leaving, not of being inside
    ) -> AsyncIterator[Self]:
        """Handle what is sent while the block runs, and at its end all that is left.

        For that there are ``timeout`` seconds, any number if None; then what is in hand is
        cancelled and put back.
        """
        pump = Pump(self, dispatcher, on_error=on_error, middlewares=middlewares)
        async with pump.draining(concurrency, graceful=True, timeout=timeout):
            try:
                yield self
            finally:
                await self.close()

    # -- inside

    @property
    def _has_room(self) -> bool:
        return len(self._ready) < self.maxsize

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the queue is closed")

    def _put(self, entry: _Entry[T], *, first: bool = False) -> None:
        if first:
            self._ready.appendleft(entry)
        else:
            self._ready.append(entry)

        self._idle.clear()
        self._wake_one()

    def _pop(self) -> _Entry[T] | None:
        if self._ready:
            entry = self._ready.popleft()
        elif self._senders:
            entry = self._admit()
        else:
            return None

        if self._senders and self._has_room:
            self._ready.append(self._admit())

        self._idle.clear()
        return entry

    def _admit(self) -> _Entry[T]:
        entry = self._senders.popleft()
        if entry.sent is not None and not entry.sent.done():
            entry.sent.set_result(None)

        return entry

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._takers:
            self._wake_one()

    def _entered(self) -> None:
        self._in_hand += 1

    def _left(self) -> None:
        self._in_hand -= 1
        self._note_idle()

    def _note_idle(self) -> None:
        if not (self._in_hand or self._delayed or self._ready or self._senders):
            self._idle.set()
            if self._closed:
                self._wake_all()

    def _fail(self, entry: _Entry[T], error: BaseException) -> None:
        delay = self.retry.next_delay(entry.attempt, error)
        if delay is None:
            self.dead.append(
                DeadLetter(
                    body=entry.message,
                    id=entry.id,
                    attempt=entry.attempt,
                    reason="attempts",
                    error=text_of(error),
                    error_type=type(error).__qualname__,
                )
            )
            return

        entry.attempt += 1
        self._delayed += 1
        asyncio.get_running_loop().call_later(delay, self._try_again, entry)

    def _try_again(self, entry: _Entry[T]) -> None:
        self._delayed -= 1
        self._put(entry)


class MemoryDelivery(Generic[T]):
    """A message of a :class:`MemoryQueue` that is being handled."""

    def __init__(self, queue: MemoryQueue[T], entry: _Entry[T]) -> None:
        self._queue = queue
        self._entry = entry

    @property
    def id(self) -> str:
        """Stays with the message over its attempts."""
        return self._entry.id

    @property
    def attempt(self) -> int:
        """Which attempt this is."""
        return self._entry.attempt

    async def __aenter__(self) -> T:
        self._queue._entered()
        return self._entry.message

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if isinstance(exc, INTERRUPTIONS):
            self._queue._put(self._entry, first=True)
        elif exc is not None:
            self._queue._fail(self._entry, exc)

        self._queue._left()


class _Iteration(Generic[T]):
    def __init__(self, queue: MemoryQueue[T]) -> None:
        self._queue = queue

    def __aiter__(self) -> _Iteration[T]:
        return self

    async def __anext__(self) -> MemoryDelivery[T]:
        delivery = await self._queue.take()
        if delivery is None:
            raise StopAsyncIteration

        return delivery
