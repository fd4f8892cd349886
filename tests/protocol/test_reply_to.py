"""Direct reply-to, seen from the wire (section DR)."""

from __future__ import annotations

import pytest

from tests.helpers.session import (
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    method,
    publish,
    text_property,
)

ALIAS = "amq.rabbitmq.reply-to"
REPLY_TO_BIT = 9
BASIC_CONSUME = (60, 20)
BASIC_PUBLISH = (60, 40)
QUEUE_BIND = (50, 20)
QUEUE_DECLARE = (50, 10)


def request(channel: int, queue: str) -> bytes:
    return publish(channel, queue, b"ping", text_property(REPLY_TO_BIT, ALIAS))


def requester(world: World) -> Session:
    """A client that waits for replies on channel 1."""
    session = world.open(1)
    answer = session.ask(1, "basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    assert answer.name == "basic.consume-ok"
    return session


def reply_name(session: Session) -> str:
    """The name that a request of this client carries to whoever serves it."""
    server = session.world.open(1)
    queue = str(server.ask(1, "queue.declare", exclusive=True).arguments["queue"])
    session.feed(request(1, queue))
    server.send(1, "basic.get", queue=queue, no_ack=True)
    [got] = server.heard()
    flags, size = got.properties[:2], got.properties[2]
    assert flags == (1 << REPLY_TO_BIT).to_bytes(2, "big")
    return got.properties[3 : 3 + size].decode()


def test_a_reply_reaches_the_channel_that_asked() -> None:
    """Rules DR-02, DR-05, DR-06: numbered with the channel's other deliveries."""
    world = World()
    session = requester(world)
    name = reply_name(session)
    assert name.startswith(f"{ALIAS}.")
    assert len(name) <= 255
    server = world.open(1)
    server.feed(publish(1, name, b"pong"))
    [reply] = session.heard()
    assert reply.name == "basic.deliver"
    assert reply.body == b"pong"
    assert reply.arguments == {
        "consumer_tag": "r",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": name,
    }


def test_a_reply_counts_as_routed_even_when_nobody_waits_any_more() -> None:
    """Rules DR-06, DR-07: dropped and confirmed; what is no generated name is returned."""
    world = World()
    session = requester(world)
    name = reply_name(session)
    server = world.open(1)
    assert server.ask(1, "confirm.select").name == "confirm.select-ok"
    session.lose()
    server.feed(publish(1, name, b"late", mandatory=True))
    assert server.names() == ["basic.ack"]
    server.feed(publish(1, f"{ALIAS}.x", b"forged", mandatory=True))
    assert server.names() == ["basic.return", "basic.ack"]
    server.feed(publish(1, ALIAS, b"to the alias", mandatory=True))
    assert server.names() == ["basic.return", "basic.ack"]


def test_a_cancelled_reply_consumer_makes_room_for_another_with_another_name() -> None:
    """Rule DR-03."""
    world = World()
    session = requester(world)
    first = reply_name(session)
    assert session.ask(1, "basic.cancel", consumer_tag="r").name == "basic.cancel-ok"
    assert world.vhost.reply_queues == {}
    assert session.ask(1, "basic.consume", queue=ALIAS, no_ack=True).name == "basic.consume-ok"
    assert reply_name(session) != first


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param({"queue": ALIAS}, "reply consumer cannot acknowledge", id="DR-01-with-acks"),
        pytest.param(
            {"queue": ALIAS, "no_ack": True}, "reply consumer already set", id="DR-01-second"
        ),
        pytest.param(
            {"queue": ALIAS, "no_ack": True, "consumer_tag": "r"},
            "reply consumer already set",
            id="DR-01-second-under-its-tag",
        ),
    ],
)
def test_a_channel_has_one_reply_consumer_without_acknowledgements(
    arguments: dict[str, object], text: str
) -> None:
    session = requester(World())
    session.send(1, "basic.consume", **arguments)
    assert_channel_closed(session, 1, 406, f"PRECONDITION_FAILED - {text}", BASIC_CONSUME)


def test_the_tag_of_the_reply_consumer_is_in_use_for_queues() -> None:
    """Rules DR-01, CO-03; RabbitMQ would have two consumers of one tag."""
    session = requester(World())
    assert session.ask(1, "queue.declare", queue="q").name == "queue.declare-ok"
    session.send(1, "basic.consume", queue="q", consumer_tag="r")
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'r'"
    assert_connection_closing(session, 530, text, BASIC_CONSUME)


def test_a_request_needs_a_reply_consumer_on_its_own_channel() -> None:
    """Rules P-06, DR-09."""
    session = requester(World())
    assert session.ask(2, "channel.open").name == "channel.open-ok"
    session.feed(request(2, "anywhere"))
    text = "PRECONDITION_FAILED - fast reply consumer does not exist"
    assert_channel_closed(session, 2, 406, text, BASIC_PUBLISH)


def test_declaring_a_reply_queue_tells_whether_somebody_waits() -> None:
    """Rule DR-08: flags and arguments are not looked at."""
    world = World()
    session = requester(world)
    name = reply_name(session)
    other = world.open(1)
    for asked in (name, ALIAS):
        answer = other.ask(1, "queue.declare", queue=asked, passive=True, durable=True)
        expected = {"queue": asked, "message_count": 0, "consumer_count": 1}
        assert answer.arguments == expected

    altered = name[:-5] + "AAAAA"
    other.send(1, "queue.declare", queue=altered, passive=True)
    text = f"NOT_FOUND - no queue '{altered}' in vhost '/'"
    assert_channel_closed(other, 1, 404, text, QUEUE_DECLARE)


def test_methods_that_want_a_queue_do_not_find_one() -> None:
    """Rule DR-10: refused, or answered without effect."""
    world = World()
    session = requester(world)
    name = reply_name(session)
    other = world.open(1, 2, 3)
    assert other.ask(1, "queue.purge", queue=name).arguments == {"message_count": 0}
    assert other.ask(1, "queue.delete", queue=name).arguments == {"message_count": 0}
    other.feed(publish(1, name, b"still here"))
    assert [one.body for one in session.heard()] == [b"still here"]
    other.send(1, "queue.bind", queue=name, exchange="amq.direct")
    text = "cannot bind or unbind to a volatile (direct reply-to) queue"
    assert_channel_closed(other, 1, 403, f"ACCESS_REFUSED - {text}", QUEUE_BIND)
    other.send(2, "basic.consume", queue=name, no_ack=True)
    text = f"only creator channel may consume from queue '{name}' in vhost '/'"
    assert_channel_closed(other, 2, 406, f"PRECONDITION_FAILED - {text}", BASIC_CONSUME)
    other.send(3, "basic.get", queue=name)
    [close] = other.heard()
    text = f"basic.get not supported by volatile queue '{name}' in vhost '/'"
    assert close.arguments["reply_text"] == f"NOT_IMPLEMENTED - {text}"


def test_the_deleter_hears_of_the_deletion_before_its_own_consumer_does() -> None:
    """Rules Q-53, OR-05: py-amqp gives up on a cancel that comes in between."""
    session = World().open(1)
    session.feed(method(1, "queue.declare", queue="q") + method(1, "basic.consume", queue="q"))
    session.heard()
    session.send(1, "queue.delete", queue="q")
    assert session.names() == ["queue.delete-ok", "basic.cancel"]
