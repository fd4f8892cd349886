"""The firehose: what a traced virtual host tells, to whom, and that it can be switched off.

Rule E-135; the headers are those of live RabbitMQ 3.10 and 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.wire.properties import parse_properties
from broker.wire.tables import Field
from tests.helpers.core import plain_headers, raw_properties
from tests.helpers.session import World, publish

if TYPE_CHECKING:
    from tests.helpers.session import Heard, Session


class Scene:
    """A traced virtual host, where ``q`` is bound to amq.direct with ``k``.

    ``traces`` gets all that is told, and is read on a connection of its own.
    """

    def __init__(self) -> None:
        self.world = World()
        self.client: Session = self.world.open(3, 5)
        self.reader: Session = self.world.open(1)
        for queue in ("traces", "q"):
            self.client.ask(3, "queue.declare", queue=queue)

        self.client.ask(
            3, "queue.bind", queue="traces", exchange="amq.rabbitmq.trace", routing_key="#"
        )
        self.client.ask(3, "queue.bind", queue="q", exchange="amq.direct", routing_key="k")
        self.switch(True)

    def switch(self, is_on: bool) -> None:
        self.world.node.set_tracing(self.world.vhost, is_on)

    def publish(self, key: str, exchange: str = "amq.direct", raw: bytes = b"\0\0") -> None:
        self.client.feed(publish(3, key, b"hare", raw, exchange=exchange))

    def traces(self) -> list[Heard]:
        """What was told since the last look."""
        self.world.wait(0)
        found: list[Heard] = []
        while True:
            one = self.reader.ask(1, "basic.get", queue="traces", no_ack=True)
            if one.name == "basic.get-empty":
                return found

            found.append(one)

    def keys(self) -> list[object]:
        return [one.arguments["routing_key"] for one in self.traces()]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_publish_is_told_with_all_about_it(scene: Scene) -> None:
    """Rule E-135."""
    raw = raw_properties(
        content_type="t",
        priority=3,
        headers={"CC": ["c"], "BCC": ["z"], "h": 1},
    )
    scene.publish("k", raw=raw)
    [told] = scene.traces()
    assert (told.arguments["exchange"], told.arguments["routing_key"], told.body) == (
        "amq.rabbitmq.trace",
        "publish.amq.direct",
        b"hare",
    )
    assert plain_headers(told.properties) == {
        "exchange_name": "amq.direct",
        "routing_keys": ["k", "c", "z"],
        "properties": {"content_type": "t", "priority": 3, "headers": {"CC": ["c"], "h": 1}},
        "node": "leveret@localhost",
        "vhost": "/",
        "connection": scene.client.connection.name,
        "channel": 3,
        "user": "guest",
        "routed_queues": ["q"],
    }
    headers = parse_properties(told.properties).headers()
    assert headers["channel"] == Field("I", 3)
    assert list(parse_properties(told.properties).to_plain()) == ["headers"]


def test_a_publish_that_reaches_nothing_is_told_too(scene: Scene) -> None:
    scene.publish("nowhere")
    [told] = scene.traces()
    assert plain_headers(told.properties)["routed_queues"] == []


@pytest.mark.parametrize("way", ["get", "consume"])
def test_a_delivery_is_told(scene: Scene, way: str) -> None:
    """Rule E-135."""
    scene.publish("k")
    assert scene.keys() == ["publish.amq.direct"]
    if way == "get":
        scene.client.ask(5, "basic.get", queue="q")
    else:
        scene.client.send(5, "basic.consume", queue="q")
        assert scene.client.names() == ["basic.consume-ok", "basic.deliver"]

    [told] = scene.traces()
    assert told.arguments["routing_key"] == "deliver.q"
    assert told.body == b"hare"
    headers = plain_headers(told.properties)
    assert (headers["redelivered"], headers["channel"]) == (0, 5)
    assert "routed_queues" not in headers


def test_a_redelivery_says_so(scene: Scene) -> None:
    """Rule E-135."""
    scene.publish("k")
    tag = scene.client.ask(3, "basic.get", queue="q").arguments["delivery_tag"]
    scene.client.send(3, "basic.nack", delivery_tag=tag, requeue=True)
    scene.client.ask(3, "basic.get", queue="q")
    told = scene.traces()[-1]
    assert plain_headers(told.properties)["redelivered"] == 1


def test_every_delivery_to_a_consumer_is_told_in_order(scene: Scene) -> None:
    scene.client.send(3, "basic.consume", queue="q", no_ack=True)
    for _ in range(3):
        scene.publish("k")

    assert scene.client.names() == ["basic.consume-ok"] + ["basic.deliver"] * 3
    assert scene.keys() == ["publish.amq.direct", "deliver.q"] * 3


def test_the_deliveries_of_traces_are_not_traced(scene: Scene) -> None:
    """Rule E-135."""
    scene.client.send(3, "basic.consume", queue="traces", no_ack=True)
    scene.publish("nowhere")
    scene.world.wait(0)
    assert scene.client.names() == ["basic.consume-ok", "basic.deliver"]
    scene.world.wait(1)
    assert scene.client.names() == []


def test_switched_off_nothing_is_told(scene: Scene) -> None:
    """Rule E-135."""
    scene.client.send(3, "basic.consume", queue="q", no_ack=True)
    scene.publish("k")
    assert len(scene.keys()) == 2
    scene.switch(False)
    for _ in range(300):
        scene.publish("k")

    assert scene.keys() == []


def test_switched_on_again_what_was_remembered_counts_no_more() -> None:
    scene = Scene()
    scene.switch(False)
    scene.client.send(3, "basic.consume", queue="q", no_ack=True)
    scene.publish("k")
    scene.switch(True)
    scene.publish("k")
    assert scene.keys() == ["publish.amq.direct", "deliver.q"]


def test_only_the_virtual_host_that_is_traced_tells(scene: Scene) -> None:
    other = scene.world.node.add_vhost("other")
    assert other.tracer is None
    assert scene.world.vhost.tracer is not None


def test_a_key_fits_whatever_the_name_of_the_queue(scene: Scene) -> None:
    name = "\u00e9" * 127
    scene.client.ask(3, "queue.declare", queue=name)
    scene.publish(name, exchange="")
    scene.client.ask(3, "basic.get", queue=name, no_ack=True)
    told = scene.traces()[-1]
    assert str(told.arguments["routing_key"]).startswith("deliver.\u00e9")


def test_a_publish_in_a_transaction_is_told_when_it_is_made(scene: Scene) -> None:
    scene.client.ask(3, "tx.select")
    scene.publish("k")
    assert scene.keys() == ["publish.amq.direct"]
