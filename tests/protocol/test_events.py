"""What is told at amq.rabbitmq.event, and that nothing is where nobody asked (rule E-134)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.auth.passwords import make_password_hash
from broker.core.limit_commands import (
    clear_user_limits,
    clear_vhost_limits,
    set_user_limits,
    set_vhost_limits,
)
from broker.core.policy import policy_from_plain
from broker.core.settings import NodeSettings
from broker.core.user_commands import (
    Rights,
    TopicRights,
    clear_permissions,
    clear_topic_permissions,
    delete_user,
    put_user,
    set_password_hash,
    set_permissions,
    set_topic_permissions,
    set_user_tags,
)
from broker.wire.properties import parse_properties
from tests.helpers.core import plain_headers
from tests.helpers.session import World, handshake, publish

EVENTS = "amq.rabbitmq.event"


class Scene:
    """A broker with events, which ``watch`` consumes from when ``listen`` was called."""

    def __init__(self) -> None:
        self.world = World(NodeSettings(has_event_exchange=True))
        self.watch = self.world.open(1)
        self.client = self.world.open(1)

    def listen(self, key: str = "#") -> None:
        self.watch.ask(1, "queue.declare", queue="events")
        self.watch.ask(1, "queue.bind", queue="events", exchange=EVENTS, routing_key=key)
        self.heard()

    def heard(self) -> list[tuple[str, dict[str, Any]]]:
        """Keys and headers of what was told since the last look."""
        self.world.wait(0)
        found: list[tuple[str, dict[str, Any]]] = []
        while True:
            one = self.watch.ask(1, "basic.get", queue="events", no_ack=True)
            if one.name == "basic.get-empty":
                return found

            assert (one.arguments["exchange"], one.body) == (EVENTS, b"")
            headers = plain_headers(one.properties)
            del headers["timestamp_in_ms"]
            found.append((str(one.arguments["routing_key"]), headers))

    def keys(self) -> list[str]:
        return [key for key, _ in self.heard()]


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.listen()
    return made


def test_the_exchange_is_there_only_when_asked_for() -> None:
    """Rule E-02."""
    assert EVENTS not in World().vhost.exchanges
    exchange = Scene().world.vhost.exchanges[EVENTS]
    assert (exchange.type, exchange.durable, exchange.internal) == ("topic", True, True)


def test_queues_exchanges_and_bindings_tell_of_themselves(scene: Scene) -> None:
    """Rule E-134."""
    client = scene.client
    client.ask(1, "queue.declare", queue="q", exclusive=True, arguments={"x-max-length": 5})
    client.ask(1, "exchange.declare", exchange="x", type="topic", auto_delete=True)
    client.ask(1, "queue.bind", queue="q", exchange="x", routing_key="k.#")
    queue, exchange, binding = scene.heard()
    assert queue == (
        "queue.created",
        {
            "name": "q",
            "vhost": "/",
            "type": "classic",
            "durable": False,
            "auto_delete": False,
            "exclusive": True,
            "arguments": {"x-max-length": 5},
            "user_who_performed_action": "guest",
        },
    )
    assert exchange[0] == "exchange.created"
    assert (exchange[1]["name"], exchange[1]["type"]) == ("x", "topic")
    assert (exchange[1]["auto_delete"], exchange[1]["internal"]) == (True, False)
    assert binding == (
        "binding.created",
        {
            "vhost": "/",
            "source_name": "x",
            "source_kind": "exchange",
            "destination_name": "q",
            "destination_kind": "queue",
            "routing_key": "k.#",
            "arguments": {},
            "user_who_performed_action": "guest",
        },
    )
    client.ask(1, "queue.delete", queue="q")
    assert sorted(scene.keys()) == ["binding.deleted", "exchange.deleted", "queue.deleted"]


def test_events_name_who_caused_them_and_nobody_where_nobody_did(scene: Scene) -> None:
    client = scene.client
    client.ask(1, "exchange.declare", exchange="x", type="fanout")
    client.ask(1, "queue.declare", queue="q", auto_delete=True)
    client.ask(1, "queue.bind", queue="q", exchange="x")
    client.ask(1, "queue.unbind", queue="q", exchange="x")
    client.ask(1, "exchange.delete", exchange="x")
    client.ask(1, "queue.declare", queue="r")
    client.ask(1, "queue.delete", queue="r")
    told = scene.heard()
    assert len(told) == 7
    assert all(headers["user_who_performed_action"] == "guest" for _, headers in told)
    client.ask(1, "basic.consume", queue="q", consumer_tag="c")
    client.ask(1, "basic.cancel", consumer_tag="c")
    gone = [headers for key, headers in scene.heard() if key == "queue.deleted"]
    assert ["user_who_performed_action" in headers for headers in gone] == [False]


def test_a_queue_tells_when_other_policies_govern_it(scene: Scene) -> None:
    """Rule E-134."""
    vhost = scene.world.vhost
    scene.client.ask(1, "queue.declare", queue="q")
    scene.client.ask(1, "queue.declare", queue="other")
    scene.heard()
    policy = policy_from_plain("p", {"pattern": "^q", "definition": {"max-length": 1}})
    vhost.set_policy(policy, by="root")
    updated, policy_set = scene.heard()
    assert updated == (
        "queue.policy.updated",
        {
            "name": "q",
            "vhost": "/",
            "type": "classic",
            "definition": {"max-length": 1},
            "user_who_performed_action": "root",
        },
    )
    assert (policy_set[0], policy_set[1]["user_who_performed_action"]) == ("policy.set", "root")
    vhost.set_policy(policy)
    assert scene.keys() == ["policy.set"], "the same governs it as before"
    vhost.clear_policy("p", by="root")
    assert scene.keys() == ["queue.policy.cleared", "policy.cleared"]


def test_doing_the_same_again_is_no_event(scene: Scene) -> None:
    for _ in range(2):
        scene.client.ask(1, "queue.declare", queue="q")
        scene.client.ask(1, "queue.bind", queue="q", exchange="amq.direct", routing_key="k")

    assert scene.keys() == ["queue.created", "binding.created"]
    for _ in range(2):
        scene.client.ask(1, "queue.unbind", queue="q", exchange="amq.direct", routing_key="k")

    assert scene.keys() == ["binding.deleted"]


def test_connections_channels_and_consumers_tell_of_their_end_too(scene: Scene) -> None:
    """Rule E-134."""
    scene.client.ask(1, "queue.declare", queue="q")
    scene.heard()
    other = scene.world.open(7)
    other.ask(7, "basic.consume", queue="q", consumer_tag="c", no_ack=True)
    name = other.connection.name
    where = {"vhost": "/", "user": "guest"}
    channel = {"name": f"{name} (7)", "connection": name, "number": 7, **where}
    login, connection, opened, consumer = scene.heard()
    assert login[0] == "user.authentication.success"
    assert connection == ("connection.created", {"name": name, **where})
    assert opened == ("channel.created", channel)
    assert consumer[0] == "consumer.created"
    assert (consumer[1]["consumer_tag"], consumer[1]["ack_required"]) == ("c", False)
    other.lose()
    gone = {"vhost": "/", "queue": "q", "consumer_tag": "c"}
    assert scene.heard() == [
        ("consumer.deleted", gone),
        ("channel.closed", channel),
        ("connection.closed", {"name": name, **where}),
    ]


def test_cancelling_and_deleting_the_queue_end_consumers_once_each(scene: Scene) -> None:
    scene.client.ask(1, "queue.declare", queue="q")
    for tag in ("a", "b"):
        scene.client.ask(1, "basic.consume", queue="q", consumer_tag=tag)

    scene.heard()
    scene.client.ask(1, "basic.cancel", consumer_tag="a")
    scene.client.send(1, "queue.delete", queue="q")
    scene.client.send(1, "channel.close")
    assert scene.keys() == [
        "consumer.deleted",
        "consumer.deleted",
        "queue.deleted",
        "channel.closed",
    ]


def test_policies_virtual_hosts_and_alarms_have_events(scene: Scene) -> None:
    """Rule E-134."""
    vhost, node = scene.world.vhost, scene.world.node
    vhost.set_policy(policy_from_plain("p", {"pattern": "^q", "definition": {"max-length": 1}}))
    vhost.clear_policy("p")
    vhost.clear_policy("p")
    node.add_vhost("other", by="root")
    node.delete_vhost("other")
    node.set_alarm("memory", True)
    node.set_alarm("memory", False)
    told = scene.heard()
    assert [key for key, _ in told] == [
        "policy.set",
        "policy.cleared",
        "vhost.created",
        "vhost.deleted",
        "alarm.set",
        "alarm.cleared",
    ]
    assert told[0][1]["pattern"] == "^q"
    assert told[2][1] == {"name": "other", "user_who_performed_action": "root"}
    assert told[3][1] == {"name": "other"}
    assert told[4][1] == {"source": "memory", "node": node.settings.node_name}


def test_other_virtual_hosts_are_heard_of_in_the_first() -> None:
    scene = Scene()
    other = scene.world.node.add_vhost("other")
    scene.listen("queue.*")
    client = scene.world.node.own_actor(other)
    assert client.user is None
    assert other.events is scene.world.node.events
    scene.world.node.delete_vhost("/")
    assert (other.events, scene.world.node.events) == (None, None)


def test_an_event_is_persistent_and_dated(scene: Scene) -> None:
    """Rule E-134."""
    scene.client.ask(1, "queue.declare", queue="q")
    scene.world.wait(0)
    told = scene.watch.ask(1, "basic.get", queue="events", no_ack=True)
    plain = parse_properties(told.properties).to_plain()
    wall_ms = scene.world.node.deadlines.wall_ms
    assert plain["delivery_mode"] == 2
    assert plain["timestamp"] == wall_ms // 1000
    assert plain_headers(told.properties)["timestamp_in_ms"] == wall_ms


def test_only_what_a_binding_asks_for_arrives() -> None:
    scene = Scene()
    scene.listen("exchange.#")
    scene.client.ask(1, "queue.declare", queue="q")
    scene.client.ask(1, "exchange.declare", exchange="x", type="direct")
    assert scene.keys() == ["exchange.created"]


def test_messages_cause_no_events_and_without_bindings_nothing_is_made() -> None:
    """Rule E-134."""
    scene = Scene()
    scene.client.ask(1, "queue.declare", queue="q")
    scene.world.wait(0)
    assert scene.world.vhost.exchanges[EVENTS].publish_in == 0
    scene.listen()
    scene.client.feed(publish(1, "q"))
    scene.client.ask(1, "basic.get", queue="q", no_ack=True)
    assert scene.keys() == []


def test_users_and_their_rights_tell_who_changed_them(scene: Scene) -> None:
    """Rule E-134."""
    node = scene.world.node
    secret = make_password_hash("secret", b"salt")
    put_user(node, "bob", secret, tags=["monitoring", "impersonator"], by="root")
    put_user(node, "eve", None, tags=[], by="root")
    put_user(node, "eve", secret, tags=[], by="root")
    set_password_hash(node, "bob", None, by="root")
    set_user_tags(node, "bob", ["management"], by="root")
    rights = Rights("a", "b", "c")
    topic = TopicRights("t", "b", "c")
    where = {"user": "bob", "vhost": "/"}
    set_permissions(node, "bob", rights, vhost="/", by="root")
    clear_permissions(node, "bob", vhost="/", by="root")
    clear_permissions(node, "bob", vhost="/", by="root")
    set_topic_permissions(node, "bob", topic, vhost="/", by="root")
    clear_topic_permissions(node, "bob", vhost="/", by="root")
    delete_user(node, "bob", by="root")
    who = {"user_who_performed_action": "root"}
    tags = ["monitoring", "impersonator"]
    assert scene.heard() == [
        ("user.created", {"name": "bob", **who}),
        ("user.tags.set", {"name": "bob", "tags": tags, **who}),
        ("user.created", {"name": "eve", **who}),
        ("user.password.changed", {"name": "eve", **who}),
        ("user.tags.set", {"name": "eve", "tags": [], **who}),
        ("user.password.cleared", {"name": "bob", **who}),
        ("user.tags.set", {"name": "bob", "tags": ["management"], **who}),
        ("permission.created", {**where, **rights._asdict(), **who}),
        ("permission.deleted", {**where, **who}),
        ("topic.permission.created", {**where, **topic._asdict(), **who}),
        ("topic.permission.deleted", {**where, **who}),
        ("user.deleted", {"name": "bob", **who}),
    ]


def test_rights_in_a_virtual_host_go_with_it(scene: Scene) -> None:
    """Rules E-134, PM-31."""
    node = scene.world.node
    node.add_vhost("v")
    set_permissions(node, "guest", Rights("", "", ""), vhost="v", by="root")
    set_topic_permissions(node, "guest", TopicRights("t", "", ""), vhost="v", by="root")
    scene.heard()
    node.delete_vhost("v", by="root")
    assert scene.keys() == ["topic.permission.deleted", "permission.deleted", "vhost.deleted"]


def test_limits_have_events(scene: Scene) -> None:
    """Rules E-134, PM-30."""
    node = scene.world.node
    set_user_limits(node, "guest", {"max-channels": 7}, by="root")
    clear_user_limits(node, "guest", by="root")
    set_vhost_limits(node, "/", {"max-queues": 5}, by="root")
    clear_vhost_limits(node, "/", by="root")
    who = {"name": "limits", "user_who_performed_action": "root"}
    user, vhost = {"username": "guest", **who}, {"vhost": "/", **who}
    parameter = {"component": "vhost-limits", **vhost}
    assert scene.heard() == [
        ("user.limits.set", {"max-channels": 7, **user}),
        ("user.limits.cleared", user),
        ("parameter.set", {"value": {"max-queues": 5}, **parameter}),
        ("vhost.limits.set", {"max-queues": 5, **vhost}),
        ("parameter.cleared", parameter),
        ("vhost.limits.cleared", vhost),
    ]


def test_logins_have_events_that_tell_no_secret(scene: Scene) -> None:
    """Rules E-134, C-32: nor whether it was the name or the password."""
    scene.world.open().lose()
    for user, password in (("guest", "wrong"), ("no-such-user", "guest")):
        scene.world.connect().feed(handshake(user=user, password=password))

    told = [event for event in scene.heard() if event[0].startswith("user.")]
    assert [key for key, _ in told] == ["user.authentication.success"] + [
        "user.authentication.failure"
    ] * 2
    assert told[0][1] == {
        "name": "guest",
        "connection_name": "127.0.0.1:40000 -> 127.0.0.1:5672",
        "connection_type": "network",
        "auth_mechanism": "PLAIN",
        "peer_host": "127.0.0.1",
        "peer_port": 40000,
        "ssl": False,
    }
    errors = [headers["error"] for _, headers in told[1:]]
    assert errors == [f"user '{name}' - invalid credentials" for name in ("guest", "no-such-user")]
