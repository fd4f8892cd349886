"""Alarms as clients see them: rules MA-02..MA-06, MA-08, C-62."""

from __future__ import annotations

import pytest

from tests.helpers.session import (
    HEARTBEAT,
    Session,
    World,
    assert_dropped,
    assert_sent,
    body,
    frame,
    handshake,
    header,
    method,
    publish,
)

WILLING = handshake(capabilities=["connection.blocked"])


def alarm(world: World, *names: str, is_on: bool = True) -> None:
    for name in names:
        world.node.set_alarm(name, is_on)

    world.settle()


def opened(world: World, greeting: bytes = WILLING) -> Session:
    """A connection with channel 1 and queue q."""
    session = world.open(1, greeting=greeting)
    session.ask(1, "queue.declare", queue="q")
    return session


def ready(world: World) -> int:
    return int(world.vhost.queues["q"].ready_count)


def test_all_but_publishing_goes_on_under_an_alarm() -> None:
    """Rules MA-02, MA-08."""
    world = World()
    session = opened(world)
    session.feed(publish(1, "q"))
    alarm(world, "memory")
    assert session.take_bytes() == b""
    got = session.ask(1, "basic.get", queue="q")
    session.send(1, "basic.ack", delivery_tag=got.arguments["delivery_tag"])
    session.send(1, "basic.consume", queue="q")
    session.send(1, "queue.declare", queue="other")
    session.feed(HEARTBEAT + method(1, "basic.publish", routing_key="q"))
    assert_sent(session, "1 basic.consume-ok", "1 queue.declare-ok")
    assert not session.link.is_paused


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["memory"], "low on memory"),
        (["disk"], "low on disk"),
        (["memory", "disk"], "low on disk & memory"),
        (["disk", "memory"], "low on disk & memory"),
    ],
)
def test_a_publish_blocks_and_waits_for_the_end_of_the_alarm(names: list[str], reason: str) -> None:
    """Rules MA-03, MA-04, MA-08."""
    world = World()
    session = opened(world)
    alarm(world, *names)
    session.feed(publish(1, "q") * 2 + method(1, "basic.qos"))
    [blocked] = session.heard()
    assert (blocked.name, blocked.arguments) == ("connection.blocked", {"reason": reason})
    assert session.link.calls == ["pause_reading"]
    assert ready(world) == 0
    for name in names:
        assert session.take_bytes() == b""
        alarm(world, name, is_on=False)

    assert session.link.calls == ["pause_reading", "resume_reading"]
    assert_sent(session, "0 connection.unblocked", "1 basic.qos-ok")
    assert ready(world) == 2


@pytest.mark.parametrize(
    ("before", "under", "count"),
    [
        pytest.param(b"", method(1, "basic.publish", routing_key="q") + header(1, 4), 0, id="head"),
        pytest.param(b"", publish(1, "q"), 0, id="whole"),
        pytest.param(b"", publish(1, "q", b"") * 2, 1, id="no-body"),
        pytest.param(
            method(1, "basic.publish", routing_key="q") + header(1, 4),
            body(1, b"hare") + publish(1, "q"),
            1,
            id="last-body",
        ),
        pytest.param(
            method(1, "basic.publish", routing_key="q") + header(1, 4) + body(1, b"h"),
            body(1, b"a") + body(1, b"re"),
            0,
            id="a-body",
        ),
    ],
)
def test_the_first_content_frame_stops_the_reading(before: bytes, under: bytes, count: int) -> None:
    """Rules MA-02, MA-08: what that frame completes is published, nothing behind it."""
    world = World()
    session = opened(world)
    session.feed(before)
    alarm(world, "memory")
    session.feed(under)
    assert_sent(session, "0 connection.blocked")
    assert ready(world) == count


def test_a_publish_that_fails_blocks_none_the_less() -> None:
    """Rule MA-02: with the channel open or closed; one that ends the connection has no need to."""
    world = World()
    session = opened(world)
    alarm(world, "memory")
    session.feed(publish(1, "q", b"", exchange="nowhere"))
    assert sorted(session.names()) == ["channel.close", "connection.blocked"]
    assert session.link.is_paused
    alarm(world, "memory", is_on=False)
    assert_sent(session, "0 connection.unblocked")
    alarm(world, "memory")
    session.feed(publish(1, "q", b""))
    assert_sent(session, "0 connection.blocked")
    alarm(world, "memory", is_on=False)
    session.take_bytes()
    session.send(1, "channel.close-ok")
    session.ask(1, "channel.open")
    alarm(world, "memory")
    session.feed(header(1, 4))
    assert_sent(session, "0 connection.close")


def test_blocked_is_told_once_an_episode() -> None:
    """Rules MA-03, MA-04: more alarms are no news, and each episode has its own."""
    world = World()
    session = opened(world)
    for _ in range(2):
        alarm(world, "memory")
        session.feed(publish(1, "q"))
        alarm(world, "disk")
        assert_sent(session, "0 connection.blocked")
        alarm(world, "memory", is_on=False)
        assert_sent(session)
        alarm(world, "disk", is_on=False)
        assert_sent(session, "0 connection.unblocked")


def test_clients_that_do_not_understand_are_blocked_without_a_word() -> None:
    """Rules MA-03, MA-04."""
    world = World()
    session = opened(world, handshake(capabilities=[]))
    alarm(world, "memory")
    session.feed(publish(1, "q"))
    assert session.link.is_paused
    alarm(world, "memory", is_on=False)
    assert not session.link.is_paused
    assert session.take_bytes() == b""
    assert ready(world) == 1


def test_an_alarm_that_passes_before_a_publish_is_not_noticed() -> None:
    """Rule MA-02."""
    world = World()
    session = opened(world)
    alarm(world, "memory")
    alarm(world, "memory", is_on=False)
    session.feed(publish(1, "q"))
    assert session.take_bytes() == b""
    assert session.link.calls == []


def test_handshakes_work_under_an_alarm() -> None:
    """Rule MA-06."""
    world = World()
    alarm(world, "disk")
    session = opened(world)
    session.feed(publish(1, "q"))
    assert_sent(session, "0 connection.blocked")


def test_deliveries_and_heartbeats_reach_a_blocked_client() -> None:
    """Rules MA-05, C-62: its silence is ours, for as long as it takes."""
    world = World()
    session = opened(world, handshake(capabilities=["connection.blocked"], heartbeat=1))
    other = world.open(1)
    session.ask(1, "basic.consume", queue="q", no_ack=True)
    alarm(world, "memory")
    session.feed(publish(1, "q", b"blocked"))
    assert_sent(session, "0 connection.blocked")
    world.wait(60.0)
    names = session.names()
    assert set(names) == {"heartbeat"}
    assert 119 <= len(names) <= 121
    assert not session.link.is_closed
    other.send(1, "queue.delete", queue="nothing")
    alarm(world, "memory", is_on=False)
    assert_sent(session, "0 connection.unblocked", "1 basic.deliver")
    world.wait(1.9)
    assert not session.link.is_closed
    world.wait(1.2)
    assert session.link.calls[-1] == "abort"


def test_a_message_for_a_blocked_client_is_delivered() -> None:
    """Rule MA-05."""
    world = World()
    session = opened(world)
    session.ask(1, "basic.consume", queue="q", no_ack=True)
    other = world.open(1)
    other.feed(method(1, "basic.publish", routing_key="q") + header(1, 4))
    alarm(world, "memory")
    session.feed(publish(1, "q"))
    assert_sent(session, "0 connection.blocked")
    # Its last frame completes a message that was begun before.
    other.feed(frame(3, 1, b"hare"))
    [delivery] = session.heard()
    assert (delivery.name, delivery.body) == ("basic.deliver", b"hare")


def test_a_blocked_connection_that_is_closed_can_answer() -> None:
    """Rules C-72, C-78: its close-ok is read."""
    world = World()
    session = opened(world)
    alarm(world, "memory")
    session.feed(publish(1, "q"))
    session.take_bytes()
    world.node.shutdown()
    world.settle()
    assert_sent(session, "0 connection.close")
    assert not session.link.is_paused
    session.send(0, "connection.close-ok")
    assert_dropped(session)


def test_a_blocked_connection_that_is_lost_is_forgotten() -> None:
    """Rule C-80."""
    world = World()
    session = opened(world)
    alarm(world, "memory")
    session.feed(publish(1, "q") * 2)
    session.lose()
    alarm(world, "memory", is_on=False)
    assert ready(world) == 0
    assert session.link.late_writes == []
