"""A client that asks and never reads the answers: its input waits, memory does not grow."""

from __future__ import annotations

from broker.core.output import OUTPUT_BACKLOG_BYTES_MAX
from tests.helpers.session import World, method, publish

BODY = b"x" * 60_000


def test_a_client_that_reads_nothing_is_not_read_from_either() -> None:
    world = World()
    session = world.open(1)
    session.connection.pause_output()
    returned = publish(1, "nowhere", BODY, mandatory=True)
    reads = 0
    while not session.link.is_paused and reads < 1_000:
        session.feed(returned)
        reads += 1

    written = len(session.take_bytes())
    assert OUTPUT_BACKLOG_BYTES_MAX <= written < OUTPUT_BACKLOG_BYTES_MAX + 2 * len(returned)
    session.feed(returned + method(1, "channel.close"))
    assert session.take_bytes() == b""

    session.connection.resume_output()
    world.settle()
    assert not session.link.is_paused
    assert session.names() == ["basic.return", "channel.close-ok"]


def test_other_clients_are_served_while_one_reads_nothing() -> None:
    world = World()
    session = world.open(1)
    session.connection.pause_output()
    while not session.link.is_paused:
        session.feed(publish(1, "nowhere", BODY, mandatory=True))

    other = world.open(1)
    assert other.ask(1, "queue.declare", queue="q").name == "queue.declare-ok"
    session.lose()
    assert list(world.node.connections) == [other.connection]
