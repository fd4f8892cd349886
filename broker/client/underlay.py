"""Toolkit: the library's connection and channels, on which whoever waits can be cancelled.

The library gives up half of an exchange with the broker when it is cancelled: it closes the channel
over it, by which others get answers and errors that are not theirs, or writes what ends the whole
connection, or makes an error of its own of the cancel. So here whatever is begun goes on in a task
of its own.

Invariant: an exchange that was begun comes to its end, whoever waits for it. Who is cancelled while
waiting is so at once, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiormq.channel
import aiormq.connection
from aiormq.abc import ChannelFrame, DeliveredMessage
from aiormq.channel import Returning
from aiormq.exceptions import ChannelInvalidStateError, ConnectionClosed, PublishError
from pamqp.header import ContentHeader
from yarl import URL

from broker.client.errors import ToolkitError
from broker.client.mending import MendingTransport
from broker.client.patience import CLOSE_S, at_most, carried, leave_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiormq.abc import (
        ConfirmationFrameType,
        ExceptionType,
        FrameType,
        RpcReturnType,
        TimeoutType,
    )
    from pamqp.base import Frame
    from pamqp.commands import Basic
    from pamqp.commands import Channel as ChannelCommands

__all__ = ["Channel", "Connection"]

FRAMES_BUFFERED: Final = 1000
"""Frames of one channel that wait for its reader. The library's ten stop the whole connection."""

R = TypeVar("R")


class _Consumers(dict[str, Any]):
    """The library's table of consumers: it says nothing else when the broker ends one."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def pop(self, *args: Any) -> Any:
        found = super().pop(*args)
        self._channel.on_consumer_gone(args[0])
        return found


CHANNEL_MAX: Final = 65_535


class Channel(aiormq.channel.Channel):
    """A channel. What is begun on it is carried through."""

    connection: Connection

    def __init__(self, connection: Connection, number: int, *, confirms: bool) -> None:
        self.exchanges: set[asyncio.Future[Any]] = set()
        """What the broker has to answer yet."""

        self.on_consumer_gone: Callable[[str], None] = _nothing
        """Called with the tag of a consumer that has ended, whoever has ended it."""

        self._is_over = False
        super().__init__(
            connection, number, publisher_confirms=confirms, frame_buffer=FRAMES_BUFFERED
        )
        self.consumers = _Consumers(self)
        self.closing.add_done_callback(self._reject)

    async def rpc(self, frame: Frame, timeout: TimeoutType = None) -> RpcReturnType:  # noqa: ASYNC109 - as the library has it
        self._check_open()
        exchange: Coroutine[Any, Any, RpcReturnType] = super().rpc(frame, timeout)
        return await self._carried(exchange)

    async def basic_get(
        self,
        queue: str = "",
        no_ack: bool = False,
        timeout: TimeoutType = None,  # noqa: ASYNC109 - as the library has it
        *,
        on_left: Callable[[DeliveredMessage], None] | None = None,
    ) -> DeliveredMessage:
        """Take a message; ``on_left`` gets it if nobody waits for it any more."""
        return await self._carried(self._got(queue, no_ack, timeout), on_left)

    async def _got(self, queue: str, no_ack: bool, time: TimeoutType) -> DeliveredMessage:
        try:
            return await super().basic_get(queue, no_ack, time)
        except BaseException:
            getter: asyncio.Future[object] | None = getattr(self, "getter", None)
            if getter is not None:
                # The library leaves this one with an error that nobody fetches.
                getter.add_done_callback(_heed)

            raise

    async def _carried(
        self, work: Coroutine[Any, Any, R], on_left: Callable[[R], None] | None = None
    ) -> R:
        exchange = asyncio.create_task(work)
        self.exchanges.add(exchange)
        exchange.add_done_callback(self.exchanges.discard)
        return await carried(exchange, on_left)

    async def close(
        self,
        exc: ExceptionType | None = asyncio.CancelledError,
        timeout: TimeoutType = None,  # noqa: ASYNC109 - as the library has it
    ) -> None:
        await carried(super().close(exc, timeout))

    def leave(self) -> None:
        """Have it closed when what was begun on it is answered; nobody waits for that.

        What is delivered until then goes back with it.
        """
        self.consumers = {}
        if not self.is_closed:
            leave_alone(super().close())

    def _check_open(self) -> None:
        # It is over before the library calls it closed: what is written then ends the connection.
        if self._is_over or self.is_closed:
            raise ChannelInvalidStateError(f"channel {self.number} is closed")

    async def _on_close_frame(self, frame: ChannelCommands.Close) -> None:
        self._is_over = True
        await super()._on_close_frame(frame)

    async def basic_ack(self, delivery_tag: int, multiple: bool = False, wait: bool = True) -> None:
        self._check_open()
        await super().basic_ack(delivery_tag, multiple, wait)

    async def basic_nack(
        self,
        delivery_tag: int,
        multiple: bool = False,
        requeue: bool = True,
        wait: bool = True,
    ) -> None:
        self._check_open()
        await super().basic_nack(delivery_tag, multiple, requeue, wait)

    # -- publishing: as the library does it, but the confirm of what nobody waits for is expected

    def is_under_way(self, message_id: str) -> bool:
        """Say whether a message with that id was published, and is not confirmed yet."""
        return message_id in self.message_id_delivery_tag

    async def publish(
        self, frame: Basic.Publish, properties: Basic.Properties, body: bytes
    ) -> None:
        """Publish, and return when the broker has confirmed it.

        Of two messages with the same id that are under way at once the library could not tell which
        one comes back: see :meth:`is_under_way`.

        Raises:
            PublishError: no queue has taken it.
            DeliveryError: a queue has refused it.

        """
        self._check_open()
        header = ContentHeader(properties=properties, body_size=len(body))
        frames: list[FrameType] = [frame, header, *self._split_body(body)]
        written = ChannelFrame.marshall(channel_number=self.number, frames=frames)
        message_id = properties.message_id or ""
        confirmation: asyncio.Future[ConfirmationFrameType] = self.loop.create_future()
        # From counting it to writing it nothing waits, so that the broker counts as we do.
        self.delivery_tag = tag = self.delivery_tag + 1
        self.confirmations[tag] = confirmation
        self.message_id_delivery_tag[message_id] = tag
        self.write_queue.put_nowait(written)
        try:
            await confirmation
        finally:
            if confirmation.cancelled() and tag in self.confirmations:
                left = self.confirmations[tag] = self.loop.create_future()
                left.add_done_callback(lambda done: self._forget(message_id, done))
            else:
                self._forget(message_id, confirmation)

    def _forget(self, message_id: str, confirmation: asyncio.Future[Any]) -> None:
        self.message_id_delivery_tag.pop(message_id, None)
        _heed(confirmation)

    async def _on_return_frame(self, frame: Basic.Return) -> None:
        header = await self._get_frame()
        if not isinstance(header, ContentHeader):
            raise TypeError(f"{header!r} where the header of a returned message should be")

        message = await self._read_content(frame, header)
        tag = self.message_id_delivery_tag.get(header.properties.message_id or "", 0)
        confirmation = self.confirmations.get(tag)
        if confirmation is None or isinstance(confirmation, Returning):
            return

        # The confirm that follows says nothing more.
        self.confirmations[tag] = Returning()
        if not confirmation.done():
            confirmation.set_exception(PublishError(message, frame))

    def _confirm_delivery(self, delivery_tag: int | None, frame: ConfirmationFrameType) -> None:
        confirmation = self.confirmations.get(delivery_tag or 0)
        if confirmation is not None and confirmation.done():
            del self.confirmations[delivery_tag or 0]
        else:
            super()._confirm_delivery(delivery_tag, frame)

    def _reject(self, closing: asyncio.Future[Any]) -> None:
        """Nothing that is not confirmed will be."""
        error = None if closing.cancelled() else closing.exception()
        if not isinstance(error, Exception):
            error = ChannelInvalidStateError(f"channel {self.number} was closed")

        for confirmation in self.confirmations.values():
            if not confirmation.done() and not isinstance(confirmation, Returning):
                confirmation.set_exception(error)


class Connection(aiormq.connection.Connection):
    """A connection, over a transport that mends what comes in."""

    FRAME_BUFFER_SIZE = 0
    """Of frames to be written: no limit. The library does not wait for the network with ten either,
    and who is cancelled while waiting for room has written half of something."""

    def __init__(self, url: URL) -> None:
        self._mending = MendingTransport()
        super().__init__(url, transport_factory=self._mending, **_line_options(url))

    @classmethod
    async def open(cls, url: str, name: str) -> Self:
        """Connect once; of what fails or is cancelled nothing is left open."""
        connection = cls(URL(url))
        connecting = connection.connect({"connection_name": name})
        try:
            await carried(connecting, lambda _: leave_alone(connection.hang_up()))
        except BaseException:
            # The library leaves it open where the first answer is not what it expects, or never
            # comes.
            connection.cut()
            raise

        return connection

    async def channel(
        self,
        channel_number: int | None = None,
        publisher_confirms: bool = False,
        frame_buffer_size: int | None = None,
        timeout: TimeoutType = None,  # noqa: ASYNC109 - as the library has it
        **kwargs: Any,
    ) -> Channel:
        """Open a channel. The library's own lets go of one that it has begun to open."""
        await self.connected.wait()
        if self.is_closed:
            raise ConnectionError("the connection is closed")

        limit = self.connection_tune.channel_max or CHANNEL_MAX
        number = next(number for number in count(1) if number not in self.channels)
        if number > limit:
            raise ToolkitError(f"the broker allows no more than {limit} channels at once")

        channel = Channel(self, number, confirms=publisher_confirms)
        self.channels[number] = channel
        await carried(channel.open(timeout), lambda _: channel.leave())
        return channel

    async def hang_up(self) -> None:
        """Close it, in time: the library would wait for as long as its heartbeats."""
        try:
            with contextlib.suppress(Exception):
                await at_most(CLOSE_S, self.close(ConnectionClosed(0, "closed")))
        finally:
            self.cut()

    def cut(self) -> None:
        """Cut it: what the library still waits for ends by that."""
        self._mending.abort()


def _line_options(url: URL) -> dict[str, Any]:
    """Return what a URL says of how to connect, besides what the library reads there itself."""
    kinds = {"interleave": int, "happy_eyeballs_delay": float}
    return {name: kind(url.query[name]) for name, kind in kinds.items() if name in url.query}


def _nothing(_consumer_tag: str) -> None:
    """Nobody wants to know."""


def _heed(future: asyncio.Future[Any]) -> None:
    """Fetch an error that nobody else does."""
    if future.done() and not future.cancelled():
        future.exception()
