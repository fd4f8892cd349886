"""Toolkit: what a queue is, to those who use one. Anything that has these methods is one.

Invariant: nothing here knows a broker, or the rest of the toolkit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

__all__ = ["Consumer", "Delivery", "Producer", "Queue", "SupportsPrefetch"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@runtime_checkable
class Delivery(Protocol[T_co]):
    """A message that is being handled: entered, it gives the message; left, it is settled.

    Left without an exception the message was handled. Left with one, it was not, and the exception
    goes on. Left by cancellation, somebody else is to handle it.
    """

    async def __aenter__(self) -> T_co:
        """Return the message."""
        ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
        /,
    ) -> bool | None:
        """Settle it."""
        ...


@runtime_checkable
class Producer(Protocol[T_contra]):
    """What takes messages."""

    async def send(self, message: T_contra, /) -> object:
        """Return when the message is safe."""
        ...


@runtime_checkable
class Consumer(Protocol[T_co]):
    """What gives messages: ``async for delivery in consumer``. Several iterations compete."""

    def __aiter__(self) -> AsyncIterator[Delivery[T_co]]:
        """Begin to take messages."""
        ...


@runtime_checkable
class Queue(Producer[T], Consumer[T], Protocol[T]):
    """What takes messages and gives them. Subclasses can be called, which is to send."""

    async def __call__(self, message: T, /) -> object:
        """Send it: so a queue can be had wherever something takes a function of one argument."""
        return await self.send(message)


@runtime_checkable
class SupportsPrefetch(Protocol[T_co]):
    """A consumer that wants to know how many messages will be handled at a time."""

    def iterate(self, prefetch: int, /) -> AsyncIterator[Delivery[T_co]]:
        """Begin to take messages, so many ahead."""
        ...
