"""Toolkit: one connection, from the handshake until it is lost.

Invariant: whatever was begun on a link ends when the link is lost, with :class:`LinkLost`; nothing
waits for a broker that is gone. Errors of the library do not get past this module.
"""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiormq.exceptions import (
    AMQPChannelError,
    AMQPError,
    AMQPException,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelInvalidStateError,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionClosed,
    DeliveryError,
    InvalidFrameError,
    ProbableAuthenticationError,
    PublishError,
)
from pamqp import commands
from pamqp.commands import Basic
from pamqp.exceptions import PAMQPException
from yarl import URL

from broker.client.errors import (
    AccessRefused,
    InvalidName,
    InvalidValue,
    MessageTooLarge,
    QueueFull,
    QueueNotFound,
    SpecConflict,
    ToolkitError,
    Unavailable,
    Unroutable,
)
from broker.client.underlay import Connection
from broker.client.wire import packed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from aiormq.abc import DeliveredMessage

    from broker.client.underlay import Channel
    from broker.client.wire import Outgoing, Packed

__all__ = [
    "LIBRARY_ERRORS",
    "LOCKED_ERRORS",
    "Link",
    "LinkLost",
    "Operation",
    "check_url",
    "get_message",
    "open_link",
    "translated_error",
]

APART_MAX: Final = 100
"""Messages that are sent at once, each on a channel of its own, of which there are not many."""

HEADER_FRAME_BYTES: Final = 20
"""Of a frame with a content header: what goes around it, and what is in it before properties."""

LIBRARY_ERRORS: Final = (
    AMQPError,
    AMQPException,
    PAMQPException,
    ChannelInvalidStateError,
    OSError,
    EOFError,
)
LOCKED_ERRORS: Final = (ChannelLockedResource,)
"""Of a queue that is another connection's own."""

PROBE_EXCHANGE: Final = "leveret.no-such-exchange"
PROBES_MAX: Final = 12
INEQUIVALENT: Final = re.compile(
    r"inequivalent arg '([^']+)'.*?current is (?:the value )?(?:'([^']*)'|none|\w+)"
)
"""What a broker says of a queue that is declared otherwise: what differs, and the value it has."""

NOT_ALLOWED: Final = 530
TOO_LARGE: Final = re.compile(r"message size \d+ is larger than .*?(\d+)")
REFUSALS: Final = {402, 403, NOT_ALLOWED}
"""Reply codes of a broker that does not let one in: wrong virtual host, user, or no right to it."""


class LinkLost(Exception):
    """The connection was lost before an answer came. Never gets out of the toolkit."""


class Link:
    """A connection that is there, or was."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self.number = number
        self.lost: asyncio.Future[BaseException | None]
        self.lost = asyncio.get_running_loop().create_future()
        self._operations: set[asyncio.Timeout] = set()
        self._publisher: Channel | None = None
        self._admin = _Turns(self)
        self._getter = _Turns(self)
        self._opening = asyncio.Lock()
        self._declared: set[str] = set()
        self._apart = asyncio.Semaphore(APART_MAX)
        frame_max = connection.connection_tune.frame_max or sys.maxsize
        self._header_room = frame_max - HEADER_FRAME_BYTES
        connection.closing.add_done_callback(self._on_closing)

    @property
    def is_alive(self) -> bool:
        """Whether it is there, as far as one knows."""
        return not self.lost.done()

    @property
    def product(self) -> str:
        """What the broker calls itself."""
        properties = self._connection.server_properties
        return "Leveret" if "leveret_version" in properties else str(properties.get("product"))

    @property
    def counts_failures_alone(self) -> bool:
        """Whether a quorum queue's delivery count tells failures from what was handed back.

        RabbitMQ's does from 4.3 on: basic.reject and lost consumers count, basic.nack does not.
        """
        version = str(self._connection.server_properties.get("version"))
        numbers = [int(word) for word in version.split(".")[:2] if word.isdigit()]
        return self.product == "RabbitMQ" and numbers >= [4, 3]

    def _on_closing(self, closing: asyncio.Future[Any]) -> None:
        error: BaseException | None = None
        if not closing.cancelled():
            error = closing.exception()

        self.set_lost(error)

    def set_lost(self, error: BaseException | None) -> None:
        """It is gone: end everything that waits for it."""
        if self.lost.done():
            return

        self.lost.set_result(error)
        now = asyncio.get_running_loop().time()
        for timeout in list(self._operations):
            timeout.reschedule(now)

    def operation(self, deadline: float | None) -> Operation:
        """Enclose anything that waits for the broker: ``async with link.operation(deadline):``."""
        return Operation(self, deadline, self._operations)

    async def open_channel(self, *, confirms: bool = False) -> Channel:
        """Open a channel of one's own."""
        return await self._connection.channel(publisher_confirms=confirms)

    def admin(self) -> AbstractAsyncContextManager[Channel]:
        """Have the channel for declarations to oneself."""
        return self._admin.next()

    def getter(self) -> AbstractAsyncContextManager[Channel]:
        """Have the channel to oneself that single messages are taken over."""
        return self._getter.next()

    async def ensure(self, name: str, declare: Callable[[Channel], Awaitable[object]]) -> None:
        """Declare an exchange that everybody declares alike, once a link, or find it there."""
        if name in self._declared:
            return

        try:
            async with self.admin() as channel:
                await declare(channel)
        except ChannelAccessRefused:
            # Others may have made it. Of that any user may ask.
            if not await self._has_exchange(name):
                raise

        self._declared.add(name)

    async def _has_exchange(self, name: str) -> bool:
        try:
            async with self.admin() as channel:
                await channel.exchange_declare(name, passive=True)
        except ChannelNotFoundEntity:
            return False

        return True

    async def has_queue(self, name: str) -> bool:
        """Say whether there is such a queue."""
        try:
            async with self.admin() as channel:
                await channel.queue_declare(name, passive=True)
        except ChannelNotFoundEntity:
            return False

        return True

    async def dead_letter_exchange_of(self, queue: str) -> str | None:
        """Return the dead-letter exchange that a queue was declared with, None if with none.

        AMQP has no question for that. But a broker that refuses to declare a queue anew says what
        it has. A policy's is not told.
        """
        wanted: dict[str, Any] = {"x-dead-letter-exchange": PROBE_EXCHANGE}
        flags = {"durable": True, "auto_delete": False, "exclusive": False}
        for _ in range(PROBES_MAX):
            if not await self.has_queue(queue):
                return None

            try:
                async with self.admin() as channel:
                    await channel.queue_declare(queue, arguments=wanted, **flags)
            except ChannelPreconditionFailed as problem:
                found = INEQUIVALENT.search(str(problem))
                if found is None:
                    return None

                name, value = found[1], found[2]
                if name == "x-dead-letter-exchange":
                    return value
                if name in flags:
                    flags[name] = not flags[name]
                elif value is None or name in wanted:
                    return None
                else:
                    wanted[name] = int(value) if value.isdigit() else value

        return None

    async def _publisher_channel(self) -> Channel:
        channel = self._publisher
        if channel is not None and not channel.is_closed:
            return channel

        async with self._opening:
            if self._publisher is None or self._publisher.is_closed:
                self._publisher = await self.open_channel(confirms=True)

            return self._publisher

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        message: Outgoing,
        *,
        mandatory: bool = True,
        is_suspect: bool = False,
    ) -> None:
        """Publish, and return when the broker has confirmed it.

        Args:
            exchange: where to.
            routing_key: under what.
            message: what.
            mandatory: whether it is an error if no queue takes it.
            is_suspect: whether it was under way when the broker closed a connection for a mistake.

        Raises:
            Unroutable: it is mandatory, and no queue has taken it.
            QueueFull: a queue has refused it.
            MessageTooLarge: its headers do not fit into a frame.

        What is wrong with one message closes the channel, and with it what others have under way;
        so all of them are sent again, each on a channel of its own, and that one fails.
        """
        properties = packed(message.properties, self._header_room)
        publication = Publication(exchange, routing_key, message.body, properties, mandatory)
        if not is_suspect:
            channel = await self._publisher_channel()
            # One that comes back is known by its id, and of two with the same one nobody could say
            # which it is.
            if not channel.is_under_way(properties.message_id or ""):
                try:
                    await _publish(channel, publication)
                    return
                except (AMQPChannelError, ChannelInvalidStateError):
                    if not self.is_alive:
                        raise

        await self._publish_apart(publication)

    async def _publish_apart(self, publication: Publication) -> None:
        async with self._apart:
            channel = await self.open_channel(confirms=True)
            try:
                await _publish(channel, publication)
            except BaseException:
                channel.leave()
                raise

            await channel.close()

    async def close(self) -> None:
        """Close it. What is unacknowledged goes back to its queues.

        Who is not heard of in time is hung up on: the library would wait for as long as its
        heartbeats.
        """
        self.set_lost(None)
        await self._connection.hang_up()


async def get_message(
    channel: Channel, queue: str, on_left: Callable[[DeliveredMessage], None] | None = None
) -> DeliveredMessage | None:
    """Take a message, if there is one; ``on_left`` gets it if nobody waits any more."""
    message = await channel.basic_get(queue, on_left=on_left)
    return None if isinstance(message.delivery, Basic.GetEmpty) else message


class Publication(NamedTuple):
    exchange: str
    routing_key: str
    body: bytes
    properties: Packed
    is_mandatory: bool


async def _publish(channel: Channel, publication: Publication) -> None:
    frame = Basic.Publish(
        exchange=publication.exchange,
        routing_key=publication.routing_key,
        mandatory=publication.is_mandatory,
    )
    try:
        await channel.publish(frame, publication.properties, publication.body)
    except PublishError as problem:
        where = publication.exchange or publication.routing_key
        raise Unroutable(f"no queue has taken the message for {where!r}") from problem
    except DeliveryError as problem:
        raise QueueFull(
            f"a queue has refused the message for {publication.routing_key!r}: it is full"
        ) from problem


class _Turns:
    """A channel that one has at a time: what is wrong with anything closes it, and its next answer
    is for who asked last.

    Who is interrupted leaves it to the next one when the broker has answered: things are done in
    the order in which they were asked for, and each has its own answer.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = asyncio.Lock()
        self._channel: Channel | None = None

    @asynccontextmanager
    async def next(self) -> AsyncIterator[Channel]:
        """Wait for one's turn."""
        await self._lock.acquire()
        try:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._link.open_channel()

            yield self._channel
        finally:
            exchanges = () if self._channel is None else self._channel.exchanges
            if exchanges:
                answered = asyncio.gather(*exchanges, return_exceptions=True)
                answered.add_done_callback(lambda _: self._lock.release())
            else:
                self._lock.release()


class Operation:
    """Something that waits for the broker: not longer than the link lives, nor than it may."""

    __slots__ = ("_all", "_cancels", "_link", "_timeout")

    def __init__(
        self, link: Link, deadline: float | None, all_of_link: set[asyncio.Timeout]
    ) -> None:
        self._link = link
        self._all = all_of_link
        self._cancels = 0
        self._timeout = asyncio.timeout_at(deadline)

    async def __aenter__(self) -> None:
        if not self._link.is_alive:
            raise LinkLost

        await self._timeout.__aenter__()
        self._cancels = _cancels()
        self._all.add(self._timeout)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._all.discard(self._timeout)
        try:
            await self._timeout.__aexit__(exc_type, exc, tb)
        except TimeoutError as problem:
            if self._link.is_alive:
                raise Unavailable("the broker has not answered in time") from None

            raise LinkLost from problem

        if exc is not None:
            self._translate(exc)

    def _translate(self, exc: BaseException) -> None:
        is_cancel = isinstance(exc, asyncio.CancelledError)
        if _cancels() > self._cancels:
            # Whatever the library makes of it.
            if not is_cancel:
                raise asyncio.CancelledError from exc

            return

        if is_cancel:
            # The library cancels what waits on a connection that it loses. Nobody else did.
            raise LinkLost from exc

        if isinstance(exc, ToolkitError | LinkLost):
            return

        translated = translated_error(exc)
        if translated is None and isinstance(exc, LIBRARY_ERRORS):
            raise LinkLost from exc

        if translated is not None:
            raise translated from exc


def _cancels() -> int:
    """Return how often the task was cancelled that this runs in."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def translated_error(exc: BaseException) -> ToolkitError | None:
    """Return what an error of the library is here; None if it is about the connection, or ours."""
    text = str(exc)
    for kind, ours in (
        (ChannelNotFoundEntity, QueueNotFound),
        (ChannelPreconditionFailed, SpecConflict),
        (ChannelLockedResource, AccessRefused),
        (ChannelAccessRefused, AccessRefused),
        (ProbableAuthenticationError, AccessRefused),
        (AuthenticationError, AccessRefused),
    ):
        if isinstance(exc, kind):
            return MessageTooLarge(text) if size_limit_in(text) else ours(text)

    closing = _close_reason(exc)
    if closing is not None and closing[0] in REFUSALS:
        return AccessRefused(closing[1])

    if isinstance(exc, TypeError):
        return InvalidValue(f"a header cannot be sent: {text}")

    if isinstance(exc, ValueError):
        # The library refuses names that AMQP would let pass, before they are sent.
        return InvalidName(text) if "queue" in text.lower() else InvalidValue(text)

    return None


def size_limit_in(text: str) -> int | None:
    """Return the bytes that a message may have, if a broker says that one had more."""
    found = TOO_LARGE.search(text)
    return int(found[1]) if found else None


def _close_reason(exc: BaseException) -> tuple[int, str] | None:
    """Return why the broker has closed a connection, from what the library makes of it."""
    if isinstance(exc, ConnectionClosed) and exc.args and isinstance(exc.args[0], int):
        return exc.args[0], str(exc)

    # While it connects, the library is surprised by the frame, and keeps it.
    for argument in exc.args:
        if isinstance(argument, commands.Connection.Close):
            return argument.reply_code or 0, argument.reply_text or ""

    if isinstance(exc, InvalidFrameError) and "Connection.OpenOk" in str(exc):
        # From aiormq 7 on it does not keep it. All that is refused there is the virtual host.
        return NOT_ALLOWED, "the broker does not open this virtual host for this user"

    return None


async def open_link(url: str, name: str | None, number: int) -> Link:
    """Connect once.

    Raises:
        AccessRefused: user, password or virtual host are wrong.
        Unavailable: nobody is there.

    """
    try:
        return Link(await Connection.open(url, name or "leveret client"), number)
    except LIBRARY_ERRORS as problem:
        translated = translated_error(problem)
        if isinstance(translated, AccessRefused):
            raise translated from problem

        raise Unavailable(
            f"no broker at {safe_url(url)}: {problem or type(problem).__name__}"
        ) from problem


def check_url(url: str) -> str:
    """Return the URL, if it can be one of a broker.

    Raises:
        InvalidValue: it cannot.

    """
    try:
        parts = URL(url)
        is_right = parts.scheme in ("amqp", "amqps") and bool(parts.host)
    except (ValueError, TypeError):
        is_right = False

    if not is_right:
        raise InvalidValue("a broker's URL is like amqp://user:password@host:5672/vhost")

    return url


def safe_url(url: str) -> str:
    """Return the URL without its password."""
    found = URL(url)
    return str(found.with_password("***") if found.password else found)
