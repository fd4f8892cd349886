"""Scripted clients of a node without sockets: bytes in, readable tuples out, time by hand.

``World`` is a node with a virtual clock, ``Session`` one connection of it. What a test sends is
built by ``frame``, ``method``, ``header``, ``body`` and ``publish``; what the broker wrote comes
back as ``Heard``.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from broker.auth.mechanisms import Credentials, build_mechanisms
from broker.auth.passwords import make_password_hash
from broker.auth.users import UserStore
from broker.core.node import Node
from broker.core.settings import NodeSettings
from broker.protocol.connection import Connection
from broker.protocol.link import Peer
from broker.protocol.states import CLOSING, DROPPING
from tests.helpers.clock import VirtualClock
from tests.helpers.link import RecordingLink
from tests.helpers.methods import BY_INDEX, CONTENT_METHODS, decode_arguments, encode_method

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "HEARTBEAT",
    "PROTOCOL_HEADER",
    "Heard",
    "Session",
    "World",
    "assert_channel_closed",
    "assert_connection_closing",
    "assert_dropped",
    "assert_sent",
    "body",
    "decode_stream",
    "frame",
    "handshake",
    "header",
    "method",
    "publish",
    "text_property",
]

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = b"\xce"
NO_PROPERTIES = b"\x00\x00"


# -- what a client sends


def frame(frame_type: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> bytes:
    head = bytes((frame_type,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + end


def method(channel: int, name: str, /, **arguments: object) -> bytes:
    """A method frame; what is not given is empty, zero or false."""
    return frame(1, channel, encode_method(name, arguments))


def header(channel: int, size: int, properties: bytes = NO_PROPERTIES) -> bytes:
    """A content header frame for a body of that size."""
    return frame(2, channel, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties)


def body(channel: int, data: bytes, frame_payload_max: int = 131_064) -> bytes:
    """As many body frames as that takes; none for an empty body."""
    starts = range(0, len(data), frame_payload_max)
    return b"".join(frame(3, channel, data[at : at + frame_payload_max]) for at in starts)


def publish(
    channel: int,
    routing_key: str = "",
    data: bytes = b"hare",
    properties: bytes = NO_PROPERTIES,
    /,
    **arguments: object,
) -> bytes:
    """basic.publish with its content, to the default exchange unless told otherwise."""
    start = method(channel, "basic.publish", routing_key=routing_key, **arguments)
    return start + header(channel, len(data), properties) + body(channel, data)


def text_property(flag_bit: int, text: str) -> bytes:
    """A property list of one short string (rule X-02 numbers the bits)."""
    raw = text.encode()
    return (1 << flag_bit).to_bytes(2, "big") + bytes((len(raw),)) + raw


HEARTBEAT = frame(8, 0, b"")


def handshake(
    *,
    vhost: str = "/",
    user: str = "guest",
    password: str = "guest",
    capabilities: Iterable[str] = ("authentication_failure_close", "consumer_cancel_notify"),
    channel_max: int = 2047,
    frame_max: int = 131_072,
    heartbeat: int = 0,
) -> bytes:
    """Everything from the protocol header to connection.open, written without waiting."""
    properties = {"capabilities": dict.fromkeys(capabilities, True)}
    start_ok = method(
        0,
        "connection.start-ok",
        client_properties=properties,
        mechanism="PLAIN",
        response=f"\0{user}\0{password}",
        locale="en_US",
    )
    tune_ok = method(
        0,
        "connection.tune-ok",
        channel_max=channel_max,
        frame_max=frame_max,
        heartbeat=heartbeat,
    )
    return PROTOCOL_HEADER + start_ok + tune_ok + method(0, "connection.open", virtual_host=vhost)


# -- what the broker writes


class Heard(NamedTuple):
    """A method from the broker, with its content if it has one; or a heartbeat."""

    channel: int
    name: str
    arguments: dict[str, object]
    properties: bytes = b""
    body: bytes = b""


def _frames(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while position < len(data):
        assert len(data) - position >= 8, f"the broker wrote half a frame: {data[position:]!r}"
        size = int.from_bytes(data[position + 3 : position + 7], "big")
        payload = data[position + 7 : position + 7 + size]
        assert data[position + 7 + size : position + 8 + size] == FRAME_END, "no end octet"
        yield data[position], int.from_bytes(data[position + 1 : position + 3], "big"), payload
        position += 8 + size


def decode_stream(data: bytes) -> list[Heard]:
    """Decode what the broker wrote; nothing may be left over, contents must be whole."""
    if data == PROTOCOL_HEADER:
        return [Heard(0, "protocol header", {})]

    heard: list[Heard] = []
    frames = _frames(data)
    for frame_type, channel, payload in frames:
        if frame_type == 8:
            assert (channel, payload) == (0, b""), "a heartbeat is empty and on channel 0"
            heard.append(Heard(0, "heartbeat", {}))
            continue

        assert frame_type == 1, f"a frame of type {frame_type} where a method had to come"
        name = BY_INDEX[int.from_bytes(payload[:4], "big")]
        arguments = decode_arguments(name, payload)
        if name not in CONTENT_METHODS:
            heard.append(Heard(channel, name, arguments))
            continue

        properties, data = _content(frames, channel)
        heard.append(Heard(channel, name, arguments, properties, data))

    return heard


def _content(frames: Iterator[tuple[int, int, bytes]], channel: int) -> tuple[bytes, bytes]:
    """Header and body frames of one channel, which the broker never interleaves with others."""
    frame_type, header_channel, head = next(frames)
    assert (frame_type, header_channel) == (2, channel)
    assert head[:4] == b"\x00\x3c\x00\x00"
    size = int.from_bytes(head[4:12], "big")
    data = b""
    while len(data) < size:
        frame_type, body_channel, part = next(frames)
        assert (frame_type, body_channel) == (3, channel)
        assert part, "an empty body frame"
        data += part

    assert len(data) == size
    return head[12:], data


# -- the broker


class World:
    """A node, its clock and its log; the users are guest and, without any rights, nobody.

    Args:
        settings: of the node.
        clock: one that has not been moved, unless it is given.

    Attributes:
        logged: events by name, in order, with their fields.

    """

    def __init__(
        self, settings: NodeSettings | None = None, clock: VirtualClock | None = None
    ) -> None:
        self.clock = clock or VirtualClock()
        self.logged: list[tuple[str, dict[str, object]]] = []
        self._drawn = 0
        users = UserStore(loopback_only_users=["guest"])
        for name in ("guest", "nobody"):
            users.add_user(name, make_password_hash(name, b"salt"), tags=["administrator"])

        users.set_permissions("guest", vhost="/", configure=".*", write=".*", read=".*")
        anonymous = Credentials("guest", "guest")
        self.users = users
        self.node = Node(
            settings or NodeSettings(),
            self.clock,
            users=users,
            mechanisms=build_mechanisms(["PLAIN", "AMQPLAIN", "ANONYMOUS"], anonymous=anonymous),
            random_bytes=self._random_bytes,
            log=self._log,
        )
        self.vhost = self.node.add_vhost("/")

    def _random_bytes(self, count: int) -> bytes:
        """The same in every world, so that transcripts can be compared."""
        self._drawn += 1
        return hashlib.sha256(str(self._drawn).encode()).digest()[:count]

    def _log(self, level: str, event: str, fields: dict[str, object]) -> None:
        self.logged.append((event, fields))

    @property
    def bugs(self) -> list[object]:
        """Tracebacks of what the broker answered with 541 since it was not meant to happen."""
        return [fields["traceback"] for event, fields in self.logged if event == "connection.bug"]

    def settle(self) -> None:
        """What the rim does after each feed and deadline."""
        self.node.flush()
        for _ in range(1_000):
            if not self.node.wants_turn():
                return

            self.node.resume()
            self.node.flush()

        raise AssertionError("the node wants turns without end")

    def wait(self, seconds: float) -> None:
        """Let time pass, deadline by deadline."""
        # Whole milliseconds, as the node counts: sums of floats are a little less or more.
        end_s = round(self.clock.monotonic() + seconds, 3)
        while True:
            due_s = self.node.next_deadline()
            if due_s is None or due_s > end_s:
                break

            self.clock.move(max(0.0, due_s - self.clock.monotonic()))
            self.node.advance(self.clock.monotonic())
            self.node.run_deadlines()
            self.settle()

        self.clock.move(max(0.0, end_s - self.clock.monotonic()))
        self.node.advance(self.clock.monotonic())

    def connect(self, *, is_loopback: bool = True) -> Session:
        """A connection that has not said anything yet."""
        return Session(self, is_loopback=is_loopback)

    def open(self, *channels: int, greeting: bytes | None = None) -> Session:
        """A running connection with these channels open; nothing of that is left to be heard."""
        session = self.connect()
        session.feed(handshake() if greeting is None else greeting)
        assert session.names()[-1:] == ["connection.open-ok"]
        for channel in channels:
            assert session.ask(channel, "channel.open").name == "channel.open-ok"

        return session


class Session:
    """One client: feeds bytes to its connection, and hears what comes back."""

    def __init__(self, world: World, *, is_loopback: bool = True) -> None:
        self.world = world
        self.link = RecordingLink()
        host = "127.0.0.1" if is_loopback else "192.0.2.7"
        peer = Peer(host, 40_000, "127.0.0.1", 5672, is_loopback, is_tls=False)
        self.connection = Connection(world.node, self.link, peer)
        self._heard_bytes = 0

    def feed(self, data: bytes, cuts: Iterable[int] = ()) -> None:
        """Feed bytes as the rim would; ``cuts`` are the places where one read ends."""
        start = 0
        for cut in [*cuts, len(data)]:
            self.connection.receive_data(data[start:cut])
            self.world.settle()
            start = cut

    def send(self, channel: int, name: str, /, **arguments: object) -> None:
        self.feed(method(channel, name, **arguments))

    def take_bytes(self) -> bytes:
        """What was written since the last time somebody looked."""
        data = self.link.written[self._heard_bytes :]
        self._heard_bytes += len(data)
        return data

    def heard(self) -> list[Heard]:
        """The same, decoded."""
        return decode_stream(self.take_bytes())

    def names(self) -> list[str]:
        """The names alone."""
        return [one.name for one in self.heard()]

    def ask(self, channel: int, name: str, /, **arguments: object) -> Heard:
        """Send a method and return the one thing that comes back."""
        self.send(channel, name, **arguments)
        [answer] = self.heard()
        return answer

    def lose(self) -> None:
        """The socket breaks."""
        self.connection.connection_lost()
        self.world.settle()

    @property
    def is_running(self) -> bool:
        """Whether it still works: the broker answers on a fresh channel."""
        self.heard()
        answers = [self.ask(65_000, "channel.open").name, self.ask(65_000, "channel.close").name]
        return answers == ["channel.open-ok", "channel.close-ok"]


# -- assertions


def assert_sent(session: Session, *expected: str) -> None:
    """Exactly these methods came since the last look, as ``channel name`` (``1 queue.bind-ok``)."""
    assert [f"{one.channel} {one.name}" for one in session.heard()] == list(expected)


def _assert_close(heard: Heard, code: int, text: str, index: tuple[int, int]) -> None:
    class_id, method_id = index
    assert heard.arguments == {
        "reply_code": code,
        "reply_text": text,
        "class_id": class_id,
        "method_id": method_id,
    }


def assert_channel_closed(
    session: Session, channel: int, code: int, text: str, index: tuple[int, int]
) -> None:
    """The last word is channel.close; text is the whole reply text, index class and method id."""
    last = session.heard()[-1]
    assert last.name == "channel.close", last
    assert last.channel == channel
    _assert_close(last, code, text, index)
    assert not session.link.is_closed


def assert_connection_closing(
    session: Session, code: int, text: str, index: tuple[int, int] = (0, 0)
) -> None:
    """The last word is connection.close, and the socket waits for close-ok."""
    last = session.heard()[-1]
    assert last.name == "connection.close", last
    assert last.channel == 0
    _assert_close(last, code, text, index)
    assert not session.link.is_closed
    assert session.connection.state in (CLOSING, DROPPING)
    assert session.connection not in session.world.node.connections


def assert_dropped(session: Session, after_s: float = 0.0) -> None:
    """Nothing is said, and the socket closes, after that time and not before."""
    if after_s:
        session.world.wait(after_s - 0.001)
        assert not session.link.is_closed
        session.world.wait(0.001)

    assert session.link.is_closed
    assert session.take_bytes() == b""
