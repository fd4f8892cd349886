"""Topology in and out: definitions, snapshots, and what a program declares against production."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from broker.testing import Broker
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from pathlib import Path

PRODUCTION: dict[str, object] = {
    "rabbit_version": "4.1.0",
    "users": [{"name": "shop", "password_hash": "x", "tags": []}],
    "vhosts": [{"name": "shop"}, {"name": "other"}],
    "queues": [
        {
            "name": "orders",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "classic", "x-max-length": 10},
        },
        {"name": "alien", "vhost": "other", "durable": True, "arguments": {}},
    ],
    "exchanges": [{"name": "shop", "vhost": "shop", "type": "topic", "durable": True}],
    "bindings": [
        {
            "source": "shop",
            "vhost": "shop",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "order.#",
            "arguments": {},
        }
    ],
    "policies": [
        {
            "name": "ttl",
            "vhost": "shop",
            "pattern": "^orders$",
            "apply-to": "queues",
            "priority": 0,
            "definition": {"message-ttl": 1_000},
        }
    ],
}


def declare(broker: Broker, **arguments: object) -> None:
    """What the program under test declares."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 10, **arguments})
        channel.queue_bind("orders", "shop", "order.#")


@pytest.mark.parametrize("kind", ["mapping", "json", "yaml"])
def test_definitions_are_declared_in_one_virtual_host(kind: str, tmp_path: Path) -> None:
    given: object = PRODUCTION
    if kind != "mapping":
        path = tmp_path / f"definitions.{kind}"
        text = json.dumps(PRODUCTION)
        # JSON is YAML, but for its brackets nobody would know.
        path.write_text(text if kind == "json" else f"# exported\n{text}")
        given = str(path)

    assert isinstance(given, dict | str)
    with Broker() as broker:
        broker.topology.load(given, vhost="shop")
        assert broker.queues == ["orders"]
        assert broker.exchange("shop").exists
        declare(broker)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().basic_publish("shop", "order.new", b"hare")

        broker.wait_idle()
        broker.queue("orders").assert_ready(1)
        broker.clock.advance(2)
        broker.queue("orders").assert_expired(1)


def test_what_is_wrong_with_definitions_is_told_with_its_place() -> None:
    with Broker() as broker, pytest.raises(Exception, match=r"exchanges\[0\].*odd"):
        broker.topology.load({"exchanges": [{"name": "e", "type": "odd"}]})


def test_a_snapshot_brings_back_what_it_has_and_takes_what_it_has_not(leveret: Broker) -> None:
    leveret.topology.load(PRODUCTION, vhost="shop")
    snapshot = leveret.topology.snapshot()
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        channel = connection.channel()
        channel.basic_publish("shop", "order.1", b"kept")
        channel.queue_declare("extra", durable=True)
        channel.queue_bind("orders", "amq.topic", "extra")
        channel.exchange_declare("more", "fanout")
        channel.queue_unbind("orders", "shop", "order.#")

    leveret.wait_idle()
    assert leveret.topology.snapshot() != snapshot
    leveret.topology.restore(json.loads(json.dumps(snapshot)))

    assert leveret.topology.snapshot() == snapshot
    leveret.queue("orders").assert_bodies("kept")


def test_a_program_is_compared_with_production(leveret: Broker) -> None:
    declare(leveret)
    assert not leveret.topology.diff(PRODUCTION, vhost="shop")
    leveret.topology.assert_fits(PRODUCTION, vhost="shop")

    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("mine", durable=True)
        channel.queue_unbind("orders", "shop", "order.#")
        channel.queue_delete("orders")
        channel.queue_declare("orders", arguments={"x-max-length": 5})

    found = leveret.topology.diff(PRODUCTION, vhost="shop")
    assert found.extra == ("queue 'mine'",)
    assert found.missing == ("binding 'shop' -> queue 'orders' with key 'order.#'",)
    (different,) = found.different
    assert different.startswith("queue 'orders': durable is False, there True, ")
    assert different.endswith("arguments is {'x-max-length': 5}, there {'x-max-length': 10}")
    with pytest.raises(AssertionError, match="only declared by the program: queue 'mine'"):
        leveret.topology.assert_fits(PRODUCTION, vhost="shop")


def test_definitions_are_there_again_after_a_restart() -> None:
    one = {"queues": [{"name": "given", "durable": True}]}
    with Broker(definitions=one) as broker:
        broker.faults.restart()
        assert broker.queues == ["given"]
