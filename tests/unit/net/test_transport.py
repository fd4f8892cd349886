"""The transport between a fake socket and a fake session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.limits import LINGER_BYTES_MAX, LINGER_S, OUTPUT_BYTES_HIGH, OUTPUT_BYTES_LOW
from broker.net.pump import Pump
from broker.net.reception import REFUSAL_LOG_INTERVAL_S, Reception
from broker.protocol.link import Link, Peer
from tests.helpers.clock import VirtualClock
from tests.helpers.rim import FakeEngine, FakeLoop, FakeSession, FakeTransport

if TYPE_CHECKING:
    from broker.net.transport import AMQPTransport


class Rig:
    def __init__(self, connections_max: int = 10) -> None:
        self.clock = VirtualClock()
        self.loop = FakeLoop(self.clock)
        self.engine = FakeEngine()
        self.pump = Pump(self.engine, self.clock, self.loop.as_loop())
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self.sessions: list[FakeSession] = []
        self.reception = Reception(
            self.pump,
            self.open_session,
            lambda level, event, fields: self.log.append((level, event, fields)),
            connections_max=connections_max,
        )

    def open_session(self, link: Link, peer: Peer) -> FakeSession:
        self.engine.calls.append("session")
        self.sessions.append(FakeSession(link, peer, self.engine))
        return self.sessions[-1]

    def accept(self, transport: FakeTransport) -> AMQPTransport:
        protocol = self.reception.make_transport()
        protocol.connection_made(transport)
        return protocol


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def socket() -> FakeTransport:
    return FakeTransport()


@pytest.fixture
def carrier(rig: Rig, socket: FakeTransport) -> AMQPTransport:
    """An accepted connection; the calls of its opening are forgotten."""
    carrier = rig.accept(socket)
    rig.engine.calls.clear()
    socket.calls.clear()
    return carrier


def test_accepting_opens_a_session_that_knows_its_peer(rig: Rig, socket: FakeTransport) -> None:
    rig.accept(socket)
    assert rig.engine.calls == ["advance", "session", "flush"]
    assert rig.sessions[0].peer == Peer(
        "192.0.2.7", 40000, "192.0.2.1", 5672, is_loopback=False, is_tls=False
    )
    assert socket.calls == [f"limits {OUTPUT_BYTES_HIGH} {OUTPUT_BYTES_LOW}"]


def test_a_read_is_fed_between_the_time_and_the_flush(rig: Rig, carrier: AMQPTransport) -> None:
    carrier.data_received(b"AMQP")
    assert rig.engine.calls == ["advance", "data b'AMQP'", "flush"]


def test_writing_goes_to_the_socket(carrier: AMQPTransport, socket: FakeTransport) -> None:
    carrier.write(b"one")
    carrier.write(b"two")
    assert socket.written == b"onetwo"


def test_closing_half_closes_and_reads_on_without_listening(
    rig: Rig, carrier: AMQPTransport, socket: FakeTransport
) -> None:
    """A socket closed over unread input sends RST, which may overtake the last words."""
    carrier.write(b"last words")
    carrier.close()
    carrier.close()
    carrier.write(b"unheard")
    carrier.data_received(b"ignored")
    assert socket.written == b"last words"
    assert socket.calls == ["write_eof"]
    assert rig.engine.calls == []


def test_closing_a_paused_connection_reads_again_to_see_its_end(
    carrier: AMQPTransport, socket: FakeTransport
) -> None:
    carrier.pause_reading()
    carrier.close()
    assert socket.calls == ["pause_reading", "write_eof", "resume_reading"]


def test_a_peer_that_does_not_close_is_given_up(
    rig: Rig, carrier: AMQPTransport, socket: FakeTransport
) -> None:
    carrier.close()
    rig.clock.move(LINGER_S)
    rig.loop.turn()
    assert socket.calls == ["write_eof", "abort"]


def test_a_peer_that_floods_a_closed_connection_is_given_up(
    carrier: AMQPTransport, socket: FakeTransport
) -> None:
    carrier.close()
    chunk = bytes(LINGER_BYTES_MAX // 4)
    for _ in range(4):
        carrier.data_received(chunk)

    assert socket.calls == ["write_eof"]
    carrier.data_received(b"x")
    assert socket.calls == ["write_eof", "abort"]


def test_a_carrier_that_cannot_half_close_closes(rig: Rig) -> None:
    socket = FakeTransport(can_write_eof=False)
    carrier = rig.accept(socket)
    carrier.close()
    assert socket.calls[1:] == ["close"]


def test_a_peer_that_reset_cannot_be_half_closed(
    carrier: AMQPTransport, socket: FakeTransport
) -> None:
    socket.eof_error = OSError("not connected")
    carrier.close()
    assert socket.calls == ["abort"]


def test_abort_closes_at_once(rig: Rig, carrier: AMQPTransport, socket: FakeTransport) -> None:
    carrier.abort()
    carrier.data_received(b"ignored")
    assert socket.calls == ["abort"]
    assert rig.engine.calls == []


def test_the_end_of_input_ends_the_session(
    rig: Rig, carrier: AMQPTransport, socket: FakeTransport
) -> None:
    """Rule C-80; returning nothing makes asyncio send what is left and close."""
    carrier.eof_received()
    assert rig.engine.calls == ["advance", "eof", "flush"]
    rig.clock.move(LINGER_S)
    rig.loop.turn()
    assert socket.calls == ["abort"], "nobody takes what is left"


def test_the_loss_of_the_socket_is_told_once(rig: Rig, carrier: AMQPTransport) -> None:
    carrier.close()
    carrier.connection_lost(None)
    carrier.resume_writing()
    carrier.pause_writing()
    assert rig.engine.calls == ["advance", "lost", "flush"]
    assert rig.loop.armed == []
    assert rig.reception.transports == set()


def test_reading_is_paused_and_resumed_once(carrier: AMQPTransport, socket: FakeTransport) -> None:
    carrier.resume_reading()
    carrier.pause_reading()
    carrier.pause_reading()
    carrier.resume_reading()
    carrier.resume_reading()
    assert socket.calls == ["pause_reading", "resume_reading"]


def test_nothing_is_asked_of_a_socket_that_closes(
    carrier: AMQPTransport, socket: FakeTransport
) -> None:
    socket.close()
    carrier.pause_reading()
    carrier.resume_reading()
    assert socket.calls == ["close"]


def test_a_slow_socket_pauses_output_and_resumes_it(rig: Rig, carrier: AMQPTransport) -> None:
    carrier.pause_writing()
    carrier.resume_writing()
    assert rig.engine.calls == ["pause_output", "advance", "resume_output", "flush"]


def test_a_full_house_refuses_and_says_so_now_and_then() -> None:
    rig = Rig(connections_max=1)
    first = rig.accept(FakeTransport())
    for _ in range(3):
        socket = FakeTransport()
        refused = rig.accept(socket)
        assert socket.calls == ["abort"]
        refused.data_received(b"AMQP")
        refused.connection_lost(None)

    assert len(rig.sessions) == 1
    assert [(event, fields["refused"]) for _, event, fields in rig.log] == [
        ("connection.refused", 1)
    ]
    rig.clock.move(REFUSAL_LOG_INTERVAL_S)
    rig.accept(FakeTransport())
    assert rig.log[-1][2]["refused"] == 3, "the silent ones are counted"
    first.connection_lost(None)
    rig.accept(FakeTransport())
    assert len(rig.sessions) == 2


def test_a_closed_house_lets_nobody_in(rig: Rig) -> None:
    rig.reception.shut()
    socket = FakeTransport()
    rig.accept(socket)
    assert socket.calls == ["abort"]
    assert rig.sessions == []


async def test_waiting_for_the_last_to_leave(rig: Rig) -> None:
    carriers = [rig.accept(FakeTransport()) for _ in range(2)]
    waiter = asyncio.ensure_future(rig.reception.wait_empty())
    carriers[0].connection_lost(None)
    await asyncio.sleep(0)
    assert not waiter.done()
    carriers[1].connection_lost(ConnectionResetError())
    await waiter


def test_aborting_all_closes_every_socket(rig: Rig) -> None:
    sockets = [FakeTransport() for _ in range(3)]
    for socket in sockets:
        rig.accept(socket)

    rig.reception.abort_all()
    assert all("abort" in socket.calls for socket in sockets)
