"""The history of a broker under test: what it knows, and the stories that failures tell."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.testing import Broker


@pytest.fixture
def channel(leveret: Broker) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    channel = connection.channel()
    channel.queue_declare("dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", arguments=letters)
    yield channel
    if connection.is_open:
        connection.close()


def test_a_message_is_followed_from_publish_to_ack(leveret: Broker, channel: Any) -> None:
    properties = pika.BasicProperties(message_id="m1", headers={"tries": 2})
    channel.basic_publish("", "q", b'{"id": 1}', properties)
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    leveret.wait_idle()

    message = leveret.history.published().one().message
    assert message is not None
    assert (message.exchange, message.routing_key, message.routed_to) == ("", "q", ("q",))
    assert message.json() == {"id": 1}
    assert message.properties["message_id"] == "m1"
    assert message.headers == {"tries": 2}
    assert leveret.history.delivered(queue="q").one().message is message
    assert leveret.history.acked(queue="q").one().message is message
    leveret.queue("q").assert_published(1).assert_delivered(1).assert_acked(1).assert_empty()


@pytest.mark.parametrize(
    ("how", "kinds"),
    [
        pytest.param("nack", ["nacked", "dead-lettered"], id="nack"),
        pytest.param("reject", ["rejected", "dead-lettered"], id="reject"),
        pytest.param("requeue", ["nacked", "requeued"], id="nack-requeue"),
        pytest.param("close", ["requeued"], id="close"),
        pytest.param("recover", ["requeued"], id="recover"),
    ],
)
def test_each_way_to_give_a_delivery_up_is_told_apart(
    leveret: Broker, channel: Any, how: str, kinds: list[str]
) -> None:
    channel.basic_publish("", "q", b"hare")
    method, _, _ = channel.basic_get("q")
    tag = method.delivery_tag
    if how == "nack":
        channel.basic_nack(tag, requeue=False)
    elif how == "reject":
        channel.basic_reject(tag, requeue=False)
    elif how == "requeue":
        channel.basic_nack(tag)
    elif how == "recover":
        channel.basic_recover(requeue=True)
    else:
        channel.close()

    leveret.wait_idle()
    assert [event.kind for event in leveret.history.events][2:] == kinds
    if "dead-lettered" in kinds:
        leveret.queue("q").assert_dead_lettered(1, reason="rejected", to="dead")
        leveret.queue("dead").assert_bodies(b"hare")
        assert len({id(event.message) for event in leveret.history.events}) == 1


def test_what_reaches_no_queue_is_returned_or_lost(leveret: Broker, channel: Any) -> None:
    channel.basic_publish("amq.direct", "nowhere", b"lost")
    channel.basic_publish("amq.direct", "nowhere", b"back", mandatory=True)
    leveret.wait_idle()

    exchange = leveret.exchange("amq.direct")
    exchange.assert_published(2, routing_key="nowhere").assert_unroutable(1).assert_returned(1)
    assert leveret.history.unroutable().bodies == [b"lost"]
    assert leveret.history.returned().bodies == [b"back"]


def test_a_fan_out_is_one_publish_in_many_queues(leveret: Broker, channel: Any) -> None:
    for queue in ("q", "dead"):
        channel.queue_bind(queue, "amq.fanout")

    channel.basic_publish("amq.fanout", "", b"hare")
    leveret.wait_idle()

    assert set(leveret.history.published().one().to) == {"q", "dead"}
    for queue in ("q", "dead"):
        leveret.queue(queue).assert_published(1).assert_ready(1)


def test_deaths_by_time_and_by_length_say_why(leveret: Broker, channel: Any) -> None:
    channel.queue_declare("short", arguments={"x-max-length": 1, "x-message-ttl": 60_000})
    for body in (b"first", b"second"):
        channel.basic_publish("", "short", body)

    leveret.wait_idle()
    leveret.clock.advance(61)

    assert leveret.history.dropped(queue="short", reason="maxlen").bodies == [b"first"]
    assert leveret.history.expired(queue="short").bodies == [b"second"]
    leveret.queue("short").assert_expired(1).assert_empty()


def test_confirms_and_refusals_are_told(leveret: Broker, channel: Any) -> None:
    channel.queue_declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"taken")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "full", b"refused")

    assert leveret.history.confirmed().bodies == [b"taken"]
    assert leveret.history.refused(queue="full").bodies == [b"refused"]


def test_quorum_queues_and_streams_have_the_same_history(leveret: Broker, channel: Any) -> None:
    for queue_type in ("quorum", "stream"):
        channel.queue_declare(queue_type, durable=True, arguments={"x-queue-type": queue_type})
        channel.basic_publish("", queue_type, b"hare")

    method, _, _ = channel.basic_get("quorum")
    channel.basic_nack(method.delivery_tag)
    method, _, _ = channel.basic_get("quorum")
    channel.basic_ack(method.delivery_tag)
    channel.basic_qos(prefetch_count=1)
    for method, _, _ in channel.consume("stream", arguments={"x-stream-offset": "first"}):
        channel.basic_ack(method.delivery_tag)
        break

    leveret.wait_for(lambda: leveret.history.acked(queue="stream"))
    quorum = leveret.queue("quorum").assert_delivered(2).assert_requeued(1).assert_acked(1)
    assert quorum.delivered()[1].is_redelivered
    assert leveret.history.delivered(queue="stream").one().body == b"hare"
    assert len(leveret.history.published()) == 2


def test_a_failure_tells_the_story(leveret: Broker, channel: Any) -> None:
    channel.basic_publish("", "q", b"hare")
    method, _, _ = channel.basic_get("q")
    channel.basic_nack(method.delivery_tag, requeue=False)
    channel.basic_publish("", "q", b"x" * 100)
    leveret.wait_idle()

    with pytest.raises(AssertionError) as failure:
        leveret.queue("q").assert_acked(2)

    text = str(failure.value)
    assert text.startswith("expected 2 acked, found 0 (queue='q')\nqueue 'q' now: 1 ready (b'xxx")
    assert "published     #1 b'hare' to exchange '(default)' with key 'q' -> q" in text
    assert "delivered     #1 b'hare' from queue 'q' to basic.get (tag 1)" in text
    assert "nacked        #1 b'hare' by basic.get of queue 'q' (tag 1)" in text
    assert "dead-lettered #1 b'hare' from queue 'q' (rejected) -> dead" in text
    assert "... (100 bytes)" in text


@pytest.mark.parametrize(
    ("assertion", "text"),
    [
        pytest.param("assert_empty()", "queue 'q': expected it to be empty", id="empty"),
        pytest.param("assert_ready(3)", "queue 'q': expected 3 ready", id="ready"),
        pytest.param("assert_unacked(1)", "queue 'q': expected 1 unacked", id="unacked"),
        pytest.param("assert_consumers(1)", "queue 'q': expected 1 consumers", id="consumers"),
        pytest.param("assert_bodies('b')", "expected ready [b'b'], found [b'a']", id="bodies"),
        pytest.param("assert_requeued()", "expected at least 1 requeued, found 0", id="requeued"),
        pytest.param("assert_nacked()", "expected at least 1 nacked, found 0", id="nacked"),
        pytest.param("assert_rejected(1)", "expected 1 rejected, found 0", id="rejected"),
        pytest.param("assert_expired(1)", "expected 1 expired, found 0", id="expired"),
        pytest.param(
            "assert_dead_lettered(1, reason='expired')",
            "expected 1 dead-lettered, found 0 (queue='q', reason='expired')",
            id="dead-lettered",
        ),
    ],
)
def test_each_assertion_can_fail(leveret: Broker, channel: Any, assertion: str, text: str) -> None:
    channel.basic_publish("", "q", b"a")
    leveret.wait_idle()
    name, _, rest = assertion.partition("(")
    arguments, keywords = eval(f"(lambda *a, **k: (a, k))({rest}")  # noqa: S307 - written above

    with pytest.raises(AssertionError) as failure:
        getattr(leveret.queue("q"), name)(*arguments, **keywords)

    assert text in str(failure.value)
    assert "published     #1 b'a'" in str(failure.value)


def test_a_queue_that_is_not_there_is_said_to_be_so(leveret: Broker, channel: Any) -> None:
    queue = leveret.queue("nobody")
    assert (queue.exists, queue.ready, queue.unacked, queue.consumers) == (False, 0, 0, [])

    with pytest.raises(AssertionError, match="queue 'nobody' is not there; there are: dead, q"):
        queue.assert_exists()


def test_a_wrong_filter_is_no_silent_success(leveret: Broker) -> None:
    with pytest.raises(TypeError, match="there is no filter 'que'"):
        leveret.history.published(que="q")


def test_history_begins_anew_when_it_is_cleared(leveret: Broker, channel: Any) -> None:
    channel.basic_publish("", "q", b"a")
    leveret.wait_idle()
    leveret.history.clear()
    assert leveret.history.story() == "What has happened: nothing"

    channel.basic_get("q", auto_ack=True)
    assert leveret.history.delivered().one().body == b"a"
    assert leveret.history.delivered().one().is_automatic


def test_a_condition_may_use_a_client_of_the_broker(leveret: Broker, channel: Any) -> None:
    channel.basic_publish("", "q", b"a")

    leveret.wait_for(lambda: channel.basic_get("q", auto_ack=True)[2] == b"a")


@pytest.mark.asyncio
async def test_a_condition_is_looked_at_where_it_is_awaited(leveret: Broker) -> None:
    here = threading.get_ident()

    await leveret.wait_for(lambda: threading.get_ident() == here)
