"""Consumers, replies and what they are counted for (sections CO, DR, TX and OR)."""

from __future__ import annotations

import pytest

from broker.core.output import OUTPUT_TURN_BYTES_MAX
from broker.core.policy import policy_from_plain
from broker.core.settings import NodeSettings
from tests.helpers.core import raw_properties
from tests.helpers.session import (
    Session,
    World,
    assert_connection_closing,
    assert_sent,
    handshake,
    method,
    publish,
)

ALIAS = "amq.rabbitmq.reply-to"


def requester(world: World) -> tuple[Session, str]:
    """A client that waits for replies on channel 1, and the name that they have to go to."""
    session = world.open(1, 2)
    session.ask(1, "basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    [name] = world.vhost.reply_queues
    return session, name


# -- how many


@pytest.mark.parametrize("queue", ["q", ALIAS])
def test_a_consumer_too_many_is_530(queue: str) -> None:
    """Rules CO-04, CO-01: a channel has its own count, and a cancelled consumer leaves it."""
    session = World(NodeSettings(consumers_per_channel_max=2)).open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    for channel in (1, 2):
        for tag in ("a", "b"):
            answer = session.ask(channel, "basic.consume", queue="q", consumer_tag=tag)
            assert answer.name == "basic.consume-ok"

    session.ask(1, "basic.cancel", consumer_tag="a")
    session.ask(1, "basic.consume", queue="q", consumer_tag="c")
    session.send(1, "basic.consume", queue=queue, consumer_tag="d", no_ack=True)
    text = "NOT_ALLOWED - reached maximum (2) of consumers per channel"
    assert_connection_closing(session, 530, text, (60, 20))


def test_a_tag_in_use_is_told_before_the_number_of_consumers() -> None:
    """Rules CO-01, CO-03, CO-04."""
    session = World(NodeSettings(consumers_per_channel_max=1)).open(1)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "basic.consume", queue="q", consumer_tag="c")
    session.send(1, "basic.consume", queue="nowhere", consumer_tag="c")
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'c'"
    assert_connection_closing(session, 530, text, (60, 20))


# -- how much


def test_a_client_that_does_not_read_is_not_given_everything() -> None:
    """Rule CO-14: the rest stays in the queue, for others too, until it reads again."""
    world = World()
    slow = world.open(1)
    slow.ask(1, "queue.declare", queue="q")
    slow.ask(1, "basic.consume", queue="q", no_ack=True)
    slow.connection.pause_output()
    feeder = world.open(1)
    body = b"x" * 10_000
    for _ in range(100):
        feeder.feed(publish(1, "q", body))

    written = len(slow.take_bytes())
    assert written <= OUTPUT_TURN_BYTES_MAX
    declared = feeder.ask(1, "queue.declare", queue="q", passive=True)
    left = declared.arguments["message_count"]
    assert isinstance(left, int)
    assert left >= 100 - OUTPUT_TURN_BYTES_MAX // len(body)
    for _ in range(40):
        assert feeder.ask(1, "basic.get", queue="q", no_ack=True).name == "basic.get-ok"

    slow.connection.resume_output()
    world.settle()
    assert len(slow.heard()) == left - 40


def test_a_fast_publisher_is_told_nothing() -> None:
    """Rule MA-07: without an alarm there is neither a notice nor a stop."""
    session = World().open(1, greeting=handshake(capabilities=["connection.blocked"]))
    session.ask(1, "queue.declare", queue="q")
    session.feed(publish(1, "q") * 20_000)
    assert session.take_bytes() == b""
    assert session.link.calls == []
    declared = session.ask(1, "queue.declare", queue="q", passive=True)
    assert declared.arguments["message_count"] == 20_000


@pytest.mark.parametrize("capabilities", [[], ["consumer_cancel_notify"]], ids=["no", "yes"])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_delivery_that_is_too_old_closes_the_channel_and_cancels_nothing(
    kind: str, capabilities: list[str]
) -> None:
    """Rule MA-11: whether or not the client understands a cancel; the message comes back."""
    world = World(NodeSettings(consumer_timeout_ms=60_000))
    session = world.open(1, greeting=handshake(capabilities=capabilities))
    session.ask(1, "queue.declare", queue="q", durable=True, arguments={"x-queue-type": kind})
    session.feed(publish(1, "q") + method(1, "basic.consume", queue="q"))
    session.take_bytes()
    world.wait(180.0)
    [close] = session.heard()
    assert (close.name, close.arguments["reply_code"]) == ("channel.close", 406)
    assert world.vhost.queues["q"].ready_count == 1


# -- replies


def test_a_reply_consumer_is_counted_and_listed_nowhere() -> None:
    """Rule DR-04."""
    world = World()
    session, name = requester(world)
    for queue in ("q", "other"):
        session.ask(2, "queue.declare", queue=queue)
        declared = session.ask(2, "queue.declare", queue=queue, passive=True)
        assert declared.arguments["consumer_count"] == 0

    assert sorted(world.vhost.queues) == ["other", "q"]
    world.vhost.queues_max = 2
    other = world.open(1)
    answer = other.ask(1, "basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    assert answer.name == "basic.consume-ok"
    assert name not in world.vhost.queues


def test_a_reply_has_no_time_to_live() -> None:
    """Rule DR-11: what waits for a slow requester stays, whatever its expiration."""
    world = World()
    session, name = requester(world)
    session.connection.pause_output()
    server = world.open(1)
    for expiration in ("0", "100"):
        server.feed(publish(1, name, b"pong", raw_properties(expiration=expiration)))

    world.wait(60.0)
    session.connection.resume_output()
    world.settle()
    assert [one.name for one in session.heard()] == ["basic.deliver"] * 2


def test_replies_that_nobody_takes_are_not_dead_lettered() -> None:
    """Rules DR-07, DR-11: no policy is for them, and what was under way is lost."""
    world = World()
    session, name = requester(world)
    definition = {"dead-letter-exchange": "amq.fanout", "message-ttl": 1}
    world.vhost.set_policy(policy_from_plain("p", {"pattern": "reply", "definition": definition}))
    server = world.open(1)
    server.ask(1, "queue.declare", queue="grave")
    server.ask(1, "queue.bind", queue="grave", exchange="amq.fanout")
    session.connection.pause_output()
    server.ask(1, "confirm.select")
    server.feed(publish(1, name, b"pong") * 3)
    world.wait(1.0)
    session.lose()
    server.feed(publish(1, name, b"pong"))
    assert set(server.names()) == {"basic.ack"}
    declared = server.ask(1, "queue.declare", queue="grave", passive=True)
    assert declared.arguments["message_count"] == 0
    again, new_name = requester(world)
    assert again.take_bytes() == b""
    assert new_name != name


# -- transactions and order


def test_what_is_sent_behind_a_commit_waits_for_it() -> None:
    """Rules TX-08, CH-12, OR-02: RabbitMQ has 504 for it where a commit takes its time."""
    session = World().open(1)
    session.ask(1, "queue.declare", queue="q", durable=True)
    session.ask(1, "tx.select")
    message = publish(1, "q", b"hare", b"\x10\x00\x02")
    session.feed(
        message * 3
        + method(1, "tx.commit")
        + method(1, "queue.declare", queue="q", passive=True)
        + message
        + method(1, "tx.commit")
        + method(1, "queue.purge", queue="q")
    )
    commit, declared, again, purged = session.heard()
    assert (commit.name, again.name) == ("tx.commit-ok", "tx.commit-ok")
    assert declared.arguments["message_count"] == 3
    assert purged.arguments == {"message_count": 4}


@pytest.mark.parametrize("is_same_connection", [True, False])
def test_what_one_channel_published_another_sees(is_same_connection: bool) -> None:
    """Rules OR-01, OR-03, OR-04: at once, without a confirm, in order."""
    world = World()
    session = world.open(1, 2)
    reader = session if is_same_connection else world.open(2)
    session.ask(1, "queue.declare", queue="q")
    for number in range(5):
        session.feed(publish(1, "q", b"%d" % number))
        got = reader.ask(2, "basic.get", queue="q", no_ack=True)
        assert (got.name, got.body) == ("basic.get-ok", b"%d" % number)

    session.feed(publish(1, "q", b"a") + publish(1, "q", b"b"))
    reader.send(2, "basic.consume", queue="q", no_ack=True)
    assert [one.body for one in reader.heard()[1:]] == [b"a", b"b"]


def test_a_confirm_is_no_condition_for_being_seen() -> None:
    """Rules OR-02, OR-04: nor is a transaction of somebody else."""
    session = World().open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "tx.select")
    session.feed(publish(1, "q"))
    assert session.ask(2, "basic.get", queue="q").name == "basic.get-empty"
    session.feed(method(1, "tx.commit") + method(2, "basic.get", queue="q"))
    assert_sent(session, "1 tx.commit-ok", "2 basic.get-ok")
