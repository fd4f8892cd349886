"""From a publish to its queues: checks in their order, returns, confirms (sections P, CF)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import (
    BindingRequest,
    bind,
    declare_exchange,
    delete_exchange,
    unbind,
)
from broker.core.publishing import Publisher
from broker.errors import (
    AccessRefused,
    AMQPError,
    NotFound,
    NotImplementedByBroker,
    PreconditionFailed,
)
from broker.limits import MESSAGE_BYTES_MAX_HARD
from broker.wire.tables import Arguments, Field
from tests.helpers.core import (
    CoreClient,
    CoreWorld,
    plain_headers,
    raw_properties,
    ready_bodies,
)


@pytest.fixture
def world() -> CoreWorld:
    return CoreWorld()


@pytest.fixture
def client(world: CoreWorld) -> CoreClient:
    return world.client()


def exchange(
    client: CoreClient, name: str, kind: str = "direct", *, internal: bool = False
) -> None:
    actor = client.node.own_actor(client.vhost)
    declare_exchange(client.vhost, actor, ExchangeSettings(name, kind, True, False, internal, {}))


def binding(
    source: str, queue: str, key: str = "", arguments: Arguments | None = None
) -> BindingRequest:
    return BindingRequest(source, queue, True, key, arguments or {})


def counts(client: CoreClient, *names: str) -> list[int]:
    return [int(client.world.queue(name).ready_count) for name in names]


# -- checks


def refused(world: CoreWorld, *, user_write: str = ".*", **publish: Any) -> AMQPError:
    """The error of one publish by bob."""
    bob = world.client(user=world.add_user("bob", write=user_write))
    bob.confirm_select()
    with pytest.raises(AMQPError) as caught:
        bob.publish(**{"key": "q", **publish})

    assert bob.heard() == []
    return caught.value


@pytest.mark.parametrize(
    ("publish", "kind", "text"),
    [
        pytest.param(
            {"exchange": "nothing"}, NotFound, "no exchange 'nothing' in vhost '/'", id="P-04"
        ),
        pytest.param(
            {"exchange": "inner"},
            AccessRefused,
            "cannot publish to internal exchange 'inner' in vhost '/'",
            id="P-05",
        ),
        pytest.param(
            {"reply_to": "amq.rabbitmq.reply-to"},
            PreconditionFailed,
            "fast reply consumer does not exist",
            id="P-06",
        ),
        pytest.param(
            {"expiration": "soon"},
            PreconditionFailed,
            "invalid expiration 'soon': no_integer",
            id="P-07",
        ),
        pytest.param(
            {"headers": {"CC": 70_000}},
            PreconditionFailed,
            'invalid message: {unacceptable_type_in_header,"CC",signedint}',
            id="P-08-cc",
        ),
        pytest.param(
            {"headers": {"BCC": "k"}},
            PreconditionFailed,
            'invalid message: {unacceptable_type_in_header,"BCC",longstr}',
            id="P-08-bcc",
        ),
        pytest.param(
            {"user_id": "alice"},
            PreconditionFailed,
            "user_id property set to 'alice' but authenticated user was 'bob'",
            id="P-10",
        ),
    ],
)
def test_a_publish_is_refused(
    world: CoreWorld, client: CoreClient, publish: dict[str, Any], kind: type[AMQPError], text: str
) -> None:
    """Rules P-04..P-10; nothing reaches a queue, and no number is used up."""
    client.declare("q")
    exchange(client, "inner", internal=True)
    error = refused(world, **publish)
    assert type(error) is kind
    assert error.explanation == text
    assert counts(client, "q") == [0]


@pytest.mark.parametrize(
    ("exchange_name", "shown"), [("", "amq.default"), ("amq.direct", "amq.direct")]
)
def test_writing_must_be_allowed(world: CoreWorld, exchange_name: str, shown: str) -> None:
    """Rules P-03, PM-10: and it is asked before the exchange is looked for (rule P-11)."""
    error = refused(world, user_write="^$", exchange=exchange_name)
    assert isinstance(error, AccessRefused)
    assert (
        error.explanation
        == f"write access to exchange '{shown}' in vhost '/' refused for user 'bob'"
    )


def test_a_right_is_asked_before_existence(world: CoreWorld) -> None:
    assert isinstance(refused(world, user_write="^$", exchange="nothing"), AccessRefused)


def test_immediate_is_not_implemented(client: CoreClient) -> None:
    """Rule P-01: before everything else."""
    with pytest.raises(NotImplementedByBroker) as caught:
        client.publish_on(client.route("q", "nothing", immediate=True))

    assert caught.value.explanation == "immediate=true"


@pytest.mark.parametrize("is_known", [False, True], ids=["new-route", "known-route"])
@pytest.mark.parametrize(
    ("configured", "size", "text"),
    [
        pytest.param(10, 11, "message size 11 is larger than configured max size 10", id="above"),
        pytest.param(
            1 << 40,
            MESSAGE_BYTES_MAX_HARD + 1,
            "message size 536870913 is larger than max size 536870912",
            id="above-the-hard-bound",
        ),
    ],
)
def test_bodies_are_bounded(
    client: CoreClient, configured: int, size: int, text: str, is_known: bool
) -> None:
    """Rule P-02."""
    client.declare("q")
    client.publisher = Publisher(client.vhost, client.actor, client.deliveries, configured)
    route = client.route("q")
    if is_known:
        client.publish_on(route, b"0123456789")

    with pytest.raises(PreconditionFailed) as caught:
        client.publisher.check_size(size)

    assert caught.value.explanation == text
    if size < 100:
        with pytest.raises(PreconditionFailed) as caught:
            client.publish_on(route, b"x" * size)

        assert caught.value.explanation == text


def test_an_impersonator_may_claim_another_user(world: CoreWorld, client: CoreClient) -> None:
    """Rules P-10, PM-32; everybody may claim to be themselves."""
    client.declare("q")
    world.client(user=world.add_user("bob")).publish("q", user_id="bob")
    world.client(user=world.add_user("eve", tags=("impersonator",))).publish("q", user_id="bob")
    assert counts(client, "q") == [2]


def test_an_empty_user_id_is_a_claim(world: CoreWorld) -> None:
    """Rule P-10."""
    bob = world.client(user=world.add_user("bob"))
    with pytest.raises(PreconditionFailed) as caught:
        bob.publish_on(bob.route("q"), b"", b"\x00\x10\x00")

    assert caught.value.explanation == "user_id property set to '' but authenticated user was 'bob'"


@pytest.mark.parametrize(
    ("key", "cc", "denied"),
    [
        pytest.param("hare.1", [], None, id="allowed"),
        pytest.param("fox.1", [], "fox.1", id="main-key"),
        pytest.param("hare.1", ["hare.2", "fox.2"], "fox.2", id="cc"),
        pytest.param("fox.1", ["fox.2"], "fox.1", id="main-key-first"),
    ],
)
def test_topic_rights_hold_for_every_key(
    world: CoreWorld, client: CoreClient, key: str, cc: list[str], denied: str | None
) -> None:
    """Rules P-09, PM-20, PM-21."""
    bob = world.add_user("bob")
    world.users.set_topic_permissions(
        "bob", vhost="/", exchange="amq.topic", write="^hare", read=".*"
    )
    publisher = world.client(user=bob)
    headers: dict[str, Any] = {"headers": {"CC": cc}} if cc else {}
    publisher.publish("fox.1", exchange="amq.direct")
    if denied is None:
        publisher.publish(key, exchange="amq.topic", **headers)
        return

    with pytest.raises(AccessRefused) as caught:
        publisher.publish(key, exchange="amq.topic", **headers)

    assert caught.value.explanation == (
        f"write access to topic '{denied}' in exchange 'amq.topic' in vhost '/' "
        "refused for user 'bob'"
    )


# -- routes that are kept


@pytest.mark.parametrize(
    "change",
    ["bind", "unbind", "declare-queue", "delete-queue", "delete-exchange", "rights", "policy"],
)
def test_a_kept_route_sees_every_change(world: CoreWorld, client: CoreClient, change: str) -> None:
    """What a route resolved to stands only until anything it rests on changes (E-76, PM-11)."""
    bob = world.client(user=world.add_user("bob"))
    own = client.node.own_actor(client.vhost)
    client.declare("a")
    exchange(client, "x")
    bind(client.vhost, own, binding("x", "a", "k"))
    kept = bob.route("k", "x")
    default = bob.route("b")
    bob.publish_on(kept)
    bob.publish_on(default)
    assert counts(client, "a") == [1]
    if change == "bind":
        client.declare("c")
        bind(client.vhost, own, binding("x", "c", "k"))
        bob.publish_on(kept)
        assert counts(client, "a", "c") == [2, 1]
    elif change == "unbind":
        unbind(client.vhost, own, binding("x", "a", "k"))
        bob.publish_on(kept)
        assert counts(client, "a") == [1]
    elif change == "declare-queue":
        client.declare("b")
        bob.publish_on(default)
        assert counts(client, "b") == [1]
    elif change == "delete-queue":
        queue = world.queue("a")
        client.vhost.remove_queue(queue)
        bob.publish_on(kept)
        assert queue.ready_count == 0
    elif change == "delete-exchange":
        delete_exchange(client.vhost, own, "x", if_unused=False)
        with pytest.raises(NotFound):
            bob.publish_on(kept)
    elif change == "rights":
        world.users.set_permissions("bob", vhost="/", configure="", write="", read="")
        world.node.rights_changed()
        with pytest.raises(AccessRefused):
            bob.publish_on(kept)
    else:
        exchange(client, "spare", "fanout")
        client.declare("c")
        bind(client.vhost, own, binding("spare", "c"))
        world.set_policy({"alternate-exchange": "spare"}, pattern="^x$")
        other = bob.route("unbound", "x")
        bob.publish_on(other)
        world.vhost.clear_policy("p")
        bob.publish_on(other)
        assert counts(client, "c") == [1]


def test_routes_by_headers_are_not_kept(client: CoreClient) -> None:
    """Rule E-70: two messages of one key go different ways."""
    own = client.node.own_actor(client.vhost)
    route = client.route("", "amq.headers")
    for name in ("red", "blue"):
        client.declare(name)
        arguments = {"x-match": Field("S", "all"), "colour": Field("S", name)}
        bind(client.vhost, own, binding("amq.headers", name, "", arguments))

    for colour in ("red", "blue", "red", "green"):
        client.publish_on(route, b"", raw_properties(headers={"colour": colour}))

    client.publish_on(route)
    assert counts(client, "red", "blue") == [2, 1]


# -- outcome


def test_unroutable_messages_come_back_when_they_must_arrive(client: CoreClient) -> None:
    """Rules P-21, P-24, CF-06: the return first, then the ack; BCC is nobody's business."""
    client.confirm_select()
    client.publish("nowhere", b"hare", mandatory=True, headers={"CC": ["no"], "BCC": ["no"]})
    returned, confirm = client.heard()
    assert returned.arguments == {
        "reply_code": 312,
        "reply_text": "NO_ROUTE",
        "exchange": "",
        "routing_key": "nowhere",
    }
    assert returned.body == b"hare"
    assert plain_headers(returned.properties) == {"CC": ["no"]}
    assert confirm.name == "basic.ack"
    assert client.publisher.return_count == 1


def test_unroutable_messages_are_dropped_else(client: CoreClient) -> None:
    """Rule P-20."""
    client.confirm_select()
    client.publish("nowhere")
    assert client.confirmed() == [("ack", 1, False)]


def test_what_a_queue_refuses_is_routed_all_the_same(client: CoreClient) -> None:
    """Rule P-22."""
    client.declare("q", x_max_length=0, x_overflow="reject-publish")
    client.confirm_select()
    client.publish("q", mandatory=True)
    assert client.confirmed() == [("nack", 1, True)]


def test_every_queue_has_a_message_of_its_own(client: CoreClient) -> None:
    """Rule P-25."""
    own = client.node.own_actor(client.vhost)
    for name in "abc":
        bind(client.vhost, own, binding("amq.fanout", client.declare(name).name))

    client.publish("", b"hare", exchange="amq.fanout")
    client.get(client.world.queue("a"))
    client.reject(1)
    messages = [client.world.queue(name).ready.messages()[0] for name in "bc"]
    assert messages[0] is not messages[1]
    assert messages[0].content is messages[1].content


def test_further_keys_reach_further_queues_once(client: CoreClient) -> None:
    """Rules P-40..P-42, E-11."""
    for name in ("main", "cc", "bcc"):
        client.declare(name)

    cc: list[object] = ["cc", "main", "cc", 5, "nobody"]
    client.publish("main", b"hare", headers={"CC": cc, "BCC": ["bcc", "cc"], "mine": 1})
    assert counts(client, "main", "cc", "bcc") == [1, 1, 1]
    for name in ("main", "cc", "bcc"):
        client.get(client.world.queue(name))

    for heard in client.heard():
        assert heard.arguments["routing_key"] == "main"
        assert set(plain_headers(heard.properties)) == {"CC", "mine"}


def test_a_table_that_had_only_bcc_is_left_empty(client: CoreClient) -> None:
    """Rule P-41."""
    client.declare("q")
    client.publish("q", headers={"BCC": ["q"]})
    client.get(client.world.queue("q"))
    [heard] = client.heard()
    assert heard.properties == b"\x20\x00" + bytes(4)


def test_properties_and_body_arrive_as_they_were_sent(client: CoreClient) -> None:
    """Rules P-30, P-31: the odd ones too."""
    client.declare("q")
    raw = raw_properties(
        content_type="text/plain",
        headers={"a": [1, {"b": None}]},
        delivery_mode=2,
        priority=255,
        correlation_id="c",
        reply_to="r",
        expiration="0070000",
        message_id="m",
        app_id="app",
    )
    client.publish_on(client.route("q"), b"hare", raw)
    client.consume(client.world.queue("q"))
    [heard] = client.heard()
    assert (heard.properties, heard.body) == (raw, b"hare")


@pytest.mark.parametrize(
    ("mode", "persistent"), [(None, False), (0, False), (1, False), (2, True), (3, False)]
)
def test_only_mode_two_is_persistent(
    client: CoreClient, mode: int | None, persistent: bool
) -> None:
    """Rule P-31."""
    queue = client.declare("q")
    raw = b"\0\0" if mode is None else b"\x10\x00" + bytes((mode,))
    client.publish_on(client.route("q"), b"", raw)
    assert queue.ready.messages()[0].is_persistent is persistent


def test_exchanges_count_what_goes_through(client: CoreClient) -> None:
    own = client.node.own_actor(client.vhost)
    for name in "ab":
        bind(client.vhost, own, binding("amq.fanout", client.declare(name).name))

    client.publish("", exchange="amq.fanout")
    client.publish("a")
    client.publish("nowhere")
    fanout = client.vhost.exchanges["amq.fanout"]
    default = client.vhost.exchanges[""]
    assert (fanout.publish_in, fanout.publish_out) == (1, 2)
    assert (default.publish_in, default.publish_out) == (2, 1)
    assert client.publisher.publish_count == 3
    assert ready_bodies(client.world.queue("a")) == [b"", b""]
