"""A client of one channel that can be cut off at any moment, and then knows what it knows."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.helpers.raw_client import PROTOCOL_HEADER
from tests.helpers.untyped import pamqp

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CutOffError", "Delivery", "Session"]

commands: Any = pamqp.commands

FRAME_BYTES = 100_000
"""Of a body, in one frame."""


class CutOffError(Exception):
    """The broker has gone."""


class Delivery(NamedTuple):
    """A message as it came."""

    tag: int
    redelivered: bool
    body: bytes
    headers: dict[str, Any]


class Session(asyncio.Protocol):
    """One connection with channel 1 open.

    Attributes:
        on_confirm: takes tag, multiple and whether it is an ack.
        on_delivery: takes each delivery, as soon as it is read.
        end: done when the connection is lost; with what the broker said, if anything.
        is_free: set unless the broker has said connection.blocked.
        block_reasons: what it said then.

    """

    def __init__(self) -> None:
        self.on_confirm: Callable[[int, bool, bool], None] | None = None
        self.on_delivery: Callable[[Delivery], None] | None = None
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_free = asyncio.Event()
        self.is_free.set()
        self.block_reasons: list[str] = []
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._replies: deque[asyncio.Future[Any]] = deque()
        self._deliver: Any = None
        self._header: Any = None
        self._body = b""
        self._farewell = ""
        self._has_room = asyncio.Event()
        self._has_room.set()

    @classmethod
    async def open(cls, port: int) -> Session:
        """Log in as guest and open channel 1.

        Raises:
            CutOffError: the broker has gone meanwhile.

        """
        loop = asyncio.get_running_loop()
        try:
            _, session = await loop.create_connection(cls, "127.0.0.1", port)
        except OSError as error:
            raise CutOffError from error

        start = session._expect()
        session.write(PROTOCOL_HEADER)
        await start
        capabilities = {"connection.blocked": True, "consumer_cancel_notify": True}
        tune = await session.ask(
            commands.Connection.StartOk(
                client_properties={"capabilities": capabilities},
                mechanism="PLAIN",
                response="\0guest\0guest",
            ),
            channel=0,
        )
        session.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), channel=0)
        await session.ask(commands.Connection.Open(virtual_host="/"), channel=0)
        await session.ask(commands.Channel.Open())
        return session

    # -- to the broker

    def send(self, *frames: Any, channel: int = 1) -> None:
        """Write frames; into the void when the broker has gone."""
        self.write(b"".join([pamqp.frame.marshal(frame, channel) for frame in frames]))

    def write(self, data: bytes) -> None:
        """Write octets; into the void when the broker has gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _expect(self) -> asyncio.Future[Any]:
        if self.end.done():
            raise CutOffError(self.end.result())

        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies.append(reply)
        return reply

    async def ask(self, method: Any, channel: int = 1) -> Any:
        """Send a method and wait for its answer.

        Raises:
            CutOffError: it does not come any more.

        """
        reply = self._expect()
        self.send(method, channel=channel)
        return await reply

    def publish(self, exchange: str, key: str, body: bytes, **properties: Any) -> None:
        """Publish a persistent message."""
        frames = [
            pamqp.body.ContentBody(body[at : at + FRAME_BYTES])
            for at in range(0, len(body), FRAME_BYTES)
        ]
        self.send(
            commands.Basic.Publish(exchange=exchange, routing_key=key),
            pamqp.header.ContentHeader(
                body_size=len(body),
                properties=commands.Basic.Properties(delivery_mode=2, **properties),
            ),
            *frames,
        )

    async def drain(self) -> None:
        """Wait until what was written has mostly left.

        Raises:
            CutOffError: the broker has gone.

        """
        await self._has_room.wait()
        if self.end.done():
            raise CutOffError(self.end.result())

    def close(self) -> None:
        """Cut the broker off."""
        if self._transport is not None:
            self._transport.abort()

    # -- from the broker

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.end.done():
            self.end.set_result(self._farewell)

        self._has_room.set()
        self.is_free.set()
        for reply in self._replies:
            if not reply.done():
                reply.set_exception(CutOffError(self._farewell))

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        place = 0
        while len(self._buffer) - place >= 8:
            size = int.from_bytes(self._buffer[place + 3 : place + 7], "big") + 8
            if len(self._buffer) - place < size:
                break

            frame = pamqp.frame.unmarshal(bytes(self._buffer[place : place + size]))[2]
            place += size
            self._take(frame)

        del self._buffer[:place]

    def _take(self, frame: Any) -> None:
        name = frame.name
        if name == "Basic.Deliver":
            self._deliver = frame
        elif name == "ContentHeader":
            self._header = frame
            self._body = b""
            self._deliver_if_whole()
        elif name == "ContentBody":
            self._body += frame.value
            self._deliver_if_whole()
        elif name in ("Basic.Ack", "Basic.Nack"):
            if self.on_confirm is not None:
                self.on_confirm(frame.delivery_tag, frame.multiple, name == "Basic.Ack")
        else:
            self._take_method(name, frame)

    def _take_method(self, name: str, frame: Any) -> None:
        if name == "Connection.Blocked":
            self.block_reasons.append(frame.reason)
            self.is_free.clear()
        elif name == "Connection.Unblocked":
            self.is_free.set()
        elif name in ("Connection.Close", "Channel.Close"):
            self._farewell = f"{frame.reply_code} {frame.reply_text}"
            self.close()
        else:
            reply = self._replies.popleft()
            if not reply.done():
                reply.set_result(frame)

    def _deliver_if_whole(self) -> None:
        if len(self._body) < self._header.body_size:
            return

        deliver = self._deliver
        if self.on_delivery is not None:
            headers = self._header.properties.headers or {}
            self.on_delivery(
                Delivery(deliver.delivery_tag, deliver.redelivered, self._body, headers)
            )
