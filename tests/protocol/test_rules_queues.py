"""Queues: their type, and how long they live unused (section Q)."""

from __future__ import annotations

import pytest

from tests.helpers.session import Session, World, assert_channel_closed, method, publish

QUORUM = {"x-queue-type": "quorum"}


def is_there(world: World, queue: str) -> bool:
    return queue in world.vhost.queues


@pytest.fixture
def session() -> Session:
    return World().open(1, 2)


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param({"durable": True}, id="durable"),
        pytest.param({}, id="transient"),
        pytest.param({"durable": True, "auto_delete": True}, id="auto-delete"),
        pytest.param({"exclusive": True}, id="exclusive"),
    ],
)
def test_a_queue_without_a_type_is_classic(session: Session, chosen: dict[str, bool]) -> None:
    """Rule Q-08: it can be declared again as such, and not as anything else."""
    session.ask(1, "queue.declare", queue="q", **chosen)
    for kind in ("classic", ""):
        again = session.ask(
            1, "queue.declare", queue="q", arguments={"x-queue-type": kind}, **chosen
        )
        assert again.name == "queue.declare-ok"

    session.send(1, "queue.declare", queue="q", arguments=QUORUM, **chosen)
    text = (
        "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': "
        "received 'quorum' but current is 'classic'"
    )
    assert_channel_closed(session, 1, 406, text, (50, 10))


@pytest.mark.parametrize("passive", [False, True])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_declaring_again_is_a_use_of_classic_queues_alone(
    session: Session, kind: str, passive: bool
) -> None:
    """Rules Q-70, Q-71."""
    arguments: dict[str, object] = {"x-queue-type": kind, "x-expires": 1_000}
    declare = method(
        1, "queue.declare", queue="q", durable=True, passive=passive, arguments=arguments
    )
    session.ask(1, "queue.declare", queue="q", durable=True, arguments=arguments)
    session.world.wait(0.75)
    session.feed(declare)
    assert session.names() == ["queue.declare-ok"]
    session.world.wait(0.249)
    assert is_there(session.world, "q")
    session.world.wait(0.001)
    assert is_there(session.world, "q") == (kind == "classic")
    session.world.wait(0.75)
    assert not is_there(session.world, "q")


def test_a_quorum_queue_is_used_by_gets_and_consumers(session: Session) -> None:
    """Rules Q-70, Q-71."""
    arguments: dict[str, object] = {**QUORUM, "x-expires": 1_000}
    session.ask(1, "queue.declare", queue="q", durable=True, arguments=arguments)
    session.world.wait(0.75)
    session.ask(1, "basic.get", queue="q")
    session.world.wait(0.75)
    session.ask(1, "basic.consume", queue="q", consumer_tag="c")
    session.world.wait(60.0)
    assert is_there(session.world, "q")
    session.ask(1, "basic.cancel", consumer_tag="c")
    session.world.wait(0.999)
    assert is_there(session.world, "q")
    session.world.wait(0.001)
    assert not is_there(session.world, "q")


def test_a_full_queue_that_expires_lets_nobody_wait(session: Session) -> None:
    """Rules Q-70, Q-72, Q-54: its messages are gone, and had been confirmed."""
    session.ask(2, "confirm.select")
    session.ask(1, "queue.declare", queue="grave")
    arguments = {
        "x-expires": 500,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "grave",
    }
    session.ask(1, "queue.declare", queue="q", durable=True, arguments=arguments)
    session.feed(publish(2, "q") * 3)
    assert session.names() == ["basic.ack"]
    session.world.wait(0.5)
    assert not is_there(session.world, "q")
    declared = session.ask(1, "queue.declare", queue="grave", passive=True)
    assert declared.arguments["message_count"] == 0


def test_length_limits_of_a_stream_drop_segments_and_refuse_nothing(session: Session) -> None:
    """Rules Q-88, ST-07: within its last segment a stream has any number of messages."""
    session.ask(1, "confirm.select")
    sizes = {"x-max-length-bytes": 1_000, "x-stream-max-segment-size-bytes": 1_000}
    for name, arguments in (("one", {"x-max-length-bytes": 10}), ("many", sizes)):
        kind = {"x-queue-type": "stream"}
        session.ask(1, "queue.declare", queue=name, durable=True, arguments=kind | arguments)

    counts = []
    for name in ("one", "many"):
        session.feed(publish(1, name, b"x" * 100) * 60)
        assert session.names() == ["basic.ack"]
        declared = session.ask(1, "queue.declare", queue=name, passive=True)
        counts.append(declared.arguments["message_count"])

    assert counts[0] == 60
    assert isinstance(counts[1], int)
    assert 0 < counts[1] < 30
