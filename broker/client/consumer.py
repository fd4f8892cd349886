"""Toolkit: a handler that is called with each message of a queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from broker.client.calling import call, handler_of, note_handler
from broker.client.checks import (
    check_callable,
    check_choice,
    check_count,
    check_grace,
    check_kind,
    check_queue,
)
from broker.client.errors import DecodeError, InvalidValue
from broker.client.events import ClientEvent, logger
from broker.client.intake import PREFETCH_MAX, Intake
from broker.client.patience import ANSWER_S, at_most, carried, end_all
from broker.client.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from broker.client.core import Core
    from broker.client.delivery import Delivery

__all__ = ["Ack", "Consumer"]

T = TypeVar("T")

Ack = Literal["after", "before", "manual"]
"""When a message is forgotten: after it was handled, before, or when the handler says so."""


class Consumer(Generic[T]):
    """A handler at work. Made by :meth:`Client.consume`; also a context manager that cancels it."""

    def __init__(
        self,
        core: Core,
        queue: str,
        handler: Callable[[Delivery[T]], Awaitable[object] | object],
        *,
        ack: Ack,
        prefetch: int,
        into: type[T] | None,
    ) -> None:
        check_queue(queue)
        check_callable("handler", handler)
        check_choice("ack", ack, ("after", "before", "manual"))
        check_count("prefetch", prefetch, high=PREFETCH_MAX)
        self.queue = queue
        self.on_end: Callable[[], object] | None = None
        self._core = core
        self._handler = handler
        self._ack = ack
        self._tasks: set[asyncio.Task[None]] = set()
        self._intake: Intake[T] = Intake(core, queue, self._begin, into=into, prefetch=prefetch)
        self._is_cancelled = False

    @property
    def running(self) -> int:
        """How many messages are being handled."""
        return len(self._tasks)

    async def start(self, retry: Retry | None) -> None:
        """Begin to consume."""
        if retry is not None:
            check_kind("retry", retry, Retry, "Retry(3)")
            if self._ack == "before":
                raise InvalidValue(
                    "what is acknowledged before it is handled is not tried again: leave out "
                    "ack='before' or retry"
                )

        self._intake.retry = retry
        await self._intake.start()

    async def cancel(self, grace: float | None = 10.0) -> None:
        """Take no more, and let handlers end for ``grace`` seconds, None for as long as it takes.

        Those that have not ended then are cancelled: their messages are handed back, and no attempt
        is counted. It takes the grace and two seconds more at most, and those only where the broker
        does not answer or a handler does not end when it is cancelled: such a one is left behind,
        and what it does about its message makes no difference any more. For the handler that calls
        this it does not wait: the consumer ends when that has settled its message.
        """
        check_grace(grace)
        if self._is_cancelled:
            return

        self._is_cancelled = True
        if self.on_end is not None:
            self.on_end()

        # Meanwhile handlers go on: a broker that does not answer has no say in how long they may.
        stopping = self._core.spawn(self._intake.stop_taking())
        current = handler_of(self._core)
        try:
            await asyncio.sleep(0)
            if tasks := self._tasks - {current}:
                await asyncio.wait(tasks, timeout=grace)
        finally:
            # Who is interrupted leaves nothing half ended.
            await carried(self._end(stopping, current))

    async def _end(self, stopping: asyncio.Task[None], current: asyncio.Task[Any] | None) -> None:
        await end_all(self._tasks - {current})
        # A handler that ends its own consumer still has a message to settle.
        await at_most(ANSWER_S, self._leave(stopping, is_settled=current not in self._tasks))

    async def _leave(self, stopping: asyncio.Task[None], *, is_settled: bool) -> None:
        await asyncio.wait((stopping,))
        await (self._intake.close() if is_settled else self._intake.end())

    async def __aenter__(self) -> Consumer[T]:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.cancel()

    def _begin(self, delivery: Delivery[T]) -> None:
        delivery.start_clock()
        task: asyncio.Task[None] = asyncio.create_task(self._handle(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, delivery: Delivery[T]) -> None:
        note_handler(self._core)
        failed: list[Exception] = []
        try:
            if self._ack == "after":
                async with delivery:
                    await self._call(delivery, failed)
            elif self._ack == "before":
                await delivery.ack()
                await self._call(delivery, failed)
            else:
                await self._handle_manually(delivery, failed)
        except Exception as problem:
            # Where that could not be recorded, this is about the record, and was told.
            self._tell(delivery, failed[0] if failed else problem)

    async def _call(self, delivery: Delivery[T], failed: list[Exception]) -> None:
        try:
            await call(self._handler, delivery)
        except Exception as problem:
            failed.append(problem)
            raise

    async def _handle_manually(self, delivery: Delivery[T], failed: list[Exception]) -> None:
        """What the handler does not settle stays open, unless it fails or is cancelled."""
        try:
            await self._call(delivery, failed)
        except asyncio.CancelledError:
            await delivery.requeue()
            raise
        except DecodeError as problem:
            await delivery.dead(problem, reason="undecodable")
            raise
        except Exception as problem:
            await delivery.fail(problem)
            raise

    def _tell(self, delivery: Delivery[T], problem: Exception) -> None:
        logger.debug("the handler of %s has failed", self.queue, exc_info=problem)
        event = ClientEvent(
            "handler_failed",
            queue=self.queue,
            id=delivery.id,
            error=problem,
            attempt=delivery.attempt,
        )
        self._core.events.emit(event)
