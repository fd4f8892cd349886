"""Transactions (section TX): the core keeps the pieces, tx.* of a channel puts them together."""

from __future__ import annotations

import pytest

from broker.core.message import Address, Message
from broker.core.transaction import ACK, REJECT, REQUEUE, Publication, Transaction
from broker.errors import PreconditionFailed
from broker.limits import UNCOMMITTED_PER_CHANNEL_MAX
from tests.helpers.session import Session, World, method, publish


def message() -> Message:
    return Message(Address("", "q"), b"", 0, False, 0)


def test_what_was_issued_is_handed_over_in_order() -> None:
    """Rules TX-04, TX-07: once; then the next transaction begins."""
    transaction = Transaction()
    publications = [Publication(message(), [], -1, False) for _ in range(2)]
    settled = [message() for _ in range(3)]
    for publication in publications:
        transaction.add_publication(publication)

    transaction.add_settlement(ACK, settled[:2])
    transaction.add_settlement(REJECT, settled[2:])
    assert transaction.settled_messages() == settled
    assert transaction.take_publications() == publications
    taken = transaction.take_settlements()
    assert [(one.kind, one.messages) for one in taken] == [
        (ACK, settled[:2]),
        (REJECT, settled[2:]),
    ]
    assert transaction.take_publications() == []
    assert transaction.take_settlements() == []


def test_a_transaction_is_bounded() -> None:
    transaction = Transaction()
    one = message()
    transaction.add_settlement(REQUEUE, [one] * (UNCOMMITTED_PER_CHANNEL_MAX - 1))
    transaction.add_publication(Publication(one, [], -1, False))
    with pytest.raises(PreconditionFailed, match="transaction too large"):
        transaction.add_settlement(ACK, [one])

    with pytest.raises(PreconditionFailed, match="transaction too large"):
        transaction.add_publication(Publication(one, [], -1, False))

    transaction.take_publications()
    transaction.take_settlements()
    transaction.add_settlement(ACK, [one])


# -- on a channel


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def session(world: World) -> Session:
    """Channel 1 is transactional, channel 2 is not; queues q and other are there."""
    session = world.open(1, 2)
    session.feed(
        method(2, "queue.declare", queue="q")
        + method(2, "queue.declare", queue="other")
        + method(1, "tx.select")
    )
    assert session.names()[-1] == "tx.select-ok"
    return session


def ready(world: World, name: str = "q") -> int:
    return int(world.vhost.queues[name].ready_count)


def test_publishes_wait_for_the_commit(world: World, session: Session) -> None:
    """Rule TX-03: and come in order, returns before commit-ok (rule P-23)."""
    session.feed(
        publish(1, "q", b"1") + publish(1, "nowhere", b"2", mandatory=True) + publish(1, "q", b"3")
    )
    assert ready(world) == 0
    assert session.heard() == []
    session.send(1, "tx.commit")
    assert session.names() == ["basic.return", "tx.commit-ok"]
    bodies = [session.ask(2, "basic.get", queue="q", no_ack=True).body for _ in range(2)]
    assert bodies == [b"1", b"3"]


def test_publishes_are_checked_when_they_come(session: Session) -> None:
    """Rule TX-03."""
    session.feed(publish(1, "q", b"", exchange="nothing"))
    assert session.names() == ["channel.close"]


def test_queues_are_found_when_the_publish_comes(world: World, session: Session) -> None:
    """Rule TX-03: one declared later gets nothing, and mandatory is judged by then."""
    session.feed(publish(1, "late", mandatory=True))
    session.ask(2, "queue.declare", queue="late")
    session.send(1, "tx.commit")
    assert session.names() == ["basic.return", "tx.commit-ok"]
    assert ready(world, "late") == 0


def test_a_queue_deleted_in_between_ends_the_connection(world: World, session: Session) -> None:
    """Rule TX-03: nothing of the transaction happens."""
    session.feed(publish(1, "other") + publish(1, "q"))
    session.ask(2, "queue.delete", queue="q")
    session.send(1, "tx.commit")
    [close] = session.heard()
    assert close.arguments["reply_code"] == 506
    assert ready(world, "other") == 0


def test_time_to_live_begins_with_the_commit(world: World, session: Session) -> None:
    """Rule TX-11."""
    session.feed(publish(1, "q", b"", b"\x01\x00\x0250"))
    world.wait(10)
    session.send(1, "tx.commit")
    world.wait(0.049)
    assert ready(world) == 1
    world.wait(0.001)
    assert ready(world) == 0


def fill(session: Session, count: int) -> None:
    session.feed(b"".join(publish(2, "q", b"%d" % number) for number in range(1, count + 1)))


def get(session: Session, count: int) -> None:
    for _ in range(count):
        assert session.ask(1, "basic.get", queue="q").name == "basic.get-ok"


def test_settlements_wait_for_the_commit(world: World, session: Session) -> None:
    """Rules TX-04, TX-10."""
    fill(session, 4)
    get(session, 3)
    queue = world.vhost.queues["q"]
    session.feed(
        method(1, "basic.ack", delivery_tag=1)
        + method(1, "basic.nack", delivery_tag=2, requeue=True)
        + method(1, "basic.reject", delivery_tag=3)
    )
    assert (queue.ready_count, queue.unacked_count) == (1, 3)
    session.send(1, "tx.commit")
    assert (queue.ready_count, queue.unacked_count) == (2, 0)


def test_an_unknown_tag_is_an_error_at_once(session: Session) -> None:
    """Rule TX-04: and what is settled in the transaction is unknown already."""
    fill(session, 1)
    get(session, 1)
    session.send(1, "basic.ack", delivery_tag=1)
    session.send(1, "basic.ack", delivery_tag=1)
    assert session.names() == ["channel.close"]


def test_credit_returns_with_the_commit(session: Session) -> None:
    """Rule TX-10."""
    session.send(1, "basic.qos", prefetch_count=1)
    session.send(1, "basic.consume", queue="q", consumer_tag="t")
    fill(session, 2)
    session.heard()
    session.send(1, "basic.ack", delivery_tag=1)
    assert session.heard() == []
    session.send(1, "tx.commit")
    assert sorted(session.names()) == ["basic.deliver", "tx.commit-ok"]


def test_rollback_undoes_publishes_and_settlements(world: World, session: Session) -> None:
    """Rules TX-06, TX-07: the deliveries are unacked again, under their tags, not requeued."""
    fill(session, 3)
    get(session, 3)
    queue = world.vhost.queues["q"]
    session.feed(
        publish(1, "q", b"never")
        + method(1, "basic.ack", delivery_tag=3)
        + method(1, "basic.nack", delivery_tag=1, requeue=True)
    )
    assert session.ask(1, "tx.rollback").name == "tx.rollback-ok"
    assert (queue.ready_count, queue.unacked_count) == (0, 3)
    session.send(1, "basic.ack", delivery_tag=3, multiple=True)
    assert session.ask(1, "tx.commit").name == "tx.commit-ok"
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


@pytest.mark.parametrize("end", ["close", "error", "lost"])
def test_the_end_of_a_channel_undoes_its_transaction(
    world: World, session: Session, end: str
) -> None:
    """Rule TX-09: publishes are gone, deliveries go back, acked or not."""
    fill(session, 2)
    get(session, 2)
    session.feed(publish(1, "q", b"never") + method(1, "basic.ack", delivery_tag=1))
    if end == "close":
        session.send(1, "channel.close")
    elif end == "error":
        session.send(1, "basic.ack", delivery_tag=9)
    else:
        session.lose()

    queue = world.vhost.queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (2, 0)
    assert all(one.redelivered for one in queue.ready.messages())


def test_recovering_leaves_what_was_settled(world: World, session: Session) -> None:
    """Rule TX-10."""
    fill(session, 2)
    get(session, 2)
    session.send(1, "basic.ack", delivery_tag=1)
    assert session.ask(1, "basic.recover", requeue=True).name == "basic.recover-ok"
    queue = world.vhost.queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (1, 1)
    session.send(1, "tx.commit")
    assert (queue.ready_count, queue.unacked_count) == (1, 0)


def test_a_refusal_makes_the_commit_fail(world: World, session: Session) -> None:
    """Rules Q-87, TX-05: the rest has happened."""
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    session.ask(2, "queue.declare", queue="full", arguments=arguments)
    session.feed(publish(1, "full") + publish(1, "q"))
    session.send(1, "tx.commit")
    [close] = session.heard()
    assert close.arguments == {
        "reply_code": 406,
        "reply_text": "PRECONDITION_FAILED - partial tx completion",
        "class_id": 90,
        "method_id": 20,
    }
    assert ready(world) == 1


@pytest.mark.parametrize("name", ["tx.commit", "tx.rollback"])
def test_without_tx_select_there_is_nothing_to_end(session: Session, name: str) -> None:
    """Rule TX-02."""
    session.send(2, name)
    [close] = session.heard()
    assert close.arguments["reply_text"] == "PRECONDITION_FAILED - channel is not transactional"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("tx.select", "confirm.select", "cannot switch from tx to confirm mode"),
        ("confirm.select", "tx.select", "cannot switch from confirm to tx mode"),
    ],
)
def test_modes_do_not_mix(session: Session, first: str, second: str, text: str) -> None:
    """Rules CF-02, TX-01."""
    session.ask(2, first)
    assert session.ask(2, first).name == f"{first}-ok"
    session.send(2, second)
    [close] = session.heard()
    assert close.arguments["reply_text"] == f"PRECONDITION_FAILED - {text}"
