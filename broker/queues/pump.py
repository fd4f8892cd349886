"""Toolkit: from a queue to a function, message by message.

Invariant: a message that was taken is settled: handled, failed, or handed back.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from broker.client.calling import outcome_of
from broker.client.checks import check_count, check_seconds, shown
from broker.client.errors import InvalidValue
from broker.client.patience import end_all
from broker.queues.middlewares import with_middlewares
from broker.queues.protocols import SupportsPrefetch

if TYPE_CHECKING:
    from typing import Self

    from broker.queues.middlewares import Dispatcher, Middleware
    from broker.queues.protocols import Consumer, Delivery

__all__ = ["OnError", "Pump"]

T = TypeVar("T")

logger: Final = logging.getLogger("leveret.pump")

OnError = Literal["log", "raise"] | Callable[[BaseException], Awaitable[object] | object]
"""What happens with an error: it is logged, or stops the pump, or somebody gets it."""


class Pump(Generic[T]):
    """Takes messages from a consumer and calls a function with each.

    What the function raises fails the message: the queue tries it again, or makes it a dead letter.
    The pump goes on, unless ``on_error`` is ``raise``. An error of the consumer always stops it.

    Args:
        consumer: anything with ``__aiter__`` of deliveries.
        dispatcher: any function of one argument, a message bus for example; what is no coroutine
            function is called in a thread.
        on_error: ``log``, ``raise``, or a function of the exception.
        middlewares: what goes around the dispatcher, the first one outermost.

    """

    def __init__(
        self,
        consumer: Consumer[T],
        dispatcher: Dispatcher[T],
        *,
        on_error: OnError = "log",
        middlewares: tuple[Middleware, ...] = (),
    ) -> None:
        if on_error not in ("log", "raise") and not callable(on_error):
            raise InvalidValue(f"on_error is log, raise or a function, not {shown(on_error)}")

        if not hasattr(consumer, "__aiter__"):
            raise InvalidValue(
                f"consumer is to be something to iterate over, not {shown(consumer)}"
            )

        if not isinstance(middlewares, list | tuple):
            raise InvalidValue(
                f"middlewares are to be a tuple, such as ({shown(middlewares, 40)},)"
            )

        self._consumer = consumer
        self._handler = with_middlewares(dispatcher, *middlewares)
        self._on_error = on_error

    def add_middlewares(self, *middlewares: Middleware) -> Self:
        """Put these around what is there, the first one outermost."""
        self._handler = with_middlewares(self._handler, *middlewares)
        return self

    async def drain(self, concurrency: int = 1) -> None:
        """Handle what comes until the consumer ends; with a concurrency of 1, in order.

        Raises:
            Exception: of the consumer; or, where ``on_error`` is ``raise``, of the dispatcher.
            ExceptionGroup: of several, with more than one at a time.

        """
        run = _Run(self._consumer, self._handle, _checked(concurrency))
        if concurrency == 1:
            await run.work()
            return

        problems: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(run.work())
        except BaseExceptionGroup as several:
            problems.extend(several.exceptions)

        if problems:
            raise _what_to_raise(problems)

    @asynccontextmanager
    async def draining(
        self,
        concurrency: int | None = 1,
        *,
        graceful: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - of leaving, not of being inside
    ) -> AsyncIterator[Self]:
        """Handle what comes while the block runs: ``async with pump.draining(concurrency=10):``.

        At its end no more is taken. What is being handled then is cancelled and handed back; or, if
        ``graceful``, comes to its end, for which there are ``timeout`` seconds. Of a consumer that
        was closed by then, a graceful end waits for all that is left. It takes the timeout and half
        a second more at most: a dispatcher that does not end when it is cancelled is left behind.

        Raises:
            Exception: what stopped the pump; it cancels the block. Or what the block has raised.
            ExceptionGroup: of several that did so at the same time.

        """
        count = _checked(1 if concurrency is None else concurrency)
        if timeout is not None and not graceful:
            raise InvalidValue("timeout is how long a graceful end may take: say graceful=True")

        if timeout is not None:
            check_seconds("timeout", timeout, is_zero_ok=True, high=math.inf)

        run = _Run(self._consumer, self._handle, count)
        problems: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                workers = [asyncio.ensure_future(run.work()) for _ in range(count)]
                held = [group.create_task(_until_left(worker)) for worker in workers]
                try:
                    yield self
                except Exception as problem:
                    problems.append(problem)
                    run.cancel(held)
                else:
                    if graceful:
                        await run.finish(workers, timeout)

                    run.cancel(held)
        except BaseExceptionGroup as several:
            problems.extend(several.exceptions)

        if problems:
            raise _what_to_raise(problems)

    async def _handle(self, delivery: Delivery[T]) -> None:
        try:
            async with delivery as message:
                await outcome_of(self._handler(message))
        except Exception as problem:
            if self._on_error == "raise":
                raise

            if callable(self._on_error):
                told = self._on_error(problem)
                if inspect.isawaitable(told):
                    await told
            else:
                logger.exception("a message could not be handled")


class _Run(Generic[T]):
    """Workers that share one iteration of a consumer."""

    def __init__(
        self,
        consumer: Consumer[T],
        handle: Callable[[Delivery[T]], Awaitable[None]],
        concurrency: int,
    ) -> None:
        self._consumer = consumer
        self._handle = handle
        if isinstance(consumer, SupportsPrefetch):
            self._deliveries: AsyncIterator[Delivery[T]] = consumer.iterate(concurrency)
        else:
            self._deliveries = aiter(consumer)

        self._lock = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        """Workers that have nothing in hand."""

        self._is_stopping = False

    async def work(self) -> None:
        """Handle one message after the other until there are no more."""
        me = asyncio.current_task()
        assert me is not None
        while not self._is_stopping:
            self._waiting.add(me)
            try:
                async with self._lock:
                    delivery = await anext(self._deliveries)
            except StopAsyncIteration:
                return
            finally:
                self._waiting.discard(me)

            await self._handle(delivery)

    async def finish(self, workers: list[asyncio.Task[None]], seconds: float | None) -> None:
        """Let workers come to an end."""
        if not getattr(self._consumer, "closed", False):
            self._is_stopping = True
            for worker in list(self._waiting):
                worker.cancel()

        await asyncio.wait(workers, timeout=seconds)

    def cancel(self, workers: list[asyncio.Task[None]]) -> None:
        """End them now."""
        self._is_stopping = True
        for worker in workers:
            worker.cancel()


async def _until_left(worker: asyncio.Task[None]) -> None:
    """Wait for a worker, which is cancelled with this, but not for one that does not care."""
    try:
        await asyncio.wait((worker,))
    except asyncio.CancelledError:
        await end_all({worker})
        if worker.done() and not worker.cancelled() and (problem := worker.exception()):
            raise problem from None

        raise

    await worker


def _what_to_raise(problems: list[BaseException]) -> BaseException:
    """One error is raised as what it is, several in a group."""
    if len(problems) == 1:
        return problems[0]

    return BaseExceptionGroup("several things went wrong at the same time", problems)


def _checked(concurrency: int) -> int:
    check_count("concurrency", concurrency)
    return concurrency
