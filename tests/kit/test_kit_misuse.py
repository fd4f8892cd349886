"""What a test gets wrong, and what it is told."""

from __future__ import annotations

import re
from typing import Any

import pytest

from broker.testing import Broker
from tests.helpers.untyped import pika


@pytest.mark.parametrize("config", [5, [], "broker.yaml"], ids=repr)
def test_a_configuration_is_a_mapping(config: Any) -> None:
    with pytest.raises(TypeError, match="config is a mapping as in the configuration file, not"):
        Broker(config)


def test_a_release_is_a_text() -> None:
    release: Any = 4.3
    with pytest.raises(TypeError, match=r'compat is a text such as "rabbitmq-4.3", not 4.3'):
        Broker(compat=release)


def test_a_release_is_named_once() -> None:
    with pytest.raises(ValueError, match=r"compat is rabbitmq-4.3, and .* rabbitmq: '4.0'"):
        Broker({"compatibility": {"rabbitmq": "4.0"}}, compat="rabbitmq-4.3")

    Broker({"compatibility": {"rabbitmq": "4.3"}}, compat="rabbitmq-4.3")


@pytest.mark.parametrize(
    ("kind", "filters", "text"),
    [
        pytest.param("dead_lettered", {}, "is 'dead-lettered' meant", id="kind"),
        pytest.param("dead-lettered", {"reason": "timeout"}, "nothing dies of", id="reason"),
        pytest.param("published", {"body": 5}, "body is bytes or a text, not 5", id="body"),
        pytest.param("published", {"queue": 5}, "queue is a text, not 5", id="queue"),
    ],
)
def test_what_nothing_can_answer_is_not_asked(kind: str, filters: Any, text: str) -> None:
    with Broker() as broker, pytest.raises((TypeError, ValueError), match=text):
        broker.history.find(kind, **filters)


def test_there_are_no_negative_numbers_of_events() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="cannot be -1"):
        broker.queue("q").assert_acked(-1)


@pytest.mark.parametrize(
    ("definitions", "vhost", "text"),
    [
        ({"queues": [{"name": "q", "vhost": "shop"}]}, "nope", "vhost 'nope'; there are: shop"),
        ({"queuse": []}, "", "queuse is no section of them; is queues meant?"),
    ],
)
def test_definitions_have_what_is_asked_of_them(definitions: Any, vhost: str, text: str) -> None:
    with Broker() as broker, pytest.raises(ValueError, match=text):
        broker.topology.load(definitions, vhost=vhost)


def test_a_queue_without_a_name_is_told() -> None:
    with Broker() as broker, pytest.raises(ValueError, match=r"queues\[0\] has no name"):
        broker.topology.diff({"queues": [{"durable": True}]})


# -- names that nothing has


@pytest.mark.parametrize(
    ("question", "text"),
    [
        pytest.param(
            lambda broker: broker.exchange("ordesr").assert_published(0),
            "there is no exchange 'ordesr', nor was there one; is 'orders' meant?",
            id="exchange",
        ),
        pytest.param(
            lambda broker: broker.exchange("ordesr").assert_unroutable(0),
            "there is no exchange 'ordesr', nor was there one; is 'orders' meant?",
            id="unroutable",
        ),
        pytest.param(
            lambda broker: broker.consumer("worker-l").assert_delivered(0),
            "there is no consumer 'worker-l', nor was there one; is 'worker-1' meant?",
            id="consumer",
        ),
        pytest.param(
            lambda broker: broker.wait_idle("bilss", timeout=0.1),
            "not idle after 0.1 s: there is no queue 'bilss', nor was there one; is 'bills' meant?",
            id="wait-idle",
        ),
        pytest.param(
            lambda broker: broker.wait_idle("bills", "bilss", timeout=0.1),
            "there is no queue 'bilss', nor was there one",
            id="wait-idle-for-two",
        ),
    ],
)
def test_a_name_that_nothing_ever_had_is_no_success(question: Any, text: str) -> None:
    with Broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "fanout")
        channel.queue_declare("bills")
        channel.basic_consume("bills", lambda *_: None, consumer_tag="worker-1")
        with pytest.raises(AssertionError, match=re.escape(text)):
            question(broker)

        broker.exchange("").assert_published(0)
        broker.exchange("orders").assert_published(0)
        broker.consumer("worker-1").assert_delivered(0)
        broker.wait_idle("bills")


def test_what_is_gone_can_be_asked_for(leveret: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "fanout")
        channel.queue_declare("bills")
        channel.queue_bind("bills", "orders")
        tag = channel.basic_consume("bills", lambda *_: None, auto_ack=True)
        channel.basic_publish("orders", "", b"x")
        leveret.wait_for(lambda: leveret.queue("bills").assert_delivered(1))
        channel.queue_delete("bills")
        channel.exchange_delete("orders")

    leveret.exchange("orders").assert_published(1).assert_returned(0)
    leveret.consumer(tag).assert_delivered(1).assert_requeued(0)
    leveret.wait_idle("bills")


# -- after the end


def test_after_its_end_a_broker_tells_what_has_happened() -> None:
    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            channel.basic_publish("", "q", b"x")
            channel.basic_get("q", auto_ack=True)

        broker.wait_idle()

    broker.queue("q").assert_published(1).assert_delivered(1).assert_acked(0)
    assert broker.history.published(queue="q").one().body == b"x"
    with pytest.raises(AssertionError, match="expected 2 published, found 1") as failed:
        broker.queue("q").assert_published(2)

    assert "queue 'q': the broker has ended" in str(failed.value)
    assert "delivered     #1 b'x'" in str(failed.value)
    with pytest.raises(AssertionError, match="there is no queue 'p', nor was there one"):
        broker.queue("p").assert_published(0)

    broker.history.clear()
    assert broker.history.events == ()


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(lambda broker: broker.queue("q").ready, id="ready"),
        pytest.param(lambda broker: broker.queue("q").assert_empty(), id="empty"),
        pytest.param(lambda broker: broker.queue("q").exists, id="exists"),
        pytest.param(lambda broker: broker.exchange("").exists, id="exchange"),
        pytest.param(lambda broker: broker.queues, id="queues"),
        pytest.param(lambda broker: broker.connections, id="connections"),
        pytest.param(lambda broker: broker.url, id="url"),
        pytest.param(lambda broker: broker.wait_idle(), id="wait-idle"),
        pytest.param(lambda broker: broker.clock.advance(1), id="clock"),
        pytest.param(lambda broker: broker.faults.stall(), id="faults"),
        pytest.param(lambda broker: broker.topology.snapshot(), id="topology"),
    ],
)
def test_after_its_end_a_broker_does_not_tell_how_things_are(question: Any) -> None:
    with Broker() as broker:
        pass

    with pytest.raises(RuntimeError, match=r"the broker is not running: it has ended. What has"):
        question(broker)
