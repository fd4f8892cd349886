"""What a test gets wrong, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from broker.testing import Broker


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
