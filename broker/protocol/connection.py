"""An AMQP connection without its socket: bytes in, bytes out, and a few deadlines.

``receive_data`` never raises for what a peer sends: this is the one place where errors become
channel.close, connection.close or a dropped socket (design: one catch site).
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from broker.core.actor import Actor
from broker.core.node import ConnectionHandle, Node
from broker.core.output import Output
from broker.core.publishing import TurnTaken
from broker.errors import (
    AMQPChannelError,
    AMQPError,
    ChannelFault,
    CommandInvalid,
    ConnectionForced,
    InternalFault,
    LoginRefused,
    PeerDropped,
    UnexpectedFrame,
)
from broker.limits import (
    CLOSE_TIMEOUT_S,
    DROP_DELAY_MS,
    EARLY_BYTES_MAX,
    FRAME_BYTES_MAX_INITIAL,
)
from broker.protocol import channel_table
from broker.protocol.blocking import Blocking
from broker.protocol.channel import check_not_reopened
from broker.protocol.client import Client
from broker.protocol.content import UnfinishedContents
from broker.protocol.delivery_age import DeliveryAges
from broker.protocol.faults import frame_error, is_known_frame, misplaced_frame, unknown_frame
from broker.protocol.handshake import Handshake, LoginPending, accepts_header, dropped
from broker.protocol.heartbeat import Heartbeat
from broker.protocol.methods import METHODS
from broker.protocol.states import (
    AWAITING_HEADER,
    CHANNEL_RUNNING,
    CLOSED,
    CLOSING,
    CONNECTION_METHODS,
    CONNECTION_TRANSITIONS,
    DROPPING,
    GONE,
    OPENING,
    RUNNING,
    STATE_NAMES,
    TUNING,
    VERIFYING,
)
from broker.protocol.strangers import describe_stranger
from broker.wire import codec
from broker.wire.constants import (
    BASIC_PUBLISH,
    CHANNEL_OPEN,
    CLASS_EXCHANGE,
    CLASS_QUEUE,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
)
from broker.wire.framing import FRAME_OVERHEAD, FrameDecoder, FrameFault
from broker.wire.methods import ConnectionUpdateSecret

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.auth.users import AuthenticationError, User
    from broker.core.deadlines import Timer
    from broker.core.vhost import VirtualHost
    from broker.protocol.channel import Channel
    from broker.protocol.link import Link, Peer
    from broker.wire.tables import Arguments

__all__ = ["Connection"]

HEADER_BYTES: Final = 8
CHANNEL_ZERO: Final = b"\x00\x00"
DECLARING_CLASSES: Final = (CLASS_EXCHANGE, CLASS_QUEUE)
UNLIMITED_PAYLOAD: Final = 1 << 40


class Connection(ConnectionHandle):
    """One client's connection.

    Args:
        node: the broker.
        link: carries the bytes.
        peer: who is at the other end of it.

    """

    __slots__ = (
        "_ages",
        "_channel",
        "_decoder",
        "_handshake",
        "_header",
        "_heartbeat",
        "_method_index",
        "_timer",
        "actor",
        "blocking",
        "channel_max",
        "channels",
        "client",
        "connected_at_ms",
        "frame_max",
        "heartbeat_s",
        "link",
        "mechanism",
        "name",
        "node",
        "output",
        "peer",
        "received_bytes",
        "state",
        "unfinished",
        "user",
        "vhost",
    )

    def __init__(self, node: Node, link: Link, peer: Peer) -> None:
        self.node = node
        self.link = link
        self.peer = peer
        self.name = f"{peer.host}:{peer.port} -> {peer.local_host}:{peer.local_port}"
        self.state = AWAITING_HEADER
        self.output = Output(node.outputs, link.write, self._read_again)
        self.received_bytes: i64 = 0
        self.user: User | None = None
        self.vhost: VirtualHost | None = None
        self.actor: Actor | None = None
        self.client = Client({})
        self.mechanism = ""
        self.channel_max = node.settings.channel_max
        self.frame_max = FRAME_BYTES_MAX_INITIAL
        self.heartbeat_s = 0
        self.channels: dict[int, Channel] = {}
        self.unfinished = UnfinishedContents(
            node.settings.unfinished_bytes_max, node.settings.message_bytes_max
        )
        self.connected_at_ms: int = node.deadlines.wall_ms
        self._decoder = FrameDecoder(FRAME_BYTES_MAX_INITIAL)
        self._handshake: Handshake | None = Handshake(self)
        self._header = b""
        self._channel: Channel | None = None
        self._method_index: i64 = 0
        self._heartbeat: Heartbeat | None = None
        self._ages: DeliveryAges | None = None
        self.blocking = Blocking()
        # One deadline at a time: the handshake's, later that of a close.
        due_ms = node.deadlines.now_ms + node.settings.handshake_timeout_ms
        self._timer: Timer | None = node.deadlines.schedule(due_ms, self._handshake_timed_out)
        node.connections[self] = None

    # -- what the rim calls

    def receive_data(self, data: bytes) -> None:
        """Take what was read; an empty read goes on with what was left when blocked."""
        self.received_bytes += len(data)
        if self.state >= DROPPING:
            return

        if self.state < TUNING:
            data = self._receive_early(data)
            if not data:
                return

        self._decoder.feed(data)
        while not self.output.is_stalled and not self._read_on():
            pass

    def receive_eof(self) -> None:
        """The peer sends no more: it is gone (rule C-80)."""
        self._end("the client closed the socket")

    def connection_lost(self) -> None:
        """The socket is closed."""
        self._end("the socket was lost")
        self.set_state(GONE)
        self._cancel_timer()
        self.output.discard()
        # Nothing may be left that leads back here: the collector would have to find it, and it
        # comes seldom (`leveret serve`).
        self._decoder.clear()
        self._handshake = None
        if self.actor is not None:
            self.actor.connection = None

    def pause_output(self) -> None:
        """The socket takes no more for now."""
        self.output.pause()

    def resume_output(self) -> None:
        """The socket takes more again."""
        self.output.resume()

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, whatever the socket still does."""
        return self.state >= CLOSED

    # -- bytes in

    def _receive_early(self, data: bytes) -> bytes:
        """Take what comes before a login; returns what there is to read of it now."""
        if self.received_bytes > EARLY_BYTES_MAX:
            self._dropped(dropped(f"more than {EARLY_BYTES_MAX} bytes before the login"))
            return b""

        if self.state == VERIFYING:
            self._decoder.feed(data)
            return b""

        return self._take_header(data) if self.state == AWAITING_HEADER else data

    def _take_header(self, data: bytes) -> bytes:
        """Take the protocol header; returns what follows it."""
        have = self._header + data[: HEADER_BYTES - len(self._header)]
        rest = data[len(have) - len(self._header) :]
        self._header = have
        if len(have) < HEADER_BYTES:
            return b""

        if accepts_header(have):
            handshake = self._handshake
            assert handshake is not None
            handshake.begin()
            return rest

        # Rules C-03, C-05: say what is spoken here, and nothing after it.
        where = "on a port without TLS" if not self.peer.is_tls else "within TLS"
        reason = f"{describe_stranger(have)}, {where}, in place of the AMQP 0-9-1 header"
        self._disgrace("connection.refused", {"reason": reason})
        self.output.send(PROTOCOL_HEADER)
        self._drop(0)
        return b""

    def _read_on(self) -> bool:
        """Take frames until there is no whole one; False when an error came between."""
        try:
            self._read_frames()
        except AMQPChannelError as error:
            self._channel_failed(error)
        except LoginPending:
            return True
        except TurnTaken:
            self.output.give_way()
            self.link.pause_reading()
            return True
        except PeerDropped as drop:
            self._dropped(drop)
        except AMQPError as error:
            self._fail(error)
        except FrameFault as fault:
            self._fail(frame_error(fault, self._decoder.payload_max))
        except Exception:
            self.log("error", "connection.bug", {"traceback": traceback.format_exc()})
            self._fail(InternalFault(class_id=0, method_id=0))
        else:
            return True

        return self.state >= DROPPING

    def _dropped(self, drop: PeerDropped) -> None:
        self._disgrace("connection.dropped", {"reason": drop.reason})
        self._drop(int(drop.after_s * 1000))

    def _disgrace(self, event: str, fields: dict[str, object]) -> None:
        """Tell what was wrong; where nobody is known yet, it counts against the address."""
        self.log("warning", event, fields)
        if self.state < OPENING:
            self.link.disgraced()

    def _read_frames(self) -> None:
        """The frame loop: what comes with every message goes straight to its channel."""
        decoder = self._decoder
        output = self.output
        channel: Channel | None = None
        while not self.blocking.is_on and not output.is_over_backlog() and decoder.next_frame():
            if decoder.frame_type == FRAME_METHOD and self.state == RUNNING:
                if channel is None or decoder.channel_id != channel.deliveries.channel_id:
                    channel = self.channels.get(int(decoder.channel_id))
                    self._channel = channel

                start: i64 = decoder.payload_start
                if channel is not None and channel.is_ready and decoder.payload_end - start >= 4:
                    buffer = decoder.buffer
                    index: i64 = (
                        (buffer[start] << 24)
                        | (buffer[start + 1] << 16)
                        | (buffer[start + 2] << 8)
                        | buffer[start + 3]
                    )
                    # Under an alarm a publish goes frame by frame, to stop at the right one.
                    is_hot = index != BASIC_PUBLISH or not self.node.alarms
                    if is_hot and channel.take_hot(decoder, index):
                        continue

            self._handle_frame(decoder)
            channel = self._channel
            if self.state >= DROPPING:
                return

        if output.is_over_backlog():
            self._stall()

    def _stall(self) -> None:
        """The client asks for more than it takes: read no more until it has taken some."""
        self.output.stall()
        self.link.pause_reading()

    def _read_again(self) -> None:
        """There is room for answers again."""
        if not self.blocking.is_on and self.state < DROPPING:
            self.link.resume_reading()
            self.receive_data(b"")

    def _handle_frame(self, decoder: FrameDecoder) -> None:
        frame_type = decoder.frame_type
        self._channel = None
        self._method_index = 0
        if self.state >= CLOSING:
            self._handle_while_closing(decoder)
        elif not is_known_frame(decoder):
            raise unknown_frame(decoder)
        elif frame_type == FRAME_HEARTBEAT:
            if decoder.channel_id != 0 or self.state < TUNING:
                # Before the login there is nothing that a heartbeat could keep alive.
                raise misplaced_frame(decoder)
        elif decoder.channel_id == 0:
            self._handle_on_zero(decoder)
        elif self.state != RUNNING:
            # Rule C-59.
            raise misplaced_frame(decoder)
        else:
            channel = self.channels.get(int(decoder.channel_id))
            self._channel = channel
            if channel is None:
                self._handle_unopened(decoder)
            elif frame_type != FRAME_METHOD and self.node.alarms:
                self._handle_content_under_alarm(channel, decoder)
            else:
                channel.handle_frame(decoder)

    def _handle_content_under_alarm(self, channel: Channel, decoder: FrameDecoder) -> None:
        """Rule MA-02: it blocks the connection, and also if the publish fails."""
        try:
            channel.handle_frame(decoder)
        except (AMQPChannelError, TurnTaken):
            self.blocking.begin(self)
            raise

        self.blocking.begin(self)

    # -- channel 0

    def _handle_on_zero(self, decoder: FrameDecoder) -> None:
        if decoder.frame_type != FRAME_METHOD:
            raise misplaced_frame(decoder)

        payload = decoder.payload()
        index = int.from_bytes(payload[:4], "big")
        self._method_index = index
        if index not in CONNECTION_METHODS.get(self.state, frozenset()):
            text = f"unexpected method in connection state {STATE_NAMES[self.state]}"
            raise ChannelFault(text)

        method = codec.decode_method(index, payload)
        if index == CONNECTION_CLOSE:
            self._end("the client closed it")
            self.send(codec.CONNECTION_CLOSE_OK)
        elif isinstance(method, ConnectionUpdateSecret):
            # Rule C-73: the users kept here have nothing to renew.
            self.send(codec.CONNECTION_UPDATE_SECRET_OK)
            for channel in self.channels.values():
                channel.check_consumers()
        else:
            handshake = self._handshake
            assert handshake is not None
            handshake.handle(method)

    def _handle_while_closing(self, decoder: FrameDecoder) -> None:
        """Rules C-71 and C-72: only close and close-ok count."""
        while decoder.frame_type != FRAME_METHOD or decoder.channel_id != 0:
            if not decoder.next_frame():
                return

        index = int.from_bytes(decoder.payload()[:4], "big")
        if index not in CONNECTION_METHODS.get(self.state, frozenset()):
            return

        if index == CONNECTION_CLOSE:
            self.send(codec.CONNECTION_CLOSE_OK)
        elif index == CONNECTION_CLOSE_OK:
            self.set_state(CLOSED)
            self._drop(0)

    def send(self, payload: bytes) -> None:
        """Send a method on channel 0."""
        self.output.send_method(CHANNEL_ZERO, payload)

    # -- what the handshake settles

    def set_state(self, state: int) -> None:
        """Go on to another state; there must be a way from this one."""
        assert state in CONNECTION_TRANSITIONS[self.state], (self.state, state)
        self.state = state

    def set_client(self, properties: Arguments) -> None:
        """Take what connection.start-ok says of the client."""
        self.client = Client(properties)

    def await_login(self) -> None:
        """Read nothing until it is clear who it is; `login_judged` goes on."""
        self.set_state(VERIFYING)
        self.link.pause_reading()

    def login_judged(self, verdict: User | AuthenticationError) -> None:
        """It is clear who it is, or that it is nobody."""
        handshake = self._handshake
        if self.state != VERIFYING or handshake is None or self not in self.node.connections:
            return

        self.link.resume_reading()
        try:
            handshake.go_on(verdict)
        except PeerDropped as drop:
            self._dropped(drop)
        except AMQPError as error:
            self._fail(error)
        else:
            self.receive_data(b"")

    def set_user(self, user: User) -> None:
        """The login succeeded."""
        self.user = user

    def set_limits(self, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        """Take what connection.tune-ok settles; the values were checked (section C.4)."""
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat_s = heartbeat_s
        self._decoder.limit_frames(frame_max)
        payload_max = frame_max - FRAME_OVERHEAD if frame_max else UNLIMITED_PAYLOAD
        self.output.frame_payload_max = payload_max
        if heartbeat_s:
            self._heartbeat = Heartbeat(self.node.deadlines, self, heartbeat_s)

    def open_vhost(self, vhost: VirtualHost) -> None:
        """The virtual host was granted: the connection runs (rule C-50)."""
        user = self.user
        assert user is not None
        self.vhost = vhost
        self.actor = Actor(vhost.name, user, self, self.name)
        vhost.connection_count += 1
        self.node.count_connection(user.name, 1)
        self.node.churn.connections_opened += 1
        self._cancel_timer()
        self._handshake = None
        self.link.settled()
        self.set_state(RUNNING)
        self.send(codec.CONNECTION_OPEN_OK)
        about: dict[str, object] = {"heartbeat_s": self.heartbeat_s}
        about.update(self.client.introduction())
        self.log("info", "connection.opened", about)
        self.tell("connection.created")

    # -- channels

    def _handle_unopened(self, decoder: FrameDecoder) -> None:
        if decoder.frame_type != FRAME_METHOD:
            # Rule F-10.
            raise UnexpectedFrame(
                "expected method frame, got non method frame instead", class_id=0, method_id=0
            )

        payload = decoder.payload()
        index = int.from_bytes(payload[:4], "big")
        self._method_index = index
        channel_table.handle_unopened(self, int(decoder.channel_id), index, payload)

    def call_method(self, channel: Channel, index: int, payload: bytes) -> None:
        """Obey a method on an open channel.

        Raises:
            AMQPError: it does not decode, has no place there, or failed.

        """
        method = codec.decode_method(index, payload)
        if index == CHANNEL_OPEN:
            check_not_reopened(index)

        handler = METHODS.get(index)
        if handler is None:
            # Rules C-76, CH-11: connection methods, and those that only a server sends.
            raise CommandInvalid("unimplemented method")

        handler(channel, method)
        journal = channel.vhost.journal
        if journal is not None and index >> 16 in DECLARING_CLASSES and journal.has_declarations():
            # What was declared outlives the broker: the answer leaves when that is true.
            journal.hold_output(self.output)

    def forget_channel(self, channel: Channel) -> None:
        """The channel is closed on both sides: its number may be used again (rule CH-08)."""
        if self.channels.pop(channel.channel_id, None) is not None and self.user is not None:
            self.node.count_channel(self.user.name, -1)
            self.node.churn.channels_closed += 1
            self.tell("channel.closed", channel.channel_id)

    # -- errors out

    def close_channel(self, channel: Channel, error: AMQPChannelError) -> None:
        """Close a channel for something that no method of it has caused (rule MA-10)."""
        self._channel = channel
        self._channel_failed(error)

    def _channel_failed(self, error: AMQPChannelError) -> None:
        channel = self._channel
        if channel is None or channel.state != CHANNEL_RUNNING:
            # Rule T-01: without a channel to close it is the connection that closes.
            self._fail(error)
            return

        self.log(
            "warning",
            "channel.closed",
            {"channel": channel.channel_id, "code": error.code, "reason": error.reply_text},
        )
        channel.close_for(error)

    def _fail(self, error: AMQPError) -> None:
        """Close towards the client; before anybody is known, drop the socket (rule C-34)."""
        if self.state < OPENING and not isinstance(error, LoginRefused):
            self._disgrace("connection.refused", _log_fields(error))
            self._drop(DROP_DELAY_MS)
            return

        if self.state >= CLOSING:
            self._drop(0)
            return

        class_id = error.class_id
        method_id = error.method_id
        if class_id is None or method_id is None:
            index = self._channel.method_index if self._channel is not None else self._method_index
            class_id = int(index >> 16)
            method_id = int(index & 0xFFFF)

        if self.state == OPENING:
            self.log("warning", "connection.refused", _log_fields(error))

        self._release("", "warning", _log_fields(error))
        self.set_state(CLOSING)
        self.send(
            codec.encode_connection_close(
                error.code, error.reply_text, class_id=class_id, method_id=method_id
            )
        )
        if isinstance(error, LoginRefused):
            self._arm(DROP_DELAY_MS, self._give_up)
        elif error.is_fatal:
            # Nothing that follows can be read any more (rules F-02, F-04).
            self._drop(DROP_DELAY_MS)
        else:
            timeout_s = min(self.heartbeat_s or CLOSE_TIMEOUT_S, CLOSE_TIMEOUT_S)
            self._arm(timeout_s * 1000, self._give_up)

    def force_close(self, explanation: str) -> None:
        """Close with 320, as an operator's wish (rules C-77, C-78)."""
        if self.state < OPENING:
            self._drop(0)
        elif self.state < CLOSING:
            self._channel = None
            self._fail(ConnectionForced(explanation, class_id=0, method_id=0))

    # -- the end

    def _end(self, reason: str) -> None:
        """The client is done: let go of everything; the socket is the client's to close (C-70)."""
        if self.state >= CLOSED:
            return

        if self.vhost is None and self in self.node.connections:
            # Nobody has come in: a look at the port, mostly, by who sees to the broker's health.
            state = STATE_NAMES[self.state]
            self.log("debug", "connection.closed", {"reason": reason, "state": state})

        self._release(reason)
        if self.state in (OPENING, RUNNING, CLOSING):
            self.set_state(CLOSED)
            self._arm(CLOSE_TIMEOUT_S * 1000, self._give_up)

    def _drop(self, after_ms: int) -> None:
        """Read no more; close the socket, now or later, when what was written is out."""
        self._release("dropped")
        self.set_state(DROPPING)
        self._decoder.clear()
        if after_ms:
            # What comes until then stays where it is.
            self.link.pause_reading()
            self._arm(after_ms, self._give_up)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._cancel_timer()
        self.output.flush()
        self.link.close()

    def _handshake_timed_out(self) -> None:
        self.log(
            "warning",
            "connection.dropped",
            {"reason": f"handshake timeout in state {STATE_NAMES[self.state]}"},
        )
        self._drop(0)

    def rest_heartbeat(self, is_resting: bool) -> None:
        """Do without heartbeats both ways for a while: whoever moves the clock vouches for it."""
        heartbeat = self._heartbeat
        if heartbeat is None:
            return

        if is_resting:
            heartbeat.stop()
        else:
            heartbeat.go_on()

    def peer_silent(self) -> None:
        """Nothing has come for too long: the peer is gone (rule C-61)."""
        self.log("warning", "connection.dropped", {"reason": "missed heartbeats from the client"})
        self._release("missed heartbeats", "warning")
        if self.state < DROPPING:
            self.set_state(DROPPING)

        self.output.discard()
        self.link.abort()

    def _release(
        self, reason: str, level: str = "info", fields: dict[str, object] | None = None
    ) -> None:
        """Let go of channels, exclusive queues and places in the books; once (C-70, C-80)."""
        if self not in self.node.connections:
            return

        del self.node.connections[self]
        self._cancel_timer()
        # What ends a connection is heard in any case: close-ok, or the end of the stream.
        self.blocking.lift(self)
        heartbeat = self._heartbeat
        if heartbeat is not None:
            heartbeat.stop()
            self._heartbeat = None

        if self._ages is not None:
            self._ages.stop()
            self._ages = None

        channel_table.terminate_all(self)
        self._channel = None
        churn = self.node.churn
        churn.received_bytes += self.received_bytes
        # What is still to be written, the answer to a close at most, is not counted any more.
        churn.sent_bytes += self.output.total_bytes
        vhost = self.vhost
        if vhost is not None and self.user is not None:
            vhost.delete_exclusive_queues(self)
            vhost.connection_count -= 1
            self.node.count_connection(self.user.name, -1)
            churn.connections_closed += 1
            self.log(level, "connection.closed", fields or {"reason": reason})
            self.tell("connection.closed")

    def tell(self, key: str, number: int = 0) -> None:
        """Tell of an event of the connection, or of its channel of that number (rule E-134)."""
        events = self.node.events
        if events is None or self.vhost is None or self.user is None:
            return

        names: dict[str, object] = {"vhost": self.vhost.name, "user": self.user.name}
        if number:
            name = f"{self.name} ({number})"
            events.tell(key, name=name, connection=self.name, number=number, **names)
        else:
            events.tell(key, name=self.name, **names)

    def _arm(self, after_ms: int, action: Callable[[], None]) -> None:
        self._cancel_timer()
        deadlines = self.node.deadlines
        self._timer = deadlines.schedule(deadlines.now_ms + after_ms, action)

    def _cancel_timer(self) -> None:
        timer = self._timer
        if timer is not None:
            self.node.deadlines.cancel(timer)
            self._timer = None

    # -- alarms

    def alarms_changed(self) -> None:
        """Go on reading when the last alarm is over (rule MA-04)."""
        if not self.node.alarms and self.blocking.end(self):
            self.receive_data(b"")

    @property
    def ages(self) -> DeliveryAges:
        """The watch over its unacked deliveries (rule MA-10)."""
        if self._ages is None:
            self._ages = DeliveryAges(self)

        return self._ages

    @property
    def is_blocked(self) -> bool:
        """Whether an alarm keeps it from being read."""
        return self.blocking.is_on

    def belongs_to(self, user: User | None, vhost: VirtualHost | None) -> bool:
        """Whether it is of that user, or open on that virtual host."""
        return (user is not None and self.user is user) or (
            vhost is not None and self.vhost is vhost
        )

    def log(self, level: str, event: str, fields: dict[str, object]) -> None:
        """Say something about this connection."""
        about: dict[str, object] = {"connection": self.name}
        if self.user is not None:
            about["user"] = self.user.name

        if self.vhost is not None:
            about["vhost"] = self.vhost.name

        about.update(fields)
        self.node.log(level, event, about)


def _log_fields(error: AMQPError) -> dict[str, object]:
    """What the log says of an error: the reply, and the detail that the peer is not told."""
    fields: dict[str, object] = {"code": error.code, "reason": error.reply_text}
    detail = str(error)
    if detail and detail not in error.reply_text:
        fields["detail"] = detail

    return fields
