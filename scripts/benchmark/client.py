"""A blocking AMQP connection with one channel: enough to set a scenario up and take it down.

Every wait ends: the kernel's own send and receive timeouts bound each call, so that the hot loops
need no poll before each send.
"""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from scripts.benchmark.frames import (
    CHANNEL,
    FRAME_METHOD,
    Frame,
    long_string,
    method,
    short_string,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

__all__ = [
    "BrokerError",
    "Client",
    "Target",
    "blunt_client",
    "parse_target",
    "raise_file_limit",
    "set_wait_limit",
]

FRAME_BYTES_MAX: Final = 131_072
WAIT_LIMIT_S: Final = 30.0
_PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_READ_BYTES: Final = 65_536
_PIPELINED: Final = 500


class BrokerError(Exception):
    """The broker refused something, went away, or lost a message."""


class Target(NamedTuple):
    """Where a broker listens and who we are there."""

    host: str
    port: int
    user: str
    password: str
    vhost: str


def parse_target(url: str) -> Target:
    """Take an AMQP URL apart; a missing path means the vhost ``/``."""
    parts = urlsplit(url)
    if parts.scheme != "amqp" or parts.hostname is None:
        raise ValueError(f"not an amqp:// URL: {url}")

    return Target(
        parts.hostname,
        parts.port or 5672,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        unquote(parts.path[1:]) or "/",
    )


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def set_wait_limit(sock: socket.socket, limit_s: float) -> None:
    """Bound every blocking send and receive in the kernel."""
    value = struct.pack("ll", int(limit_s), int(limit_s % 1 * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)


class Client:
    """One connection, opened by the constructor; a context manager that closes it politely."""

    def __init__(self, target: Target) -> None:
        self._buffer = bytearray()
        self.skipped_frames = 0
        self.product = "?"
        self.version = "?"
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.sock = socket.create_connection((target.host, target.port), WAIT_LIMIT_S)
        try:
            self.sock.settimeout(None)
            set_wait_limit(self.sock, WAIT_LIMIT_S)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open(target)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.close()
        finally:
            self.sock.close()

    def _open(self, target: Target) -> None:
        self.sock.sendall(_PROTOCOL_HEADER)
        start = self._expect(0, 10, 10)
        self.product = _server_property(start, b"product")
        self.version = _server_property(start, b"version")
        login = f"\0{target.user}\0{target.password}".encode()
        response = short_string("PLAIN") + long_string(login) + short_string("en_US")
        self.sock.sendall(method(0, 10, 11, long_string(b"") + response))
        channel_max, frame_bytes_max, _ = struct.unpack(">HIH", self._expect(0, 10, 30)[:8])
        self.frame_bytes_max = min(frame_bytes_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
        tune = struct.pack(">HIH", channel_max, self.frame_bytes_max, 0)
        self.sock.sendall(
            method(0, 10, 31, tune) + method(0, 10, 40, short_string(target.vhost) + b"\0\0")
        )
        self._expect(0, 10, 41)
        self.call(20, 10, b"\0")

    def close(self) -> None:
        """Close the channel and the connection; raises what the broker held against us."""
        self.call(20, 40, struct.pack(">H", 200) + short_string("") + b"\0\0\0\0")
        self.sock.sendall(
            method(0, 10, 50, struct.pack(">H", 200) + short_string("") + b"\0\0\0\0")
        )
        self._expect(0, 10, 51)

    def call(self, class_id: int, method_id: int, arguments: bytes) -> bytes:
        """Send a method on the channel and return the arguments of its -ok."""
        self.sock.sendall(method(CHANNEL, class_id, method_id, arguments))
        return self._expect(CHANNEL, class_id, method_id + 1)

    def call_many(self, class_id: int, method_id: int, arguments: Sequence[bytes]) -> None:
        """Send many equal methods without waiting in between, then take all of their replies."""
        for start in range(0, len(arguments), _PIPELINED):
            part = arguments[start : start + _PIPELINED]
            self.sock.sendall(b"".join(method(CHANNEL, class_id, method_id, one) for one in part))
            for _ in part:
                self._expect(CHANNEL, class_id, method_id + 1)

    def reopen_channel(self) -> None:
        """Close the channel, which gives back what is unacked on it, and open it again."""
        self.call(20, 40, struct.pack(">H", 200) + short_string("") + b"\0\0\0\0")
        self.call(20, 10, b"\0")

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        passive: bool = False,
        arguments: Mapping[str, str | int] | None = None,
    ) -> tuple[int, int]:
        """Declare a queue and return its counts of messages and consumers."""
        flags = passive * 1 | durable * 2
        reply = self.call(
            50, 10, b"\0\0" + short_string(name) + bytes([flags]) + table(arguments or {})
        )
        messages, consumers = struct.unpack(">II", reply[-8:])
        return messages, consumers

    def delete_queue(self, name: str) -> int:
        """Delete a queue, present or not, and return how many messages it still held."""
        reply = self.call(50, 40, b"\0\0" + short_string(name) + b"\0")
        (messages,) = struct.unpack(">I", reply)
        return int(messages)

    def purge_queue(self, name: str) -> int:
        """Empty a queue and return how many messages it held."""
        (messages,) = struct.unpack(">I", self.call(50, 30, b"\0\0" + short_string(name) + b"\0"))
        return int(messages)

    def declare_exchange(self, name: str, kind: str) -> None:
        """Declare a transient exchange."""
        names = short_string(name) + short_string(kind)
        self.call(40, 10, b"\0\0" + names + b"\0" + long_string(b""))

    def delete_exchange(self, name: str) -> None:
        """Delete an exchange, present or not."""
        self.call(40, 20, b"\0\0" + short_string(name) + b"\0")

    def bind_queue(self, queue: str, exchange: str, routing_key: str) -> None:
        """Bind a queue to an exchange."""
        names = short_string(queue) + short_string(exchange) + short_string(routing_key)
        self.call(50, 20, b"\0\0" + names + b"\0" + long_string(b""))

    def set_prefetch(self, count: int) -> None:
        """Limit the unacknowledged messages of consumers to come."""
        self.call(60, 10, struct.pack(">IHB", 0, count, 0))

    def consume(self, queue: str, consumer_tag: str, *, auto_ack: bool) -> None:
        """Start a consumer; deliveries that came with the reply stay for ``take_buffered``."""
        names = short_string(queue) + short_string(consumer_tag)
        self.call(60, 20, b"\0\0" + names + bytes([auto_ack * 2]) + long_string(b""))

    def cancel(self, consumer_tag: str) -> None:
        """Stop a consumer."""
        self.call(60, 30, short_string(consumer_tag) + b"\0")

    def select_confirms(self) -> None:
        """Put the channel into confirm mode."""
        self.call(85, 10, b"\0")

    def consume_all(self, queues: Sequence[str], consumer_tags: Sequence[str], flags: int) -> None:
        """Start many consumers at once; bit 1 of ``flags`` is auto-ack."""
        self.call_many(
            60,
            20,
            [
                b"\0\0" + short_string(queue) + short_string(tag) + bytes([flags]) + table({})
                for queue, tag in zip(queues, consumer_tags, strict=True)
            ],
        )

    def take_buffered(self) -> bytes:
        """Hand over the bytes that were read beyond the last reply."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def _expect(self, channel: int, class_id: int, method_id: int) -> bytes:
        wanted = struct.pack(">HH", class_id, method_id)
        while True:
            read = self._read_frame()
            if read.kind != FRAME_METHOD:
                self.skipped_frames += 1
                continue

            ids = struct.unpack(">HH", read.payload[:4])
            if ids in {(10, 50), (20, 40)}:
                raise BrokerError(self._close_reason(read))

            if read.channel == channel and read.payload[:4] == wanted:
                return read.payload[4:]

            self.skipped_frames += 1

    def _close_reason(self, read: Frame) -> str:
        (code,) = struct.unpack_from(">H", read.payload, 4)
        text = read.payload[7 : 7 + read.payload[6]].decode(errors="replace")
        return f"{self.product} closed: {code} {text}"

    def _read_frame(self) -> Frame:
        while True:
            if len(self._buffer) >= 7:
                kind, channel, size = struct.unpack_from(">BHI", self._buffer)
                if len(self._buffer) >= size + 8:
                    payload = bytes(self._buffer[7 : 7 + size])
                    del self._buffer[: size + 8]
                    return Frame(kind, channel, payload)

            try:
                data = self.sock.recv(_READ_BYTES)
            except BlockingIOError:
                raise BrokerError(f"{self.product}: no reply in time") from None

            if not data:
                raise BrokerError(f"{self.product} hung up")

            self._buffer += data


@contextlib.contextmanager
def blunt_client(target: Target) -> Iterator[Client]:
    """Have a connection that hangs up at the end, whatever is on its way then."""
    client = Client(target)
    try:
        yield client
    finally:
        client.sock.close()


def _server_property(start: bytes, key: bytes) -> str:
    """Find a string among the server properties; good enough for a name in a report."""
    found = re.search(bytes([len(key)]) + key + rb"S\0\0\0(.)", start, re.DOTALL)
    if found is None:
        return "?"

    return start[found.end() : found.end() + found.group(1)[0]].decode(errors="replace")
