"""A front that reads up to connection.open, and workers that go on from there.

The front runs the broker's own handshake against a node of its own. When the client names its
virtual host, the socket goes to that host's worker (SCM_RIGHTS), with every byte the client has
sent and the number of bytes it was answered. The worker feeds those bytes to a connection of its
own and swallows as many bytes of its answers: the handshake is deterministic, so both have said the
same. From then on the front knows nothing of the client, and no byte takes a detour.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import zlib
from typing import TYPE_CHECKING, Final

from broker.app import build_node
from broker.clock import SystemClock
from broker.config.loader import config_from_dict
from broker.net.addresses import plain_address
from broker.net.pump import Pump
from broker.net.reception import Reception
from broker.net.transport import AMQPTransport
from broker.protocol.connection import Connection
from broker.protocol.link import Link, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.node import Node

__all__ = ["Front", "Worker", "make_channels", "serve_alone"]

HANDSHAKE_BYTES_MAX: Final = 65_536
"""What a client may send before it names its virtual host; more is cut off."""
CONNECTIONS_MAX: Final = 20_000
_MUTED: Final = struct.Struct(">I")
_OPEN: Final = b"\x00\x0a\x00\x28"
_HEADER_BYTES: Final = 8
_READ_BYTES: Final = 65_536


def _make_node(vhosts: Sequence[str]) -> tuple[Node, Pump]:
    rights = {"guest": {"configure": ".*", "write": ".*", "read": ".*"}}
    config = config_from_dict(
        {"version": 1, "vhosts": {name: {"permissions": rights} for name in vhosts}}
    )
    clock = SystemClock()
    node = build_node(config, clock, _ignore)
    return node, Pump(node, clock, asyncio.get_running_loop())


def _ignore(level: str, event: str, fields: dict[str, object]) -> None:
    """A prototype keeps no log."""


def _reception_of(node: Node, pump: Pump) -> Reception:
    return Reception(
        pump,
        lambda link, peer: Connection(node, link, peer),
        _ignore,
        connections_max=CONNECTIONS_MAX,
    )


async def serve_alone(listener: socket.socket, vhosts: Sequence[str]) -> None:
    """One process that does everything: what the others are compared with."""
    node, pump = _make_node(vhosts)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_reception_of(node, pump).make_transport, sock=listener)
    await server.serve_forever()


def _vhost_named_in(data: bytes) -> tuple[int, str] | None:
    """Where connection.open begins in what a client sent, and what it names; None: not yet."""
    position = _HEADER_BYTES
    while position + 7 <= len(data):
        (size,) = struct.unpack_from(">I", data, position + 3)
        if position + 8 + size > len(data):
            return None

        if data[position + 7 : position + 11] == _OPEN:
            length = data[position + 11]
            name = data[position + 12 : position + 12 + length]
            return position, name.decode("utf-8", "surrogateescape")

        position += 8 + size

    return None


class _FrontLink(Link):
    """Carries the front's answers, and counts them."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.written_bytes = 0
        self.is_over = False

    def write(self, data: bytes) -> None:
        # A few hundred bytes into an empty buffer of the kernel's.
        with contextlib.suppress(OSError):
            self._sock.send(data)

        self.written_bytes += len(data)

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True

    def pause_reading(self) -> None:
        """A handshake is never too much."""

    def resume_reading(self) -> None:
        """Nothing was paused."""


class Front:
    """Accepts, greets, and hands over.

    Args:
        listener: the one port.
        channels: to each worker.
        vhosts: that there are.

    """

    def __init__(
        self, listener: socket.socket, channels: Sequence[socket.socket], vhosts: Sequence[str]
    ) -> None:
        self._listener = listener
        self._channels = channels
        self._vhosts = list(vhosts)

    async def serve(self) -> None:
        """Go on until cancelled."""
        self._node, self._pump = _make_node(self._vhosts)
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            sock, address = await self._loop.sock_accept(self._listener)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Greeting(self, sock, address[0], address[1])

    def channel_of(self, vhost: str) -> socket.socket:
        """The worker of a virtual host: any rule will do that all agree on."""
        place = zlib.crc32(vhost.encode("utf-8", "surrogateescape")) % len(self._channels)
        if vhost in self._vhosts:
            place = self._vhosts.index(vhost) % len(self._channels)

        return self._channels[place]

    def connect(self, link: Link, peer: Peer) -> Connection:
        """A connection of the front's own node."""
        self._pump.advance()
        return Connection(self._node, link, peer)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def pump(self) -> Pump:
        return self._pump


class _Greeting:
    """One client, until it has named its virtual host."""

    def __init__(self, front: Front, sock: socket.socket, host: str, port: int) -> None:
        self._front = front
        self._sock = sock
        self._link = _FrontLink(sock)
        local = sock.getsockname()
        peer = Peer(plain_address(host), port, local[0], local[1], is_loopback=True, is_tls=False)
        self._connection = front.connect(self._link, peer)
        self._received = b""
        self._fed_bytes = 0
        front.loop.add_reader(sock, self._on_readable)

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""

        self._received += data
        found = _vhost_named_in(self._received)
        stop = len(self._received) if found is None else found[0]
        pump = self._front.pump
        pump.advance()
        self._connection.receive_data(self._received[self._fed_bytes : stop])
        pump.settle()
        self._fed_bytes = stop
        if not data or self._link.is_over or len(self._received) > HANDSHAKE_BYTES_MAX:
            self._forget()
        elif found is not None:
            self._hand_over(found[1])

    def _hand_over(self, vhost: str) -> None:
        channel = self._front.channel_of(vhost)
        message = _MUTED.pack(self._link.written_bytes) + self._received
        socket.send_fds(channel, [message], [self._sock.fileno()])
        self._forget()

    def _forget(self) -> None:
        self._front.loop.remove_reader(self._sock)
        self._sock.close()
        self._connection.connection_lost()
        self._front.pump.settle()


class _TakenOver(AMQPTransport):
    """A transport of a client that somebody else has greeted."""

    def __init__(self, reception: Reception, muted_bytes: int, received: bytes) -> None:
        super().__init__(reception)
        self._muted_bytes = muted_bytes
        self._received = received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        received, self._received = self._received, b""
        self.data_received(received)

    def write(self, data: bytes) -> None:
        if self._muted_bytes:
            muted = min(self._muted_bytes, len(data))
            self._muted_bytes -= muted
            data = data[muted:]
            if not data:
                return

        super().write(data)


class Worker:
    """Serves some of the virtual hosts.

    Args:
        channel: where sockets come from.
        vhosts: that there are; those that others serve stay empty here.

    """

    def __init__(self, channel: socket.socket, vhosts: Sequence[str]) -> None:
        self._channel = channel
        self._vhosts = vhosts
        self._tasks: set[asyncio.Task[object]] = set()

    async def serve(self) -> None:
        """Go on until the front is gone."""
        node, pump = _make_node(self._vhosts)
        self._reception = _reception_of(node, pump)
        self._ended = asyncio.Event()
        self._channel.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel, self._on_readable)
        await self._ended.wait()
        loop.remove_reader(self._channel)

    def _on_readable(self) -> None:
        try:
            message, files, _, _ = socket.recv_fds(
                self._channel, HANDSHAKE_BYTES_MAX + _READ_BYTES + _MUTED.size, 1
            )
        except BlockingIOError:
            return

        if not files:
            self._ended.set()
            return

        (muted_bytes,) = _MUTED.unpack_from(message)
        received = message[_MUTED.size :]
        make: Callable[[], _TakenOver] = lambda: _TakenOver(  # noqa: E731
            self._reception, muted_bytes, received
        )
        sock = socket.socket(fileno=files[0])
        loop = asyncio.get_running_loop()
        task: asyncio.Task[object] = loop.create_task(loop.connect_accepted_socket(make, sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def make_channels(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Pairs of sockets, the front's end first; what is sent arrives as one piece."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
    for ours, theirs in pairs:
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * HANDSHAKE_BYTES_MAX)
            os.set_inheritable(end.fileno(), False)

    return pairs
