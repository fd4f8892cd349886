"""What clients of quorum queues are told (rules QQ, and what differs by type in Q, QS, CO, G)."""

from __future__ import annotations

import pytest

from tests.helpers.core import plain_headers, raw_properties
from tests.helpers.session import (
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    publish,
)

GET = (60, 70)
CONSUME = (60, 20)
DECLARE = (50, 10)
DELETE = (50, 40)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def session(world: World) -> Session:
    return world.open(1)


def declare(session: Session, name: str = "q", **arguments: object) -> None:
    table: dict[str, object] = {"x-queue-type": "quorum"}
    table |= {key.replace("_", "-"): value for key, value in arguments.items()}
    answer = session.ask(1, "queue.declare", queue=name, durable=True, arguments=table)
    assert answer.name == "queue.declare-ok"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param(
            {"queue": "q", "durable": True, "auto_delete": True},
            "invalid property 'auto-delete' for queue 'q' in vhost '/'",
            id="Q-28-auto-delete",
        ),
        pytest.param(
            {"queue": "q", "durable": True, "exclusive": True},
            "invalid property 'exclusive-owner' for queue 'q' in vhost '/'",
            id="Q-28-exclusive",
        ),
        pytest.param(
            {"queue": "q"},
            "invalid property 'non-durable' for queue 'q' in vhost '/'",
            id="Q-28-transient",
        ),
        pytest.param(
            {"queue": "", "durable": True},
            "Cannot declare a server-named queue for type rabbit_quorum_queue",
            id="Q-02-server-named",
        ),
    ],
)
def test_a_quorum_queue_is_durable_shared_and_named(
    session: Session, flags: dict[str, object], text: str
) -> None:
    """Rule QQ-01."""
    session.send(1, "queue.declare", arguments={"x-queue-type": "quorum"}, **flags)
    assert_channel_closed(session, 1, 406, f"PRECONDITION_FAILED - {text}", DECLARE)


@pytest.mark.parametrize(
    ("if_unused", "if_empty", "named"),
    [(True, False, "if-unused"), (False, True, "if-empty"), (True, True, "if-unused")],
)
def test_it_is_not_deleted_on_a_condition(
    session: Session, if_unused: bool, if_empty: bool, named: str
) -> None:
    """Rule Q-52: though it is unused and empty."""
    declare(session)
    session.send(1, "queue.delete", queue="q", if_unused=if_unused, if_empty=if_empty)
    text = (
        "NOT_IMPLEMENTED - cannot delete queue 'q' in vhost '/'. queue.delete operations with "
        f"{named} flag set are not supported by quorum queues"
    )
    assert_connection_closing(session, 540, text, DELETE)


def test_it_is_purged_and_deleted(session: Session) -> None:
    """Rule QQ-07, QQ-08."""
    declare(session)
    session.feed(publish(1, "q") * 3)
    passive = session.ask(1, "queue.declare", queue="q", passive=True)
    assert passive.arguments["message_count"] == 3
    assert session.ask(1, "queue.purge", queue="q").arguments == {"message_count": 3}
    assert session.ask(1, "queue.delete", queue="q").arguments == {"message_count": 0}


def test_nothing_is_got_where_one_consumer_is_active(session: Session) -> None:
    """Rule CO-33."""
    declare(session, x_single_active_consumer=True)
    session.send(1, "basic.get", queue="q")
    text = (
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get "
        "operations are not supported by quorum queues with single active consumer"
    )
    assert_channel_closed(session, 1, 405, text, GET)


def test_a_classic_queue_with_one_active_consumer_gives(session: Session) -> None:
    """Rule CO-33."""
    table = {"x-single-active-consumer": True}
    session.send(1, "queue.declare", queue="q", arguments=table)
    session.heard()
    assert session.ask(1, "basic.get", queue="q").name == "basic.get-empty"


def test_a_limit_of_the_channel_is_refused(session: Session) -> None:
    """Rule QS-08; a limit for each consumer is fine."""
    declare(session)
    session.send(1, "basic.qos", prefetch_count=3)
    session.send(1, "basic.consume", queue="q", consumer_tag="fine")
    session.send(1, "basic.qos", prefetch_count=3, global_=True)
    session.heard()
    session.send(1, "basic.consume", queue="q", consumer_tag="refused")
    text = "NOT_IMPLEMENTED - queue 'q' in vhost '/' does not support global qos"
    assert_connection_closing(session, 540, text, CONSUME)


def test_the_exclusive_flag_is_ignored(session: Session) -> None:
    """Rule QQ-06."""
    declare(session)
    for tag in ("a", "b"):
        answer = session.ask(1, "basic.consume", queue="q", consumer_tag=tag, exclusive=True)
        assert answer.name == "basic.consume-ok"


@pytest.mark.parametrize("end", ["nack", "reject", "recover", "channel", "connection"])
def test_every_way_back_counts(world: World, end: str) -> None:
    """Rules QQ-03, QQ-11 [4.2]."""
    session = world.open(1)
    declare(session, x_delivery_limit=1)
    properties = raw_properties(headers={"a": 1}, delivery_mode=1)
    session.feed(publish(1, "q", b"hare", properties))
    for returns in range(2):
        other = world.open(1)
        heard = other.ask(1, "basic.get", queue="q")
        headers = plain_headers(heard.properties)
        assert headers.pop("x-delivery-count", 0) == returns
        assert headers.pop("x-acquired-count", 0) == returns
        assert headers == {"a": 1}
        assert heard.arguments["redelivered"] == (returns > 0)
        tag = heard.arguments["delivery_tag"]
        if end == "nack":
            other.send(1, "basic.nack", delivery_tag=tag, requeue=True)
        elif end == "reject":
            other.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        elif end == "recover":
            other.send(1, "basic.recover", requeue=True)
            other.heard()
        elif end == "channel":
            other.send(1, "channel.close", reply_code=200)
        else:
            other.lose()

    queue = world.vhost.queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        pytest.param("failed", {"reject", "channel"}, id="failed"),
        pytest.param("returned", {"nack", "recover"}, id="returned"),
    ],
)
@pytest.mark.parametrize("end", ["nack", "reject", "recover", "channel"])
def test_failures_are_told_from_returns(world: World, kind: str, waits: set[str], end: str) -> None:
    """Rule QQ-09, as RabbitMQ 4.3 tells them."""
    session = world.open(1)
    declare(session, x_delayed_retry_type=kind, x_delayed_retry_min=100)
    session.feed(publish(1, "q"))
    session.send(1, "basic.get", queue="q")
    if end == "recover":
        session.send(1, "basic.recover", requeue=True)
    elif end == "channel":
        session.send(1, "channel.close", reply_code=200)
    else:
        session.send(1, f"basic.{end}", delivery_tag=1, requeue=True)

    assert world.vhost.queues["q"].ready_count == (0 if end in waits else 1)
    world.wait(0.1)
    assert world.vhost.queues["q"].ready_count == 1


def test_a_full_queue_fails_a_commit(session: Session) -> None:
    """Rule Q-87."""
    declare(session, x_max_length=0, x_overflow="reject-publish")
    session.send(1, "tx.select")
    session.feed(publish(1, "q") * 2)
    session.send(1, "tx.commit")
    text = "PRECONDITION_FAILED - partial tx completion"
    assert_channel_closed(session, 1, 406, text, (90, 20))
