"""A blocking AMQP client that does exactly what a scenario says and writes down what comes back.

Everything is awaited: an answer, a number of deliveries, or the round trip of a channel.flow that
says that all before it has been answered. Only that nothing comes has to be waited for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from interop.compare.fields import Reader, encode_properties
from interop.compare.methods import ANSWERS, Method, decode_method, encode_method
from interop.compare.transcript import show_content, show_method

if TYPE_CHECKING:
    from interop.compare.network import Wire
    from interop.compare.session import Session

__all__ = ["FRAME_MAX", "Channel", "Link"]

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END: Final = b"\xce"
CONTENT_METHODS: Final = {"basic.return", "basic.deliver", "basic.get-ok"}
CAPABILITIES: Final = {
    "authentication_failure_close": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
}
FRAME_MAX: Final = 131072


class Link:
    """One socket to the broker.

    Attributes:
        is_answering: whether closes of the broker are answered with close-ok.
        is_ending: whether one side has closed the connection.
        is_closed_by_broker: whether the broker has.
        heartbeats: how many have come.
        is_recording: whether what comes is written down.
        is_running: whether the broker has said open-ok.
        is_blocked: whether the broker does not read what is sent, so that nothing is awaited. A
            client that cannot be told sets it by itself.

    """

    def __init__(self, session: Session, name: str, wire: Wire) -> None:
        self.session = session
        self.name = name
        self.is_open = True
        self.is_ending = False
        self.is_closed_by_broker = False
        self.heartbeats = 0
        self.is_answering = True
        self.is_recording = True
        self.is_running = False
        self.is_blocked = False
        self.frame_max = FRAME_MAX
        self.channels: dict[int, Channel] = {}
        self.inbox: list[Method] = []
        self.wire = wire
        self._buffer = b""
        self._unsent = b""

    # -- bytes and frames out

    def send_bytes(self, data: bytes) -> None:
        """Write bytes, with the next wait at the latest."""
        self._unsent += data

    def flush(self) -> None:
        """Hand what is written to the socket; whether the broker listens is its own affair."""
        unsent, self._unsent = self._unsent, b""
        if unsent and self.is_open:
            self.wire.send(unsent)

    def send_frame(self, kind: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> None:
        """Write one frame."""
        self.send_bytes(struct.pack(">BHI", kind, channel, len(payload)) + payload + end)

    def send(self, name: str, channel: int = 0, /, **arguments: object) -> None:
        """Write a method and wait for nothing."""
        self.send_frame(METHOD, channel, encode_method(name, arguments))

    # -- the handshake

    def start(self) -> None:
        """Send the protocol header and wait for connection.start."""
        self.send_bytes(PROTOCOL_HEADER)
        self.await_method("connection.start")

    def log_in(
        self,
        user: str = "guest",
        password: str = "guest",  # noqa: S107 - everybody's
        *,
        capabilities: dict[str, object] | None = None,
    ) -> None:
        """Send connection.start-ok with PLAIN and wait for connection.tune or the end."""
        own = CAPABILITIES if capabilities is None else capabilities
        self.send(
            "connection.start-ok",
            client_properties={"product": "compare", "capabilities": dict(own)},
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )
        self.await_method("connection.tune")

    def tune_and_open(
        self,
        vhost: str = "/",
        *,
        frame_max: int = FRAME_MAX,
        channel_max: int = 2047,
        heartbeat: int = 0,
    ) -> None:
        """Send connection.tune-ok and connection.open and wait for what that gives."""
        self.frame_max = frame_max
        self.send(
            "connection.tune-ok",
            channel_max=channel_max,
            frame_max=frame_max,
            heartbeat=heartbeat,
        )
        self.send("connection.open", virtual_host=vhost)
        self.await_method("connection.open-ok")

    # -- waiting

    def await_method(self, *names: str) -> Method | None:
        """Wait for one of these methods on channel 0, or for a close."""
        wanted = {*names, "connection.close"}
        seen = len(self.inbox)

        def is_there() -> bool:
            return not self.is_open or any(method.name in wanted for method in self.inbox[seen:])

        # It may have come with what was awaited before.
        if self.inbox and self.inbox[-1].name in wanted:
            return self.inbox[-1]

        if not self.session.pump(is_there):
            self.record(0, f"(no {' or '.join(names)})")

        found = [method for method in self.inbox[seen:] if method.name in wanted]
        return found[0] if found else None

    def call(self, name: str, **arguments: object) -> Method | None:
        """Send a method on channel 0 and wait for its answer."""
        self.inbox.clear()
        self.is_ending = self.is_ending or name == "connection.close"
        self.send(name, **arguments)
        return self.await_method(*ANSWERS[name])

    def await_end(self, patience_s: float = 6.0) -> None:
        """Wait until the broker closes the socket, and write down how long that took."""
        started = self.session.target.network.now()
        if not self.session.pump(lambda: not self.is_open, patience_s):
            self.record(0, f"(socket still open after {patience_s:.0f} s)")
            return

        self.record(0, _about(self.session.target.network.now() - started))

    def await_socket_end(self) -> None:
        """Wait until the broker closes the socket; that it does is written down by itself."""
        self.session.pump(lambda: not self.is_open)

    def record(self, channel: int, line: str) -> None:
        """Write down a line, unless nothing is to be."""
        if self.is_recording:
            self.session.transcript.add(self.name, channel, line)

    # -- channels

    def channel(self, number: int | None = None, *, is_recorded: bool = False) -> Channel:
        """Open a channel; its open-ok is written down only when asked for."""
        if number is None:
            number = max(self.channels, default=0) + 1

        channel = self.channels[number] = Channel(self, number)
        was_recording, self.is_recording = self.is_recording, is_recorded
        channel.call("channel.open")
        self.is_recording = was_recording
        return channel

    # -- in

    def receive(self) -> None:
        """Read what there is."""
        data = self.wire.receive()
        if not data:
            self.end()
            if self._buffer:
                self.record(0, f"(bytes {self._buffer!r})")

            self.record(0, "(socket closed)")
            return

        self._buffer += data
        if self._buffer.startswith(b"AMQP"):
            return  # A header is an answer too: it is written down when the socket is closed.

        while len(self._buffer) >= 7:
            kind, channel, size = struct.unpack_from(">BHI", self._buffer)
            if len(self._buffer) < size + 8:
                break

            payload = self._buffer[7 : 7 + size]
            assert self._buffer[7 + size : 8 + size] == FRAME_END
            self._buffer = self._buffer[8 + size :]
            self._take_frame(kind, channel, payload)

    def end(self) -> None:
        """Close the socket from this side."""
        self.flush()
        self.is_open = False
        self.wire.close()

    def _take_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == HEARTBEAT:
            self.heartbeats += 1
            self.record(number, "heartbeat")
            return

        if number:
            channel = self.channels.get(number)
            if channel is None:
                channel = self.channels[number] = Channel(self, number)

            channel.take_frame(kind, payload)
            return

        method = decode_method(payload)
        self.inbox.append(method)
        self.record(0, show_method(method))
        self.is_running = self.is_running or method.name == "connection.open-ok"
        if method.name in {"connection.blocked", "connection.unblocked"}:
            self.is_blocked = method.name == "connection.blocked"

        if method.name == "connection.close":
            self.is_ending = self.is_closed_by_broker = True
            if self.is_answering:
                self.send("connection.close-ok")


class Channel:
    """One channel of a link, open or not.

    Attributes:
        is_open: whether the broker has said open-ok and not yet close.
        has_raw_confirms: whether acks and nacks are written down as they come, instead of as the
            set of numbers that `confirms` waits for.
        last_properties: those of the content that came last.

    """

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self.number = number
        self.is_open = False
        self.has_raw_confirms = False
        self.inbox: list[Method] = []
        self.last_properties: dict[str, object] = {}
        self._confirmed: dict[int, str] = {}
        self._confirms_wanted = 0
        self._confirms_shown = 0
        self._syncs = 0
        self._wanted: dict[str, int] = {}
        self._content: _Content | None = None

    @property
    def is_usable(self) -> bool:
        return self.is_open and self.link.is_open and not self.link.is_ending

    # -- out

    def send(self, name: str, **arguments: object) -> None:
        """Write a method and wait for nothing."""
        self.link.send(name, self.number, **arguments)

    def call(self, name: str, **arguments: object) -> Method | None:
        """Send a method and wait for its answer, for a close, or with nowait for a round trip.

        Nothing is sent on a channel that an error has closed: one close is what is to be seen.
        """
        if not self.is_usable and name != "channel.open":
            return None

        wanted = {*ANSWERS[name], "channel.close"}
        seen = len(self.inbox)
        self.send(name, **arguments)
        if arguments.get("nowait"):
            self.sync()
            return None

        def answers() -> list[Method]:
            return [method for method in self.inbox[seen:] if method.name in wanted]

        link = self.link
        if not link.session.pump(lambda: bool(answers()) or not link.is_open or link.is_ending):
            link.record(self.number, f"(no answer to {name})")

        found = answers()
        return found[0] if found else None

    def publish(
        self,
        exchange: str,
        routing_key: str | bytes,
        body: bytes = b"hello",
        *,
        mandatory: bool = False,
        immediate: bool = False,
        **properties: object,
    ) -> None:
        """Send a message and wait for nothing."""
        if not self.is_usable:
            return

        self.send(
            "basic.publish",
            exchange=exchange,
            routing_key=routing_key,
            mandatory=mandatory,
            immediate=immediate,
        )
        self.send_content(body, encode_properties(properties))

    def send_content(self, body: bytes, properties: bytes = b"\0\0") -> None:
        """Send header and body, split as the frame size asks."""
        link = self.link
        link.send_frame(HEADER, self.number, struct.pack(">HHQ", 60, 0, len(body)) + properties)
        size = link.frame_max - 8
        for start in range(0, len(body), size):
            link.send_frame(BODY, self.number, body[start : start + size])

    # -- waiting

    def sync(self) -> None:
        """Wait until the broker has taken all that was sent on this channel."""
        if not self.is_usable or self.link.is_blocked:
            return

        self._syncs += 1
        self.send("channel.flow", active=True)
        if not self.link.session.pump(lambda: not self._syncs or not self.is_usable):
            self.link.record(self.number, "(no round trip)")

    def expect(self, name: str, count: int = 1) -> list[Method]:
        """Wait until that many more of a method have come; returns them."""
        before = self._wanted.get(name, 0)
        self._wanted[name] = before + count

        def came() -> list[Method]:
            return [method for method in self.inbox if method.name == name]

        def is_there() -> bool:
            is_over = not (self.link.is_open if name.startswith("channel.") else self.is_usable)
            return len(came()) >= before + count or is_over

        if not self.link.session.pump(is_there):
            self.link.record(self.number, f"({len(came()) - before} of {count} {name})")

        return came()[before : before + count]

    def confirms(self, count: int) -> None:
        """Wait until that many more publishes are confirmed, and write down which way."""
        self._confirms_wanted += count
        wanted = self._confirms_wanted
        self.link.session.pump(lambda: len(self._confirmed) >= wanted or not self.is_usable)
        self.show_confirms()

    def show_confirms(self) -> None:
        """Write down what was confirmed and not shown yet."""
        if len(self._confirmed) > self._confirms_shown:
            shown = sorted(self._confirmed.items())
            self._confirms_shown = len(shown)
            words = ", ".join(f"{number} {kind}" for number, kind in shown)
            self.link.record(self.number, f"(confirmed {words})")

    # -- in

    def take_frame(self, kind: int, payload: bytes) -> None:
        """Take a frame of this channel."""
        content = self._content
        if kind == METHOD:
            method = decode_method(payload)
            if method.name in CONTENT_METHODS:
                self._content = _Content(method)
                return

            self._take(method, "")
            return

        assert content is not None, f"a frame of type {kind} without a method"
        if kind == HEADER:
            content.take_header(payload)
        else:
            content.take_body(payload)

        if content.is_complete:
            self._content = None
            self.last_properties = content.properties
            self._take(content.method, f" {content}")

    def _take(self, method: Method, content: str) -> None:
        if method.name == "channel.flow-ok" and self._syncs:
            self._syncs -= 1
            return

        if method.name in {"basic.ack", "basic.nack"} and not self.has_raw_confirms:
            self._confirm(method)
            return

        self.link.record(self.number, show_method(method) + content)
        if method.name in {"channel.open-ok", "channel.close", "channel.close-ok"}:
            self.is_open = method.name == "channel.open-ok"
            if method.name == "channel.close" and self.link.is_answering:
                self.send("channel.close-ok")

        self.inbox.append(method)

    def _confirm(self, method: Method) -> None:
        last = method.number("delivery_tag")
        first = 1 if method.arguments["multiple"] else last
        numbers = [number for number in range(first, last + 1) if number not in self._confirmed]
        if not numbers:
            self.link.record(self.number, f"(confirms nothing new: {show_method(method)})")

        self._confirmed.update(dict.fromkeys(numbers, method.name.removeprefix("basic.")))


class _Content:
    """A content that is arriving."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self._size = -1
        self.properties: dict[str, object] = {}
        self._body = b""
        self._frame_sizes: list[int] = []

    def take_header(self, payload: bytes) -> None:
        self._size = int.from_bytes(payload[4:12], "big")
        self.properties = Reader(payload[12:]).properties()

    def take_body(self, payload: bytes) -> None:
        self._body += payload
        self._frame_sizes.append(len(payload))

    @property
    def is_complete(self) -> bool:
        return len(self._body) == self._size

    def __str__(self) -> str:
        return show_content(self.properties, self._body, self._frame_sizes)


def _about(seconds: float) -> str:
    if seconds < 1.5:
        return "(at once)"

    return f"(after about {seconds:.0f} s)" if not 2.5 < seconds < 4.5 else "(after about 3 s)"
