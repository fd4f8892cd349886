"""What was published and what was not: transactions, full queues; and what history lets go of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.core.message_commands import PublishRequest, publish_message
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.testing import Broker
    from broker.testing.history import Ledger


@pytest.fixture
def channel(leveret: Broker) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    channel = connection.channel()
    channel.queue_declare("q")
    yield channel
    if connection.is_open:
        connection.close()


def kinds(leveret: Broker) -> list[str]:
    return [one.kind for one in leveret.history.events]


# -- transactions


def test_a_transaction_is_published_when_it_is_committed(leveret: Broker, channel: Any) -> None:
    channel.tx_select()
    channel.basic_publish("", "q", b"a")
    channel.basic_publish("", "nowhere", b"b", mandatory=True)
    leveret.wait_idle()
    assert kinds(leveret) == ["uncommitted", "uncommitted"]
    assert leveret.history.uncommitted(queue="q").bodies == [b"a"]
    leveret.queue("q").assert_published(0)

    channel.tx_commit()
    assert kinds(leveret)[2:] == ["published", "published", "returned"]
    leveret.queue("q").assert_published(1).assert_ready(1)
    assert leveret.history.rolled_back() == ()


@pytest.mark.parametrize("how", ["rollback", "channel", "connection"])
def test_a_transaction_that_is_not_committed_was_not_published(
    leveret: Broker, channel: Any, how: str
) -> None:
    channel.tx_select()
    channel.basic_publish("", "q", b"a")
    if how == "rollback":
        channel.tx_rollback()
    elif how == "channel":
        channel.close()
    else:
        channel.connection.close()

    leveret.wait_for(lambda: leveret.history.check("rolled-back", 1, queue="q", body=b"a"))
    assert leveret.history.published() == ()
    leveret.queue("q").assert_published(0)
    assert "rolled-back   #1 b'a' to exchange '(default)' with key 'q' -> q" in (
        leveret.history.story()
    )


def test_after_a_rollback_the_next_transaction_is_its_own(leveret: Broker, channel: Any) -> None:
    channel.tx_select()
    channel.basic_publish("", "q", b"a")
    channel.tx_rollback()
    channel.basic_publish("", "q", b"b")
    channel.tx_commit()
    assert leveret.history.published().bodies == [b"b"]
    leveret.queue("q").assert_bodies("b")


def test_what_is_published_comes_before_what_comes_of_it(leveret: Broker, channel: Any) -> None:
    channel.basic_consume("q", lambda *_: None, auto_ack=True)
    channel.tx_select()
    channel.basic_publish("", "q", b"a")
    channel.tx_commit()
    leveret.wait_for(lambda: leveret.queue("q").assert_delivered(1))
    assert kinds(leveret) == ["uncommitted", "published", "delivered"]


# -- full queues


@pytest.mark.parametrize("mode", ["confirms", "tx", "plain"])
def test_what_a_full_queue_refuses_was_not_published(
    leveret: Broker, channel: Any, mode: str
) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare("full", arguments=full)
    channel.basic_publish("", "full", b"a")
    if mode == "confirms":
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "full", b"b")
    elif mode == "tx":
        channel.tx_select()
        channel.basic_publish("", "full", b"b")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.tx_commit()
    else:
        channel.basic_publish("", "full", b"b")

    leveret.wait_idle()
    leveret.queue("full").assert_published(1).assert_ready(1)
    assert leveret.history.published().bodies == [b"a"]
    assert leveret.history.turned_away(queue="full").bodies == [b"b"]
    assert len(leveret.history.refused()) == int(mode == "confirms")
    assert "turned-away   #2 b'b' in queue 'full'" in leveret.history.story("full")


def test_what_one_queue_refuses_and_another_takes_was_published(
    leveret: Broker, channel: Any
) -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    channel.queue_declare("full", arguments=full)
    for queue in ("q", "full"):
        channel.queue_bind(queue, "amq.fanout")

    channel.basic_publish("amq.fanout", "", b"a")
    leveret.wait_idle()
    assert leveret.history.published(exchange="amq.fanout").one().to == ("q", "full")
    leveret.queue("q").assert_published(1)
    leveret.queue("full").assert_published(0)


def test_what_comes_by_http_and_is_refused_was_not_published(leveret: Broker, channel: Any) -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    channel.queue_declare("full", arguments=full)

    def publish() -> bool:
        vhost = leveret.stage.node.vhosts["/"]
        actor = leveret.stage.node.own_actor(vhost)
        request = PublishRequest("", "full", b"\0\0", b"a", 100)
        return publish_message(vhost, actor, request).is_accepted

    assert not leveret.stage.call(publish)
    leveret.queue("full").assert_published(0)
    assert leveret.history.turned_away().bodies == [b"a"]


def test_a_dead_letter_that_comes_back_to_a_full_queue_takes_no_publish_back(
    leveret: Broker, channel: Any
) -> None:
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "loop"}
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare("loop", arguments={**full, **letters})
    channel.basic_publish("", "loop", b"a")
    method, _, _ = channel.basic_get("loop")
    channel.basic_publish("", "loop", b"b")
    channel.basic_reject(method.delivery_tag, requeue=False)
    leveret.wait_for(lambda: leveret.history.check("turned-away", 1))
    assert leveret.history.turned_away().bodies == [b"a"]
    assert leveret.history.published(queue="loop").bodies == [b"a", b"b"]


# -- what is let go of


def known_count(ledger: Ledger) -> int:
    numbered = sum(one is not None for each in ledger._to_confirm.values() for one in each)
    alike = sum(map(len, ledger._alike.values()))
    return len(ledger._by_content) + len(ledger._by_bytes) + alike + numbered


def test_clear_lets_go_of_messages_that_are_gone(leveret: Broker, channel: Any) -> None:
    """It forgot what had happened, and kept every message with its body."""
    ledger = leveret.stage.ledger
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", "q", b"%d" % number)
        channel.basic_get("q", auto_ack=True)

    leveret.wait_idle()
    assert known_count(ledger) >= 150
    leveret.history.clear()
    assert known_count(ledger) == 0
    assert leveret.history.events == ()


@pytest.mark.parametrize("place", ["ready", "unacked", "transaction", "stream", "dead"])
def test_clear_keeps_messages_that_are_still_there(
    leveret: Broker, channel: Any, place: str
) -> None:
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    channel.queue_declare("first", arguments=letters)
    channel.basic_publish("", "q", b"gone")
    channel.basic_get("q", auto_ack=True)
    if place == "stream":
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})

    if place == "transaction":
        channel.tx_select()

    queue = {"stream": "s", "dead": "first"}.get(place, "q")
    channel.basic_publish("", queue, b"kept")
    tag = 0
    if place in ("unacked", "dead"):
        tag = channel.basic_get(queue)[0].delivery_tag

    if place == "dead":
        channel.basic_reject(tag, requeue=False)

    leveret.wait_for(
        lambda: leveret.history.find("published") and leveret.queue("first").ready == 0
    )
    leveret.history.clear()
    if place == "transaction":
        channel.tx_commit()

    if place == "stream":
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("s", lambda *_: None, arguments={"x-stream-offset": "first"})
        channel.connection.process_data_events(0)
        leveret.wait_for(lambda: leveret.queue("s").assert_delivered(1))
    elif place == "unacked":
        channel.basic_ack(tag)
    else:
        leveret.wait_for(lambda: leveret.queue("q").ready == 1)
        channel.basic_get("q", auto_ack=True)

    kind = "acked" if place == "unacked" else "delivered"
    leveret.wait_for(lambda: leveret.history.check(kind, 1))
    message = leveret.history.find(kind).one().message
    assert message is not None
    assert (message.number, message.body) == (2, b"kept")


def test_clear_in_one_virtual_host_leaves_the_others_alone(leveret: Broker, channel: Any) -> None:
    channel.basic_publish("", "q", b"a")
    channel.basic_get("q", auto_ack=True)
    leveret.wait_idle()
    before = known_count(leveret.stage.ledger)
    with leveret.fresh_vhost() as other:
        other.history.clear()

    assert known_count(leveret.stage.ledger) == before
    leveret.queue("q").assert_published(1)
