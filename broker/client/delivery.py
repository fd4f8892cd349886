"""Toolkit: a message that is being handled, until it is settled.

Invariant: a delivery is settled once. Every way to settle it answers False when that has happened
before, or when the connection it came over is gone and the broker gives it to somebody else: a
broker would close the channel for it, and take everything else on it back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Generic, Literal, NoReturn, TypeVar

from broker.client import wire
from broker.client.calling import INTERRUPTIONS
from broker.client.errors import (
    DecodeError,
    InvalidValue,
    QueueFull,
    QueueNotFound,
    ToolkitError,
    Unroutable,
)
from broker.client.events import ClientEvent
from broker.client.link import LinkLost
from broker.client.message import Message
from broker.client.retry import Exponential
from broker.client.spec import DEAD_EXCHANGE
from broker.client.texts import text_of, trace_of

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType

    from aiormq.abc import DeliveredMessage

    from broker.client.events import EventKind
    from broker.client.source import Source

__all__ = ["Delivery"]

T = TypeVar("T")

FULL_WAIT_S: Final = 1.0
"""How long to wait at least before the next attempt of a message without an id, where its queue is
full: its attempts are not counted then."""

UNRECORDED: Final = Exponential(0.2, cap=30.0, jitter=0.2)
"""How long to hold a message whose failure cannot be recorded, by how many there were before it in
a row, before it is handed back."""


class Delivery(Generic[T]):
    """A message that is being handled.

    As a context manager it gives the body and settles itself::

        async with delivery as body:
            await handle(body)      # returns: ack(); raises: fail(error)

    Cancelled, it hands the message back, and no attempt is counted. Or settle it yourself, with
    one of the methods, each of which says whether that still made a difference.
    """

    __slots__ = (
        "_decoded",
        "_expiry",
        "_is_settled",
        "_raw",
        "_source",
        "_timeout",
        "attempt",
        "id",
    )

    def __init__(self, raw: DeliveredMessage, source: Source[T]) -> None:
        self._raw = raw
        self._source = source
        self._is_settled = source.is_settled_on_arrival
        self._decoded: list[T] | None = None
        source.note_arrived()
        self._timeout: asyncio.Timeout | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.id: str = raw.header.properties.message_id or ""
        self.attempt: int = max(
            wire.attempt_of(raw, counts_failures_alone=source.counts_failures_alone),
            source.core.attempts.of(source.queue, self.id),
        )

    def __repr__(self) -> str:
        state = "settled" if self._is_settled else "not settled"
        return f"<Delivery {self.id!r} of {self.queue!r}, attempt {self.attempt}, {state}>"

    async def __aenter__(self) -> T:
        """Return the body.

        Raises:
            DecodeError: it cannot be read; the message has become a dead letter.

        """
        body = await self.open()
        if self._expiry is not None:
            self._stop_expiry()
            self._timeout = asyncio.timeout(self._source.ack_timeout)
            await self._timeout.__aenter__()

        return body

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Settle it, unless that was done; exceptions go on."""
        timeout, self._timeout = self._timeout, None
        if timeout is not None:
            try:
                await timeout.__aexit__(exc_type, exc, tb)
            except TimeoutError as problem:
                late = self._too_late()
                await self.fail(late)
                raise late from problem

        await self.settle_for(exc)

    async def settle_for(self, exc: BaseException | None) -> bool:
        """Settle it for how its handling ended: it may have been interrupted."""
        if exc is None:
            return await self.ack()

        return await (self.requeue() if isinstance(exc, INTERRUPTIONS) else self.fail(exc))

    async def open(self) -> T:
        """Return the body. If it cannot be read, make it a dead letter, and raise DecodeError."""
        try:
            return self.body
        except DecodeError as problem:
            await self.dead(problem, reason="undecodable")
            raise

    # -- what it is

    @property
    def body(self) -> T:
        """The value that was sent; raises :class:`DecodeError`."""
        if self._decoded is None:
            content_type: str | None = self._raw.header.properties.content_type
            source = self._source
            self._decoded = [source.core.codecs.decode(self._raw.body, content_type, source.into)]

        return self._decoded[0]

    @property
    def data(self) -> bytes:
        """The body as it came."""
        return self._raw.body

    @property
    def message(self) -> Message[T]:
        """All that is known of the message; raises :class:`DecodeError`."""
        return Message(
            body=self.body,
            id=self.id,
            headers=self.headers,
            priority=self.priority,
            attempt=self.attempt,
            queue=self.queue,
            topic=self.topic,
            timestamp=self.timestamp,
            redelivered=self.redelivered,
            type=self.type,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            content_type=self.content_type,
            error=wire.text_header(self._raw, wire.ERROR),
        )

    @property
    def headers(self) -> dict[str, object]:
        """What the sender put there."""
        return wire.user_headers(self._raw)

    @property
    def priority(self) -> int:
        """As it was given to ``send``."""
        wire_priority: int | None = self._raw.header.properties.priority
        spec = self._source.spec
        return (wire_priority or 0) if spec is None else spec.given_priority(wire_priority)

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self._source.queue

    @property
    def topic(self) -> str:
        """What it was published under; the name of the queue if it was sent to that."""
        return wire.topic_of(self._raw, self.queue)

    @property
    def timestamp(self) -> datetime | None:
        """When it was sent."""
        return wire.sent_at(self._raw)

    @property
    def redelivered(self) -> bool:
        """The broker has handed it out before."""
        return bool(self._raw.redelivered)

    @property
    def type(self) -> str | None:
        """The type it was given."""
        return self._raw.header.properties.message_type or None

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to."""
        return self._raw.header.properties.correlation_id or None

    @property
    def reply_to(self) -> str | None:
        """The queue for an answer."""
        return self._raw.header.properties.reply_to or None

    @property
    def content_type(self) -> str | None:
        """Which codec it was written with."""
        return self._raw.header.properties.content_type or None

    @property
    def raw(self) -> DeliveredMessage:
        """The message as the library has it."""
        return self._raw

    @property
    def is_duplicate(self) -> bool:
        """Whether one with this id was handled within ``dedupe_window``; consumers skip those."""
        return self._source.is_duplicate(self.id)

    @property
    def settled(self) -> bool:
        """Whether it was settled, with success or not."""
        return self._is_settled

    # -- what becomes of it

    async def ack(self) -> bool:
        """It was handled: forget it."""
        if not self._claim():
            return False

        self._source.note_handled(self.id)
        return await self._answer(self._forget_it())

    async def requeue(self) -> bool:
        """Hand it back to the queue, for anybody, at once; no attempt is counted."""
        return self._claim() and await self._answer(self._source.nack(self._tag))

    async def fail(self, error: BaseException | str | None = None) -> bool:
        """It failed: try again as the queue's :class:`Retry` says, or make it a dead letter."""
        if not self._claim():
            return False

        source = self._source
        cause = error if isinstance(error, BaseException) else None
        delay = source.retry.next_delay(self.attempt, cause)
        if delay is None:
            return await self._answer(self._bury(error, "attempts"))

        return await self._answer(self._try_again(error, cause, delay))

    async def _try_again(
        self, error: BaseException | str | None, cause: BaseException | None, delay: float
    ) -> bool:
        source = self._source

        again = wire.copy_of(
            self._raw,
            {
                wire.ATTEMPT: self.attempt + 1,
                wire.TOPIC: wire.topic_to_keep(self._raw, self.queue),
                **_error_headers(error),
            },
        )
        try:
            await self._send_again(again, delay)
        except LinkLost:
            return False
        except QueueFull:
            return await self._keep(cause, delay)
        except Unroutable:
            # Its queue was deleted meanwhile, so this was its last attempt.
            return await self._bury(error, "attempts", is_queue_gone=True)
        except InvalidValue:
            # It has grown, by what is to be told of it or by its size, and cannot be sent any more.
            # Handed back it would come again for ever.
            return await self._bury(error, "attempts")
        except ToolkitError as problem:
            await self._raise_unrecorded(problem, error)
        except asyncio.CancelledError:
            await source.nack(self._tag)
            raise

        self._tell("retried", cause, delay)
        return await self._forget_it()

    async def _keep(self, cause: BaseException | None, delay: float) -> bool:
        """Hand it back to its full queue, which takes back what it would not take anew.

        To wait for room with the message in hand could keep the only consumer from making any.
        """
        source = self._source
        try:
            if self.id:
                source.core.attempts.note(self.queue, self.id, self.attempt + 1)
            else:
                await source.wait(FULL_WAIT_S - delay)
        except LinkLost:
            return False
        except asyncio.CancelledError:
            await source.nack(self._tag)
            raise

        self._tell("retried", cause, delay)
        return await source.nack(self._tag)

    async def _forget_it(self) -> bool:
        self._source.core.attempts.forget(self.queue, self.id)
        return await self._source.ack(self._tag)

    async def dead(
        self, error: BaseException | str | None = None, *, reason: str = "rejected"
    ) -> bool:
        """Make it a dead letter, whatever attempts are left."""
        return self._claim() and await self._answer(self._bury(error, reason))

    def start_clock(self) -> None:
        """From now on there is ``ack_timeout`` to handle it."""
        seconds = self._source.ack_timeout
        if seconds is not None and not self._is_settled:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(seconds, self._expire)

    @property
    def is_stale(self) -> bool:
        """Whether the broker has taken it back, because the connection is gone."""
        return not self._source.is_alive

    def touch(self) -> bool:
        """Begin ``ack_timeout`` anew; False if it is settled, or too late."""
        if self._is_settled or not self._source.is_alive:
            return False

        loop = asyncio.get_running_loop()
        if self._timeout is not None:
            if self._timeout.expired():
                return False

            assert self._source.ack_timeout is not None
            self._timeout.reschedule(loop.time() + self._source.ack_timeout)
        elif self._expiry is not None and self._source.ack_timeout is not None:
            self._expiry.cancel()
            self._expiry = loop.call_later(self._source.ack_timeout, self._expire)

        return True

    # -- inside

    @property
    def _tag(self) -> int:
        return self._raw.delivery_tag or 0

    def _claim(self) -> bool:
        if self._is_settled:
            return False

        self._is_settled = True
        self._stop_expiry()
        return self._source.is_alive

    async def _answer(self, answer: Awaitable[bool]) -> bool:
        try:
            return await answer
        finally:
            self._source.note_answered()

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _expire(self) -> None:
        self._expiry = None
        self._source.core.spawn(self._fail_late())

    async def _fail_late(self) -> None:
        # What cannot be recorded an event has told.
        with contextlib.suppress(ToolkitError):
            await self.fail(self._too_late())

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"not handled within {self._source.ack_timeout:g} s")

    async def _send_again(self, message: wire.Outgoing, delay: float) -> None:
        source = self._source
        if delay > 0 and not source.refuses_when_full:
            await source.publish_later(self.queue, message, delay)
            return

        # What waits at the broker would be lost if the queue was full when its time has come. So it
        # is kept here, not acknowledged.
        await source.wait(delay)
        await source.publish("", self.queue, message)

    async def _bury(
        self, error: BaseException | str | None, reason: str, *, is_queue_gone: bool = False
    ) -> bool:
        """Put it with the dead letters of its queue, or leave that to the broker.

        Where the queue is gone, and its dead letters are as well, they are not made again for it.
        """
        source = self._source
        cause = error if isinstance(error, BaseException) else None
        letter = wire.copy_of(
            self._raw,
            {
                wire.ATTEMPT: self.attempt,
                wire.TOPIC: wire.topic_to_keep(self._raw, self.queue),
                wire.REASON: reason,
                wire.QUEUE: self.queue,
                wire.DEAD_AT: datetime.now(UTC).isoformat(),
                **_error_headers(error),
            },
        )
        try:
            if not source.keeps_dead_letters:
                self._tell("dropped", cause)
                return await self._forget_it()

            await source.publish_dead(DEAD_EXCHANGE, self.queue, letter)
        except LinkLost:
            return False
        except (Unroutable, QueueNotFound, InvalidValue) as problem:
            if is_queue_gone and isinstance(problem, Unroutable):
                self._tell("dropped", cause)
                await self._forget_it()
                return False

            try:
                return await self._bury_elsewhere(letter, problem, cause)
            except LinkLost:
                return False
            except ToolkitError as other:
                await self._raise_unrecorded(other, error)
            except asyncio.CancelledError:
                await source.nack(self._tag)
                raise
        except ToolkitError as problem:
            await self._raise_unrecorded(problem, error)
        except asyncio.CancelledError:
            await source.nack(self._tag)
            raise

        self._tell("dead", cause)
        return await self._forget_it()

    async def _bury_elsewhere(
        self, letter: wire.Outgoing, problem: ToolkitError, cause: BaseException | None
    ) -> bool:
        """Bury it where there is no queue for dead letters, or this letter cannot be sent there.

        What the broker moves by itself it is left to: it would throw away anything else.
        """
        source = self._source
        is_nowhere = type(problem) in (Unroutable, QueueNotFound)
        if await source.is_buried_by_others():
            self._tell("dead", cause)
            source.core.attempts.forget(self.queue, self.id)
            return await source.reject(self._tag)

        if is_nowhere or isinstance(problem, InvalidValue):
            await source.make_dead_queue()

        if isinstance(problem, InvalidValue):
            # This one is too large with what is to be told of it; what it was is not.
            letter = wire.copy_of(self._raw, {})
        elif not is_nowhere:
            raise problem

        await source.publish_dead(DEAD_EXCHANGE, self.queue, letter)
        self._tell("dead", cause)
        return await self._forget_it()

    async def _raise_unrecorded(
        self, problem: ToolkitError, error: BaseException | str | None
    ) -> NoReturn:
        """Hand it back, for it can be neither sent again nor be a dead letter, say for want of
        rights; and tell both errors.

        It comes again, and would at once: so the next one in a row is held for a while before.
        """
        source = self._source
        number = source.unrecorded_in_a_row
        source.unrecorded_in_a_row += 1
        delay = UNRECORDED.wait(number, random.random()) if number else 0.0  # noqa: S311
        told = type(problem)(
            f"a message that failed could only be handed back: {problem}{_reason(error)}"
        )
        # It is told before it is raised.
        cause = told.__cause__ = error if isinstance(error, BaseException) else problem
        self._emit("unrecorded", told, delay)
        if delay:
            source.core.spawn(self._requeue_later(delay))
        else:
            await source.nack(self._tag)

        raise told from cause

    async def _requeue_later(self, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._source.nack(self._tag)

    def _tell(
        self,
        kind: Literal["retried", "dead", "dropped"],
        error: BaseException | None,
        delay: float = 0.0,
    ) -> None:
        """Tell what has become of it; it was recorded."""
        self._source.unrecorded_in_a_row = 0
        self._emit(kind, error, delay)

    def _emit(self, kind: EventKind, error: BaseException | None, delay: float) -> None:
        event = ClientEvent(
            kind,
            queue=self.queue,
            id=self.id,
            error=error,
            attempt=self.attempt,
            delay=delay,
        )
        self._source.core.events.emit(event)


def _reason(error: BaseException | str | None) -> str:
    if isinstance(error, BaseException):
        return f" (it failed with {type(error).__qualname__}: {text_of(error)})"

    return f" (it failed with {error})" if error else ""


def _error_headers(error: BaseException | str | None) -> dict[str, object]:
    if error is None:
        return {wire.ERROR: None, wire.ERROR_TYPE: None, wire.TRACEBACK: None}

    if isinstance(error, str):
        return {wire.ERROR: wire.shortened(error), wire.ERROR_TYPE: None, wire.TRACEBACK: None}

    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return {
        wire.ERROR: wire.shortened(text_of(error)),
        wire.ERROR_TYPE: f"{module}{kind.__qualname__}",
        wire.TRACEBACK: wire.shortened(trace_of(error)),
    }
