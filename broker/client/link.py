"""Toolkit: one connection, from the handshake until it is lost. The only module that knows aiormq.

Invariant: whatever was begun on a link ends when the link is lost, with :class:`LinkLost`; nothing
waits for a broker that is gone. Errors of the library do not get past this module.
"""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aio_pika
from aiormq.channel import Channel
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
from broker.client.mending import MendingTransport
from broker.client.patience import CLOSE_S
from broker.client.wire import packed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from aiormq.abc import DeliveredMessage

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

FRAMES_BUFFERED: Final = 1000
"""Frames of one channel that wait for its reader. The library's ten stop the whole connection."""

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

    def __init__(self, connection: _Connection, number: int) -> None:
        self._connection = connection
        self.number = number
        self.lost: asyncio.Future[BaseException | None]
        self.lost = asyncio.get_running_loop().create_future()
        self._operations: set[asyncio.Timeout] = set()
        self._publisher: Channel | None = None
        self._admin: Channel | None = None
        self._administering = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._declared: set[str] = set()
        self._under_way: set[str | None] = set()
        self._apart = asyncio.Semaphore(APART_MAX)
        transport = connection.transport
        assert transport is not None
        self._underlay = transport.connection
        frame_max = self._underlay.connection_tune.frame_max or sys.maxsize
        self._header_room = frame_max - HEADER_FRAME_BYTES
        self._underlay.closing.add_done_callback(self._on_closing)

    @property
    def is_alive(self) -> bool:
        """Whether it is there, as far as one knows."""
        return not self.lost.done()

    @property
    def product(self) -> str:
        """What the broker calls itself."""
        properties = self._underlay.server_properties
        return "Leveret" if "leveret_version" in properties else str(properties.get("product"))

    @property
    def counts_failures_alone(self) -> bool:
        """Whether a quorum queue's delivery count tells failures from what was handed back.

        RabbitMQ's does from 4.3 on: basic.reject and lost consumers count, basic.nack does not.
        """
        version = str(self._underlay.server_properties.get("version"))
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
        try:
            channel = await self._underlay.channel(
                publisher_confirms=confirms,
                frame_buffer_size=FRAMES_BUFFERED,
                on_return_raises=True,
            )
        except RuntimeError as problem:
            # The library's word for a connection that is closed.
            raise LinkLost from problem

        assert isinstance(channel, Channel)
        return channel

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Channel]:
        """Have the channel for declarations to oneself: what is wrong with one closes it."""
        async with self._administering:
            if self._admin is None or self._admin.is_closed:
                self._admin = await self.open_channel()

            yield self._admin

    async def ensure(self, name: str, declare: Callable[[Channel], Awaitable[object]]) -> None:
        """Declare something that everybody declares alike, once a link."""
        if name in self._declared:
            return

        async with self.admin() as channel:
            await declare(channel)

        self._declared.add(name)

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
        so all of them are sent again, each on a channel of its own, and that one fails. Nor does
        the library stop writing at once on a channel that was closed, for which the broker closes
        the connection: then too.
        """
        properties = packed(message.properties, self._header_room)
        publication = Publication(exchange, routing_key, message.body, properties, mandatory)
        message_id = properties.message_id
        if is_suspect or message_id in self._under_way:
            # The library knows a message that comes back by its id, and of two that have the same
            # one it takes the second for confirmed.
            await self._publish_apart(publication)
            return

        self._under_way.add(message_id)
        try:
            await _publish(await self._publisher_channel(), publication)
            return
        except (AMQPChannelError, ChannelInvalidStateError):
            if not self.is_alive:
                raise
        finally:
            self._under_way.discard(message_id)

        await self._publish_apart(publication)

    async def _publish_apart(self, publication: Publication) -> None:
        async with self._apart:
            channel = await self.open_channel(confirms=True)
            try:
                await _publish(channel, publication)
            finally:
                if not channel.is_closed:
                    await channel.close()

    async def close(self) -> None:
        """Close it. What is unacknowledged goes back to its queues.

        Who is not heard of in time is hung up on: the library would wait for as long as its
        heartbeats.
        """
        self.set_lost(None)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._connection.close()
        except (TimeoutError, *LIBRARY_ERRORS):
            return
        finally:
            self._connection.mending.abort()


async def get_message(channel: Channel, queue: str) -> DeliveredMessage | None:
    """Take a message, if there is one."""
    try:
        message = await channel.basic_get(queue)
    except BaseException:
        getter: asyncio.Future[object] | None = getattr(channel, "getter", None)
        if getter is not None:
            # The library leaves this one with an error that nobody fetches.
            getter.add_done_callback(lambda done: done.cancelled() or done.exception())

        raise

    return None if isinstance(message.delivery, Basic.GetEmpty) else message


class Publication(NamedTuple):
    exchange: str
    routing_key: str
    body: bytes
    properties: Packed
    is_mandatory: bool


async def _publish(channel: Channel, publication: Publication) -> None:
    try:
        await channel.basic_publish(
            publication.body,
            exchange=publication.exchange,
            routing_key=publication.routing_key,
            properties=publication.properties,
            mandatory=publication.is_mandatory,
            wait=False,
        )
    except PublishError as problem:
        where = publication.exchange or publication.routing_key
        raise Unroutable(f"no queue has taken the message for {where!r}") from problem
    except DeliveryError as problem:
        raise QueueFull(
            f"a queue has refused the message for {publication.routing_key!r}: it is full"
        ) from problem
    except BaseException:
        _take_back(channel, publication.properties.message_id or "")
        raise


def _take_back(channel: Channel, message_id: str) -> None:
    """Have the library count one message less if it was interrupted before it wrote this one.

    It counts first. The broker would confirm the next message under the number of this one, which
    nobody waits for, and each later one in the place of the one before.
    """
    tag = channel.message_id_delivery_tag.get(message_id)
    if tag is None or tag != channel.delivery_tag:
        return

    confirmation = channel.confirmations.get(tag)
    # Interrupted later, while it waits for the confirm, this is cancelled.
    if isinstance(confirmation, asyncio.Future) and not confirmation.done():
        del channel.confirmations[tag]
        del channel.message_id_delivery_tag[message_id]
        channel.delivery_tag -= 1


class Operation:
    """Something that waits for the broker: not longer than the link lives, nor than it may."""

    __slots__ = ("_all", "_link", "_timeout")

    def __init__(
        self, link: Link, deadline: float | None, all_of_link: set[asyncio.Timeout]
    ) -> None:
        self._link = link
        self._all = all_of_link
        self._timeout = asyncio.timeout_at(deadline)

    async def __aenter__(self) -> None:
        if not self._link.is_alive:
            raise LinkLost

        await self._timeout.__aenter__()
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
        if isinstance(exc, asyncio.CancelledError):
            task = asyncio.current_task()
            # The library cancels what waits on a connection that it loses. Nobody else did.
            if task is None or not task.cancelling():
                raise LinkLost from exc

            return

        if isinstance(exc, ToolkitError | LinkLost):
            return

        translated = translated_error(exc)
        if translated is None and isinstance(exc, LIBRARY_ERRORS):
            raise LinkLost from exc

        if translated is not None:
            raise translated from exc


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


class _Connection(aio_pika.Connection):
    """The library's, over a transport of ours.

    It passes on what :func:`aio_pika.connect` does not: that ignores a name where there is a URL.
    """

    def __init__(self, url: str, name: str) -> None:
        super().__init__(URL(url))
        self.mending = self.kwargs["transport_factory"] = MendingTransport()
        self.kwargs["client_properties"] = {"connection_name": name}


async def open_link(url: str, name: str | None, number: int) -> Link:
    """Connect once.

    Raises:
        AccessRefused: user, password or virtual host are wrong.
        Unavailable: nobody is there.

    """
    connection = _Connection(url, name or "leveret client")
    try:
        await connection.connect()
        return Link(connection, number)
    except BaseException as problem:
        # The library leaves it open where the first answer is not what it expects, or never comes.
        connection.mending.abort()
        if not isinstance(problem, LIBRARY_ERRORS):
            raise

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
