"""Toolkit: a message that is being handled, until it is settled.

Invariant: a delivery is settled once. Every way to settle it answers False when that has happened
before, or when the connection it came over is gone and the broker has given it to somebody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from broker.client.message import Message

__all__ = ["Delivery"]

T = TypeVar("T")


class Delivery(Generic[T]):
    """A message that is being handled.

    As a context manager it gives the body and settles itself::

        async with delivery as body:
            await handle(body)      # returns: ack(); raises: fail(error)

    Cancelled, it hands the message back, and no attempt is counted. Or settle it yourself, with
    one of the methods, each of which says whether that still made a difference.
    """

    async def __aenter__(self) -> T:
        """Return the body.

        Raises:
            DecodeError: it cannot be read; the message has become a dead letter.

        """
        raise NotImplementedError

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """Settle it, unless that was done; exceptions go on."""
        raise NotImplementedError

    @property
    def body(self) -> T:
        """The value that was sent; raises :class:`DecodeError`."""
        raise NotImplementedError

    @property
    def message(self) -> Message[T]:
        """All that is known of the message; raises :class:`DecodeError`."""
        raise NotImplementedError

    id: str
    headers: dict[str, object]
    priority: int
    attempt: int
    queue: str
    topic: str
    timestamp: datetime | None
    redelivered: bool
    type: str | None
    correlation_id: str | None
    reply_to: str | None
    data: bytes
    """The body as it came."""

    @property
    def settled(self) -> bool:
        """Whether it was settled, with success or not."""
        raise NotImplementedError

    async def ack(self) -> bool:
        """It was handled: forget it."""
        raise NotImplementedError

    async def fail(self, error: BaseException | str | None = None) -> bool:
        """It failed: try again as the queue's :class:`Retry` says, or make it a dead letter."""
        raise NotImplementedError

    async def requeue(self) -> bool:
        """Hand it back to the queue, for anybody, at once; no attempt is counted."""
        raise NotImplementedError

    async def dead(
        self, error: BaseException | str | None = None, *, reason: str = "rejected"
    ) -> bool:
        """Make it a dead letter, whatever attempts are left."""
        raise NotImplementedError

    def touch(self) -> bool:
        """Begin ``ack_timeout`` anew; False if it is settled, or too late."""
        raise NotImplementedError
