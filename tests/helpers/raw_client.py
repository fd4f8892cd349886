"""A client that does exactly what a test says: it answers nothing and reads only when told to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.helpers.untyped import pamqp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["PROTOCOL_HEADER", "RawClient", "raw_client"]

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

commands: Any = pamqp.commands


class RawClient:
    """One socket and the frames on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, channel: int, *frames: Any) -> None:
        """Write frames of a channel without waiting for anything."""
        self.writer.write(b"".join(pamqp.frame.marshal(frame, channel) for frame in frames))

    def publish(self, channel: int, exchange: str, routing_key: str, body: bytes) -> None:
        self.send(
            channel,
            commands.Basic.Publish(exchange=exchange, routing_key=routing_key),
            pamqp.header.ContentHeader(body_size=len(body)),
            pamqp.body.ContentBody(body),
        )

    async def read(self) -> Any:
        """The next frame, of whatever channel."""
        async with asyncio.timeout(5):
            head = await self.reader.readexactly(7)
            rest = await self.reader.readexactly(int.from_bytes(head[3:], "big") + 1)

        return pamqp.frame.unmarshal(head + rest)[2]

    async def ask(self, channel: int, method: Any) -> Any:
        """Send a method and return the next frame."""
        self.send(channel, method)
        return await self.read()

    async def log_in(self, password: str = "guest", **properties: Any) -> Any:
        """Go as far as connection.tune, or whatever the broker answers instead."""
        self.writer.write(PROTOCOL_HEADER)
        await self.read()
        response = f"\0guest\0{password}"
        return await self.ask(
            0,
            commands.Connection.StartOk(
                client_properties=properties, mechanism="PLAIN", response=response
            ),
        )

    async def tune(self, **properties: Any) -> None:
        """Log in as guest and accept what the broker offers, without heartbeats."""
        tune = await self.log_in(**properties)
        self.send(0, commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))

    async def open(self, vhost: str = "/", **properties: Any) -> None:
        """Log in as guest, open the virtual host and channel 1."""
        await self.tune(**properties)
        await self.ask(0, commands.Connection.Open(virtual_host=vhost))
        await self.ask(1, commands.Channel.Open())

    async def read_to_end(self) -> bytes:
        """Everything up to the end of the stream."""
        async with asyncio.timeout(5):
            return await self.reader.read()


@asynccontextmanager
async def raw_client(host: str, port: int) -> AsyncIterator[RawClient]:
    """Connect, and let go of the socket at the end."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()
