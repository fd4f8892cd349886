"""How connections end, and what they do in time: rules C-07, C-60..C-63, C-70..C-80, PM-31."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.user_commands import delete_user
from tests.helpers.session import (
    HEARTBEAT,
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    assert_dropped,
    assert_sent,
    handshake,
    header,
    method,
    publish,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SHUTDOWN = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


def busy(world: World) -> Session:
    """A connection that holds one of everything: unacked, consumer, own queue, transaction."""
    session = world.open(1, 2, greeting=handshake(heartbeat=1))
    session.send(1, "queue.declare", queue="q")
    session.send(1, "queue.declare", queue="own", exclusive=True)
    session.send(1, "queue.declare", queue="auto", auto_delete=True)
    session.feed(publish(1, "q", b"one") + publish(1, "q", b"two"))
    session.send(1, "basic.consume", queue="q", consumer_tag="t")
    session.send(1, "basic.consume", queue="auto", consumer_tag="a")
    session.send(2, "tx.select")
    session.feed(publish(2, "q", b"uncommitted"))
    session.take_bytes()
    return session


def assert_released(world: World) -> None:
    """All that a busy connection held is free, and the books are balanced."""
    assert world.node.connection_counts == {}
    assert world.node.channel_counts == {}
    assert world.vhost.connection_count == 0
    assert set(world.vhost.queues) == {"q"}
    other = world.open(1)
    declared = other.ask(1, "queue.declare", queue="q", passive=True)
    assert declared.arguments == {"queue": "q", "message_count": 2, "consumer_count": 0}
    for data in (b"one", b"two"):
        message = other.ask(1, "basic.get", queue="q", no_ack=True)
        assert (message.body, message.arguments["redelivered"]) == (data, True)

    assert other.ask(1, "queue.declare", queue="own").name == "queue.declare-ok"


ENDS: list[tuple[str, Callable[[Session], None]]] = [
    ("close", lambda session: session.send(0, "connection.close")),
    ("lost", lambda session: session.lose()),
    ("eof", lambda session: session.connection.receive_eof()),
    ("error", lambda session: session.send(1, "basic.recover")),
    ("frame error", lambda session: session.feed(b"\x01\x00\x01\x00\x00\x00\x00\x00")),
    ("shutdown", lambda session: session.world.node.shutdown()),
    ("silence", lambda session: session.world.wait(3.0)),
]


@pytest.mark.parametrize("end", [pytest.param(end, id=name) for name, end in ENDS])
def test_whatever_ends_a_connection_it_lets_go_of_everything(
    end: Callable[[Session], None],
) -> None:
    """Rules C-61, C-70, C-77, C-80, Q-33, TX-09: at once, before anything else happens."""
    world = World()
    end(busy(world))
    assert_released(world)


def test_the_client_closes_the_socket_after_its_close() -> None:
    """Rules C-70, C-71: close-ok is the last word, and the socket stays."""
    session = World().open(1)
    session.send(0, "connection.close", reply_code=200, reply_text="bye")
    assert_sent(session, "0 connection.close-ok")
    session.feed(method(1, "channel.open") + publish(1, "q") + HEARTBEAT)
    session.world.wait(29.0)
    assert session.take_bytes() == b""
    assert not session.link.is_closed
    session.lose()
    assert session.link.late_writes == []


def test_a_socket_that_is_never_closed_is_given_up() -> None:
    """Rule C-70: it would be kept for ever."""
    session = World().open(1)
    session.send(0, "connection.close")
    session.take_bytes()
    assert_dropped(session, 30.0)


def test_frames_behind_a_close_are_ignored() -> None:
    """Rules C-70, C-71."""
    world = World()
    session = world.open(1)
    session.feed(method(0, "connection.close") + method(1, "queue.declare", queue="late"))
    assert_sent(session, "0 connection.close-ok")
    assert "late" not in world.vhost.queues


def test_closing_twice_is_answered_twice() -> None:
    """Rule C-71."""
    session = World().open(1)
    session.feed(method(0, "connection.close") * 3)
    assert_sent(session, *["0 connection.close-ok"] * 3)


def test_close_may_be_asked_for_before_a_virtual_host_is_open() -> None:
    """Rule C-75: from opening on."""
    session = World().connect()
    session.feed(handshake()[: -len(method(0, "connection.open", virtual_host="/"))])
    session.feed(method(0, "connection.close"))
    assert session.names()[-1] == "connection.close-ok"


def test_close_ok_is_found_behind_all_that_came_before_it_was_sent() -> None:
    """Rule C-72: a client that sends ahead has not heard of the close."""
    world = World()
    session = world.open(1)
    on_its_way = publish(1, "q", b"x" * 100) * 1_000 + method(1, "queue.declare", queue="late")
    session.feed(method(2, "basic.ack", delivery_tag=1) + on_its_way)
    assert_sent(session, "0 connection.close")
    session.feed(on_its_way[:-5])
    session.feed(on_its_way[-5:] + on_its_way + method(0, "connection.close-ok"))
    assert_dropped(session)
    assert "late" not in world.vhost.queues


def test_the_socket_closes_upon_close_ok() -> None:
    """Rule C-72."""
    session = World().open(1)
    session.send(1, "basic.recover")
    assert_connection_closing(session, 540, "NOT_IMPLEMENTED - requeue=false", (60, 110))
    session.send(1, "channel.open")
    assert not session.link.is_closed
    session.send(0, "connection.close-ok")
    assert_dropped(session)
    assert session.link.calls == ["close"]


def test_closes_that_cross_are_fine() -> None:
    """Rule C-72: our close, the client's close, close-ok both ways."""
    session = World().open(1)
    session.feed(method(1, "basic.recover") + method(0, "connection.close"))
    assert_sent(session, "0 connection.close", "0 connection.close-ok")
    session.send(0, "connection.close-ok")
    assert_dropped(session)


@pytest.mark.parametrize(("heartbeat", "limit_s"), [(0, 30.0), (5, 5.0), (60, 30.0)])
def test_a_close_waits_for_its_answer_and_no_longer(heartbeat: int, limit_s: float) -> None:
    """Rule C-72: the heartbeat or thirty seconds, whichever is less; heartbeats have ended."""
    session = World().open(1, greeting=handshake(heartbeat=heartbeat))
    session.send(1, "basic.recover")
    session.take_bytes()
    assert_dropped(session, limit_s)


def test_bytes_that_are_no_frame_end_the_wait_for_close_ok() -> None:
    """Rule C-72: close-ok cannot be found any more."""
    session = World().open(1)
    session.send(1, "basic.recover")
    session.take_bytes()
    session.feed(b"\x01\x00\x00\x00\x00\x00\x00\x00")
    assert_dropped(session)


def test_an_update_of_the_secret_is_taken_note_of() -> None:
    """Rule C-73."""
    session = World().open(1)
    answer = session.ask(0, "connection.update-secret", new_secret="n", reason="r")
    assert answer.name == "connection.update-secret-ok"
    assert session.is_running


# -- forced closes


def test_a_shutdown_says_320_to_everybody() -> None:
    """Rules C-78, DU-07: and a peer still in its handshake is dropped."""
    world = World()
    running = [world.open(1), world.open()]
    waiting = world.connect()
    waiting.feed(handshake()[:8])
    waiting.take_bytes()
    world.node.shutdown()
    world.settle()
    for session in running:
        assert_connection_closing(session, 320, SHUTDOWN)
        session.send(0, "connection.close-ok")
        assert_dropped(session)

    assert_dropped(waiting)
    assert not world.node.connections


def test_an_operator_may_close_a_connection() -> None:
    """Rules C-77, T-05: whatever it was doing."""
    session = World().open(1)
    session.feed(method(1, "basic.publish") + header(1, 9))
    session.connection.force_close("Closed via management plugin")
    session.world.settle()
    assert_connection_closing(session, 320, "CONNECTION_FORCED - Closed via management plugin")


@pytest.mark.parametrize("scope", ["user", "vhost"])
def test_connections_go_with_their_user_and_their_virtual_host(scope: str) -> None:
    """Rule PM-31."""
    world = World()
    world.node.add_vhost("other")
    world.users.set_permissions("nobody", vhost="other", configure="", write="", read="")
    session = world.open(1)
    other = world.open(greeting=handshake(vhost="other", user="nobody", password="nobody"))
    if scope == "user":
        delete_user(world.node, "guest", by="nobody")
    else:
        assert world.node.delete_vhost("/")

    world.settle()
    text = "user 'guest' is deleted" if scope == "user" else "vhost '/' is deleted"
    assert_connection_closing(session, 320, f"CONNECTION_FORCED - {text}")
    assert other.ask(1, "channel.open").name == "channel.open-ok"


# -- heartbeats


def beats(session: Session, seconds: float) -> int:
    """How many heartbeats come in that time; nothing else may."""
    session.world.wait(seconds)
    names = session.names()
    assert set(names) <= {"heartbeat"}
    return len(names)


@pytest.mark.parametrize("interval_s", [1, 2, 60, 65_535])
def test_the_first_heartbeat_comes_after_half_the_interval(interval_s: int) -> None:
    """Rules C-44, C-60: it is sent in any case, and the client decides on the interval."""
    session = World().open(greeting=handshake(heartbeat=interval_s))
    assert beats(session, interval_s / 2 - 0.001) == 0
    assert beats(session, 0.001) == 1
    session.feed(HEARTBEAT)
    assert beats(session, interval_s) == 2


def test_heartbeats_begin_with_tune_ok() -> None:
    """Rule C-60: before the virtual host is open."""
    session = World().connect()
    opening = method(0, "connection.open", virtual_host="/")
    session.feed(handshake(heartbeat=2)[: -len(opening)])
    session.take_bytes()
    assert beats(session, 1.0) == 1
    session.feed(opening)
    assert_sent(session, "0 connection.open-ok")


def test_no_heartbeat_is_sent_where_something_else_was() -> None:
    """Rule C-60: but for the first."""
    session = World().open(1, greeting=handshake(heartbeat=2))
    names = []
    for _ in range(20):
        session.world.wait(0.5)
        session.send(1, "basic.qos")
        names += session.names()

    assert names.count("heartbeat") == 1
    # The check after one second still finds the last answer, the one after two nothing.
    assert beats(session, 1.999) == 0
    assert beats(session, 0.001) == 1


def test_without_heartbeats_silence_is_no_matter() -> None:
    """Rule C-44: 0 disables both directions."""
    session = World().open(1, greeting=handshake(heartbeat=0))
    assert beats(session, 100_000.0) == 0
    assert session.is_running


@pytest.mark.parametrize("interval_s", [1, 10, 600])
def test_a_silent_peer_is_dropped_after_two_intervals(interval_s: int) -> None:
    """Rule C-61: two checks without a new byte; between two and three intervals of silence."""
    session = World().open(1, greeting=handshake(heartbeat=interval_s))
    session.world.wait(2 * interval_s - 0.001)
    assert not session.link.is_closed
    session.world.wait(interval_s + 0.001)
    assert session.link.calls == ["abort"]
    assert set(session.names()) == {"heartbeat"}
    assert session.link.late_writes == []
    assert session.connection not in session.world.node.connections


CONTENT = publish(1, "q", b"x" * 100)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([HEARTBEAT] * 3, id="heartbeat"),
        pytest.param([method(1, "basic.recover-async", requeue=True)], id="method"),
        pytest.param([bytes((octet,)) for octet in HEARTBEAT], id="octet-by-octet"),
        pytest.param([CONTENT[:25], CONTENT[25:50], CONTENT[50:52]], id="never-a-whole-frame"),
    ],
)
def test_any_octet_is_a_sign_of_life(data: list[bytes]) -> None:
    """Rule C-61: one within two intervals is enough."""
    session = World().open(1, greeting=handshake(heartbeat=1))
    for piece in data:
        session.feed(piece)
        session.world.wait(1.9)
        assert not session.link.is_closed

    session.world.wait(2.0)
    assert session.link.calls == ["abort"]


def test_a_peer_that_is_not_read_is_not_silent() -> None:
    """Rule C-62: nor is one whose answers wait for it to read them."""
    session = World().open(1, greeting=handshake(heartbeat=1))
    session.connection.pause_output()
    while not session.link.is_paused:
        session.feed(publish(1, "nowhere", b"x" * 60_000, mandatory=True))

    session.world.wait(60.0)
    assert not session.link.is_closed
    session.connection.resume_output()
    session.world.settle()
    assert not session.link.is_paused
    session.world.wait(3.0)
    assert session.link.calls[-1] == "abort"


# -- other connections


def test_one_connection_is_nothing_to_another() -> None:
    """Rules C-70, T-01: an error in one read leaves the others alone."""
    world = World()
    good = world.open(1)
    for _, end in ENDS[:5]:
        bad = world.open(1)
        end(bad)
        assert good.is_running

    good.send(1, "queue.delete", queue="own")
    good.send(1, "queue.bind", queue="own", exchange="amq.fanout")
    good.take_bytes()
    second = world.open(1)
    second.send(1, "queue.declare", queue="own", exclusive=True)
    second.take_bytes()
    good.send(1, "channel.close-ok")
    good.send(1, "channel.open")
    good.take_bytes()
    good.send(1, "queue.purge", queue="own")
    text = (
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'own' in vhost '/'. It "
        "could be originally declared on another connection or the exclusive property value does "
        "not match that of the original declaration."
    )
    assert_channel_closed(good, 1, 405, text, (50, 30))
