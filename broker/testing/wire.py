"""What stands between a socket and its connection, and does to both what faults do. Layer: testing.

A :class:`Tap` reads along in both directions. While nothing is armed it changes nothing: what
comes in goes to the connection, and what the connection says goes out, at once and as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from broker.protocol.connection import Connection
from broker.protocol.link import Link, Peer
from broker.protocol.states import RUNNING
from broker.testing.frames import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Frame, FrameReader, frame
from broker.wire.constants import (
    BASIC_ACK,
    BASIC_NACK,
    BASIC_PUBLISH,
    CHANNEL_OPEN,
    CONFIRM_SELECT,
    HEARTBEAT_FRAME,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.core.node import Node
    from broker.testing.history import Ledger

__all__ = ["Confirm", "Faultline", "Tap"]

SLICE_S: Final = 0.02
"""How long a slow socket rests after each piece."""

PROTOCOL_NAME: Final = b"AMQP"


class Confirm:
    """One answer to one publish, on its way to the publisher.

    Attributes:
        number: the publish number on its channel.
        is_acked: whether it says that the broker has the message.

    """

    __slots__ = ("channel", "is_acked", "number", "tap")

    def __init__(self, tap: Tap, channel: int, number: int, is_acked: bool) -> None:
        self.tap = tap
        self.channel = channel
        self.number = number
        self.is_acked = is_acked


class Faultline(Protocol):
    """What is armed against the connections of a broker."""

    def takes_confirms(self, tap: Tap) -> bool:
        """Whether the answers to publishes go to :meth:`take_confirms`."""

    def take_confirms(self, confirms: list[Confirm]) -> None:
        """Do with them as was wished; :meth:`Tap.send_confirms` sends them on."""

    def publish_begins(self, tap: Tap) -> bool:
        """Another publish begins to come; True: the connection is to be lost first."""

    def publish_ends(self, tap: Tap) -> bool:
        """A publish has come whole; True: the connection is to be lost before it is answered."""

    def heard(self) -> None:
        """Something has come in."""

    def weather_for(self, tap: Tap) -> list[Callable[[Tap], None]]:
        """What is done to this connection for as long as it lasts."""


class _Outgoing(Link):
    """The link that the connection sees."""

    def __init__(self, tap: Tap, link: Link) -> None:
        self._tap = tap
        self._link = link
        self.is_held_by_core = False

    def write(self, data: bytes) -> None:
        self._tap.written(data)

    def close(self) -> None:
        self._link.close()

    def abort(self) -> None:
        self._link.abort()

    def pause_reading(self) -> None:
        self.is_held_by_core = True
        self._link.pause_reading()

    def resume_reading(self) -> None:
        self.is_held_by_core = False
        if not self._tap.is_resting:
            self._link.resume_reading()


class Tap:
    """The session of one socket.

    Args:
        node: the broker.
        link: to the socket.
        peer: who is at its other end.
        faults: what is armed.
        ledger: told of channels and confirms.

    Attributes:
        is_silent: no heartbeats are sent in the client's name.
        is_resting: a slow socket takes its time.

    """

    def __init__(
        self, node: Node, link: Link, peer: Peer, *, faults: Faultline, ledger: Ledger
    ) -> None:
        self._link = link
        self._faults = faults
        self._ledger = ledger
        self._incoming = FrameReader()
        self._sent = FrameReader()
        self._outgoing = _Outgoing(self, link)
        self._missing_bytes: dict[int, int] = {}
        # By channel: the number up to which all publishes are answered, and those beyond it.
        self._answered: dict[int, int] = {}
        self._answered_early: dict[int, set[int]] = {}
        # Channels with answers that never come: one for many would answer those as well.
        self._lossy: set[int] = set()
        self._is_mute = False
        self._is_forsaken = False
        self._is_stalled = False
        self._is_heart_resting = False
        self._is_new = True
        self._stalled_in: list[bytes] = []
        self._stalled_out: list[bytes] = []
        self._bytes_per_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slow_out: list[bytes] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self.is_silent = False
        self.is_resting = False
        # What lasts and has been done to it.
        self._weathered: list[Callable[[Tap], None]] = []
        self.connection = Connection(node, self._outgoing, peer)
        self.weather()

    def weather(self) -> None:
        """Have done to it what lasts, as soon as it is known that it is meant."""
        for action in self._faults.weather_for(self):
            if action not in self._weathered:
                self._weathered.append(action)
                action(self)

    # -- what the socket does

    def receive_data(self, data: bytes) -> None:
        self._faults.heard()
        if self._is_stalled:
            self._stalled_in.append(data)
            return

        self._take(data)
        if self._is_new:
            # What it has said may tell who it is, and where it wants to go.
            self.weather()
            self._is_new = self.connection.state < RUNNING

        if self._bytes_per_s:
            self._rest(len(data))

    def receive_eof(self) -> None:
        self._faults.heard()
        if not self._is_forsaken:
            self.connection.receive_eof()

    def connection_lost(self) -> None:
        self._faults.heard()
        self._ledger.connection_ends(self.connection.name)
        for timer in self._timers:
            timer.cancel()

        self._timers.clear()
        if not self._is_forsaken:
            self.connection.connection_lost()

    def pause_output(self) -> None:
        self.connection.pause_output()

    def resume_output(self) -> None:
        self.connection.resume_output()

    def _take(self, data: bytes) -> None:
        for one in self._incoming.feed(data):
            verdict = self._look_at(one)
            if verdict is not None:
                self.connection.receive_data(data[: max(verdict, 0)])
                self.connection.node.flush()
                self.drop()
                return

        self.connection.receive_data(data)

    def _look_at(self, one: Frame) -> int | None:
        """Look at what the client has sent; returns where the connection is to be lost, if so."""
        name = self.connection.name
        if one.type == FRAME_METHOD:
            if one.method == BASIC_PUBLISH:
                if self._faults.publish_begins(self):
                    return one.start
            elif one.method == CONFIRM_SELECT:
                self._answered.setdefault(one.channel, 0)
                self._ledger.confirms_begin(name, one.channel)
            elif one.method == CHANNEL_OPEN:
                self._answered.pop(one.channel, None)
                self._answered_early.pop(one.channel, None)
                self._lossy.discard(one.channel)
                self._ledger.channel_begins(name, one.channel)
        elif one.type == FRAME_HEADER:
            self._missing_bytes[one.channel] = int.from_bytes(one.payload[4:12], "big")
        elif one.type == FRAME_BODY:
            self._missing_bytes[one.channel] = self._missing_bytes.get(one.channel, 0) - len(
                one.payload
            )

        is_whole = one.type != FRAME_METHOD and self._missing_bytes.get(one.channel) == 0
        if is_whole and self._faults.publish_ends(self):
            # The broker gets it, and has nothing to say any more that anybody could hear.
            self._is_mute = True
            return one.end

        return None

    def keep_alive(self, *, is_moving: bool) -> None:
        """While the clock is moved, the client's machine would beat, and so does not count.

        Beats that are sent would each be a stop on the way.
        """
        connection = self.connection
        is_resting = (
            is_moving
            and connection.heartbeat_s > 0
            and not self.is_silent
            and not self._is_stalled
            and self._incoming.is_between_frames
        )
        if is_resting != self._is_heart_resting:
            self._is_heart_resting = is_resting
            connection.rest_heartbeat(is_resting)

    def nudge(self, *, is_idle_too: bool = False) -> None:
        """Wake a client that holds deliveries and sleeps: it gets a heartbeat, as it might anyway.

        Some put their acknowledgements off until something happens (Celery's workers).

        Args:
            is_idle_too: wake it although it holds none.

        """
        connection = self.connection
        if connection.heartbeat_s and connection.state == RUNNING:
            channels = connection.channels.values()
            if is_idle_too or any(one.deliveries.unacked.count for one in channels):
                connection.output.send(HEARTBEAT_FRAME)

    # -- what the connection says

    def written(self, data: bytes) -> None:
        """The connection has something to say."""
        if self._is_mute:
            return

        confirms: list[Confirm] = []
        if data.startswith(PROTOCOL_NAME):
            self._write(data)
            return

        rest: list[bytes] = []
        last = 0
        takes_all = self._faults.takes_confirms(self)
        for one in self._sent.feed(data):
            takes = takes_all or one.channel in self._lossy
            if one.type == FRAME_METHOD and one.method in (BASIC_ACK, BASIC_NACK):
                found = self._confirms_in(one)
                if takes:
                    rest.append(data[last : one.start])
                    last = one.end
                    confirms += found
                else:
                    self._tell(found)

        rest.append(data[last:])
        self._write(b"".join(rest))
        if confirms:
            self._faults.take_confirms(confirms)

    def _confirms_in(self, one: Frame) -> list[Confirm]:
        number = int.from_bytes(one.payload[4:12], "big")
        is_acked = one.method == BASIC_ACK
        done = self._answered.get(one.channel, 0)
        early = self._answered_early.setdefault(one.channel, set())
        first = done + 1 if one.payload[12] & 1 else number
        numbers = [each for each in range(first, number + 1) if each not in early]
        early.update(numbers)
        while done + 1 in early:
            done += 1
            early.discard(done)

        self._answered[one.channel] = done
        return [Confirm(self, one.channel, each, is_acked) for each in numbers]

    def _tell(self, confirms: list[Confirm]) -> None:
        name = self.connection.name
        for one in confirms:
            self._ledger.answered(name, one.channel, one.number, one.is_acked)

    def lose_confirm(self, confirm: Confirm) -> None:
        """Never send an answer, and none for many that would be taken for it."""
        self._lossy.add(confirm.channel)

    def send_confirms(self, confirms: list[Confirm]) -> None:
        """Send answers to publishes, each by itself, in this order."""
        pieces = []
        for one in confirms:
            method = BASIC_ACK if one.is_acked else BASIC_NACK
            payload = method.to_bytes(4, "big") + one.number.to_bytes(8, "big") + b"\x00"
            pieces.append(frame(one.channel, payload))

        self._tell(confirms)
        self._write(b"".join(pieces))

    def _write(self, data: bytes) -> None:
        if not data or self._is_mute:
            return

        if self._is_stalled:
            self._stalled_out.append(data)
        elif self._bytes_per_s and self._loop is not None:
            self._slow_out.append(data)
            if len(self._slow_out) == 1:
                self._write_slowly()
        else:
            self._link.write(data)

    # -- what is done to it

    def drop(self) -> None:
        """Lose the connection at once: the client sees its socket reset."""
        self._is_mute = True
        self._link.abort()

    def forsake(self) -> None:
        """Its broker is gone: the connection hears nothing more, not even of its own end."""
        self._is_forsaken = True
        self._is_mute = True
        self._is_stalled = True

    def stall(self) -> None:
        """Let nothing through, in either direction; the socket stays open."""
        self._is_stalled = True

    def flow(self) -> None:
        """Let through what has gathered, and whatever comes from now on."""
        if not self._is_stalled:
            return

        self._is_stalled = False
        incoming, self._stalled_in = self._stalled_in, []
        outgoing, self._stalled_out = self._stalled_out, []
        self._write(b"".join(outgoing))
        for data in incoming:
            self._take(data)

    def slow_down(self, bytes_per_s: float, loop: asyncio.AbstractEventLoop) -> None:
        """Let no more through in either direction than that; 0 is as much as there is."""
        self._bytes_per_s = bytes_per_s
        self._loop = loop
        for timer in self._timers:
            timer.cancel()

        self._timers.clear()
        waiting, self._slow_out = self._slow_out, []
        self._write(b"".join(waiting))
        if self.is_resting:
            self._wake()

    def _rest(self, size: int) -> None:
        self.is_resting = True
        self._link.pause_reading()
        self._later(size / self._bytes_per_s, self._wake)

    def _wake(self) -> None:
        self.is_resting = False
        if not self._outgoing.is_held_by_core:
            self._link.resume_reading()

    def _write_slowly(self) -> None:
        if not self._slow_out or not self._bytes_per_s:
            return

        room = max(1, int(self._bytes_per_s * SLICE_S))
        data = self._slow_out.pop(0)
        self._link.write(data[:room])
        if len(data) > room:
            self._slow_out.insert(0, data[room:])

        self._later(min(room, len(data)) / self._bytes_per_s, self._write_slowly)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        assert self._loop is not None
        now_s = self._loop.time()
        self._timers = {one for one in self._timers if one.when() > now_s}
        self._timers.add(self._loop.call_later(seconds, action))
