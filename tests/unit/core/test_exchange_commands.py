"""Declaring, deleting and binding exchanges as commands of the core (sections E and B)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import (
    BindingRequest,
    bind,
    check_exchange,
    declare_exchange,
    delete_exchange,
    unbind,
)
from broker.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from broker.wire.tables import Arguments, Field
from tests.helpers.core import CoreClient, CoreWorld, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.actor import Actor
    from broker.core.exchange.base import Exchange
    from broker.core.vhost import VirtualHost

ON_DEFAULT = "operation not permitted on the default exchange"


@pytest.fixture
def world() -> CoreWorld:
    return CoreWorld()


@pytest.fixture
def client(world: CoreWorld) -> CoreClient:
    return world.client()


def declare(
    client: CoreClient,
    name: str,
    kind: str = "direct",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments | None = None,
) -> Exchange:
    settings = ExchangeSettings(name, kind, durable, auto_delete, internal, arguments or {})
    return declare_exchange(client.vhost, client.actor, settings)


def delete(client: CoreClient, name: str, *, if_unused: bool = False) -> None:
    delete_exchange(client.vhost, client.actor, name, if_unused=if_unused)


def to_queue(source: str, queue: str = "q", key: str = "k", **arguments: Field) -> BindingRequest:
    return BindingRequest(source, queue, True, key, arguments)


def to_exchange(source: str, destination: str, key: str = "k") -> BindingRequest:
    return BindingRequest(source, destination, False, key, {})


# -- what a virtual host is born with


def test_the_standard_exchanges_are_there(world: CoreWorld) -> None:
    """Rule E-01."""
    found = {
        name: (one.type, one.durable, one.auto_delete, one.internal)
        for name, one in world.vhost.exchanges.items()
    }
    assert found == {
        "": ("direct", True, False, False),
        "amq.direct": ("direct", True, False, False),
        "amq.fanout": ("fanout", True, False, False),
        "amq.topic": ("topic", True, False, False),
        "amq.headers": ("headers", True, False, False),
        "amq.match": ("headers", True, False, False),
        "amq.rabbitmq.trace": ("topic", True, False, True),
    }


# -- declare


def test_declaring_the_same_again_finds_it(client: CoreClient) -> None:
    """Rule E-23: arguments that mean nothing may differ, and stay what they were."""
    exchange = declare(client, "x", "topic", arguments={"mine": Field("S", "a")})
    again = declare(client, "x", "topic", arguments={"mine": Field("S", "b")})
    assert again is exchange
    assert exchange.arguments["mine"].value == "a"


@pytest.mark.parametrize(
    ("kind", "durable", "auto_delete", "internal", "text"),
    [
        ("fanout", False, True, True, "'type' ... received 'fanout' but current is 'direct'"),
        ("direct", False, True, True, "'durable' ... received 'false' but current is 'true'"),
        ("direct", True, True, True, "'auto_delete' ... received 'true' but current is 'false'"),
        ("direct", True, False, True, "'internal' ... received 'true' but current is 'false'"),
    ],
)
def test_declaring_something_else_is_refused(
    client: CoreClient, kind: str, durable: bool, auto_delete: bool, internal: bool, text: str
) -> None:
    """Rule E-22: in this order."""
    declare(client, "x")
    settings = ExchangeSettings("x", kind, durable, auto_delete, internal, {})
    key, rest = text.split(" ... ")
    assert refusal(
        PreconditionFailed, partial(declare_exchange, client.vhost, client.actor, settings)
    ) == (f"inequivalent arg {key} for exchange 'x' in vhost '/': {rest}")


def test_names_of_the_brokers_own_are_reserved(client: CoreClient) -> None:
    """Rule E-21: what is there may be declared as it is."""
    assert declare(client, "amq.direct").name == "amq.direct"
    assert refusal(AccessRefused, partial(declare, client, "amq.mine")) == (
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    )
    assert refusal(PreconditionFailed, partial(declare, client, "amq.direct", "fanout")) == (
        "inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )


def test_an_unknown_type_is_told_before_anything_else(world: CoreWorld) -> None:
    """Rules E-20, CH-18."""
    bob = world.client(user=world.add_user("bob", configure=""))
    assert refusal(PreconditionFailed, partial(declare, bob, "", "x-no-such")) == (
        "unknown exchange type 'x-no-such'"
    )


@pytest.mark.parametrize("act", ["declare", "passive", "delete", "bind", "unbind", "to-exchange"])
def test_the_default_exchange_is_untouchable(client: CoreClient, act: str) -> None:
    """Rule E-12."""
    client.declare("q")
    vhost = client.vhost
    actor = client.actor
    acts: dict[str, Callable[[], object]] = {
        "declare": partial(declare, client, ""),
        "passive": partial(check_exchange, vhost, actor, ""),
        "delete": partial(delete, client, ""),
        "bind": partial(bind, vhost, actor, to_queue("")),
        "unbind": partial(unbind, vhost, actor, to_queue("")),
        "to-exchange": partial(bind, vhost, actor, to_exchange("amq.direct", "")),
    }
    assert refusal(AccessRefused, acts[act]) == ON_DEFAULT


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (
            Field("I", 5),
            "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
        ),
        (Field("S", "spare"), None),
        (Field("S", ""), None),
    ],
)
def test_an_alternate_is_named_by_text(client: CoreClient, field: Field, text: str | None) -> None:
    """Rules E-24, E-25: it need not exist."""
    arguments = {"alternate-exchange": field}
    if text is None:
        assert declare(client, "x", arguments=arguments).alternate_exchange == field.value
    else:
        with pytest.raises(PreconditionFailed) as caught:
            declare(client, "x", arguments=arguments)

        assert caught.value.explanation == text


def test_the_argument_beats_the_policy(client: CoreClient) -> None:
    """Rule E-73; both are looked at when the exchange is made and when the policy changes."""
    client.world.set_policy({"alternate-exchange": "spare"}, pattern="^x")
    plain = declare(client, "x1")
    own = declare(client, "x2", arguments={"alternate-exchange": Field("S", "mine")})
    assert (plain.alternate_exchange, own.alternate_exchange) == ("spare", "mine")
    client.vhost.clear_policy("p")
    assert (plain.alternate_exchange, own.alternate_exchange) == (None, "mine")


@pytest.mark.parametrize(
    ("configure", "write", "read", "denied"),
    [
        pytest.param("", ".*", ".*", "configure access to exchange 'x'", id="configure"),
        pytest.param("x", ".*", "", "read access to exchange 'x'", id="read-for-an-alternate"),
        pytest.param("x", "x", "x", "write access to exchange 'spare'", id="write-to-it"),
        pytest.param("x", "spare", "x", None, id="enough"),
    ],
)
def test_declaring_takes_rights(
    world: CoreWorld, configure: str, write: str, read: str, denied: str | None
) -> None:
    """Rules PM-03, E-25."""
    bob = world.client(user=world.add_user("bob", configure=configure, write=write, read=read))
    arguments = {"alternate-exchange": Field("S", "spare")}
    if denied is None:
        declare(bob, "x", arguments=arguments)
        return

    with pytest.raises(AccessRefused) as caught:
        declare(bob, "x", arguments=arguments)

    assert caught.value.explanation == f"{denied} in vhost '/' refused for user 'bob'"
    assert "x" not in world.vhost.exchanges


def test_asking_finds_an_exchange_of_any_type(client: CoreClient) -> None:
    """Rule E-30."""
    assert check_exchange(client.vhost, client.actor, "amq.topic").type == "topic"
    assert refusal(NotFound, partial(check_exchange, client.vhost, client.actor, "x")) == (
        "no exchange 'x' in vhost '/'"
    )


# -- delete


@pytest.mark.parametrize("name", ["amq.direct", "amq.not-there"])
def test_system_exchanges_stay(client: CoreClient, name: str) -> None:
    """Rule E-40: even those that are not there."""
    assert refusal(AccessRefused, partial(delete, client, name)) == (
        f"deletion of system exchange '{name}' in vhost '/' not allowed"
    )


def test_deleting_what_is_not_there_is_no_error(client: CoreClient) -> None:
    """Rule E-41."""
    delete(client, "x")
    delete(client, "x", if_unused=True)


def test_only_outgoing_bindings_are_use(client: CoreClient) -> None:
    """Rule E-42."""
    client.declare("q")
    declare(client, "x")
    bind(client.vhost, client.actor, to_queue("x"))
    with pytest.raises(PreconditionFailed) as caught:
        delete(client, "x", if_unused=True)

    assert caught.value.explanation == "exchange 'x' in vhost '/' in use"
    unbind(client.vhost, client.actor, to_queue("x"))
    bind(client.vhost, client.actor, to_exchange("amq.fanout", "x"))
    delete(client, "x", if_unused=True)
    assert "x" not in client.vhost.exchanges


def test_bindings_go_in_both_roles(client: CoreClient) -> None:
    """Rule E-43."""
    queue = client.declare("q")
    exchange = declare(client, "x")
    bind(client.vhost, client.actor, to_queue("x"))
    bind(client.vhost, client.actor, to_exchange("amq.fanout", "x"))
    delete(client, "x")
    assert not queue.incoming
    assert not exchange.incoming
    assert not client.vhost.exchanges["amq.fanout"].bindings


# -- auto-delete


def test_an_auto_delete_exchange_goes_with_its_last_binding(client: CoreClient) -> None:
    """Rules E-50, E-52: outgoing ones; it stays until it has had one."""
    client.declare("q")
    declare(client, "x", auto_delete=True)
    bind(client.vhost, client.actor, to_exchange("amq.fanout", "x"))
    unbind(client.vhost, client.actor, to_exchange("amq.fanout", "x"))
    assert "x" in client.vhost.exchanges
    bind(client.vhost, client.actor, to_queue("x", key="1"))
    bind(client.vhost, client.actor, to_queue("x", key="2"))
    unbind(client.vhost, client.actor, to_queue("x", key="1"))
    assert "x" in client.vhost.exchanges
    unbind(client.vhost, client.actor, to_queue("x", key="2"))
    assert "x" not in client.vhost.exchanges


def test_a_chain_of_auto_delete_exchanges_falls(client: CoreClient) -> None:
    """Rule E-51: a, b, c, d; the queue of d goes."""
    queue = client.declare("q")
    for name in "abcd":
        declare(client, name, auto_delete=True)

    for source, destination in ("ab", "bc", "cd"):
        bind(client.vhost, client.actor, to_exchange(source, destination))

    bind(client.vhost, client.actor, to_queue("d"))
    client.vhost.remove_queue(queue)
    assert not set("abcd") & set(client.vhost.exchanges)


def test_a_circle_of_auto_delete_exchanges_falls(client: CoreClient) -> None:
    """Rule E-51."""
    for name in "ab":
        declare(client, name, auto_delete=True)

    bind(client.vhost, client.actor, to_exchange("a", "b"))
    bind(client.vhost, client.actor, to_exchange("b", "a"))
    unbind(client.vhost, client.actor, to_exchange("b", "a"))
    assert not set("ab") & set(client.vhost.exchanges)


# -- bind and unbind


def test_binding_twice_is_binding_once(client: CoreClient) -> None:
    """Rules B-01, B-06."""
    client.declare("q")
    exchange = client.vhost.exchanges["amq.direct"]
    for _ in range(2):
        bind(client.vhost, client.actor, to_queue("amq.direct"))

    bind(client.vhost, client.actor, to_queue("amq.direct", a=Field("I", 1)))
    assert len(exchange.bindings) == 2
    client.publish("k", exchange="amq.direct")
    assert client.world.queue("q").ready_count == 1
    for _ in range(2):
        unbind(client.vhost, client.actor, to_queue("amq.direct"))

    assert len(exchange.bindings) == 1


@pytest.mark.parametrize(
    ("source", "queue", "missing"),
    [
        ("no", "q", "exchange 'no'"),
        ("amq.direct", "no", "queue 'no'"),
        ("no", "no", "exchange 'no'"),
    ],
)
def test_both_ends_must_be_there_to_bind(
    client: CoreClient, source: str, queue: str, missing: str
) -> None:
    """Rule B-04; to unbind, they need not (rule B-06)."""
    client.declare("q")
    request = to_queue(source, queue)
    assert refusal(NotFound, partial(bind, client.vhost, client.actor, request)) == (
        f"no {missing} in vhost '/'"
    )
    unbind(client.vhost, client.actor, request)


def test_a_binding_is_validated_before_the_queues_lock(
    world: CoreWorld, client: CoreClient
) -> None:
    """Rule B-03."""
    client.declare("q", exclusive=True)
    other = world.client()
    wrong = BindingRequest("amq.headers", "q", True, "", {"x-match": Field("S", "some")})
    with pytest.raises(PreconditionFailed):
        bind(world.vhost, other.actor, wrong)

    with pytest.raises(ResourceLocked):
        bind(world.vhost, other.actor, to_queue("amq.headers"))


def test_unbinding_anothers_queue_is_refused_where_it_is_bound(
    world: CoreWorld, client: CoreClient
) -> None:
    """Rule B-05."""
    client.declare("q", exclusive=True)
    other = world.client()
    unbind(world.vhost, other.actor, to_queue("amq.direct"))
    bind(world.vhost, client.actor, to_queue("amq.direct"))
    with pytest.raises(ResourceLocked):
        unbind(world.vhost, other.actor, to_queue("amq.direct"))


@pytest.mark.parametrize("act", [bind, unbind], ids=["bind", "unbind"])
@pytest.mark.parametrize(
    ("request_", "write", "read", "denied"),
    [
        pytest.param(to_queue("x"), "", ".*", "write access to queue 'q'", id="queue"),
        pytest.param(to_exchange("x", "y"), "", ".*", "write access to exchange 'y'", id="to-x"),
        pytest.param(to_queue("x"), ".*", "", "read access to exchange 'x'", id="source"),
        pytest.param(to_queue(""), ".*", "", None, id="default-before-source"),
        pytest.param(to_queue(""), "", "", "write access to queue 'q'", id="destination-first"),
    ],
)
def test_binding_takes_rights(
    world: CoreWorld,
    act: Callable[[VirtualHost, Actor, BindingRequest], None],
    request_: BindingRequest,
    write: str,
    read: str,
    denied: str | None,
) -> None:
    """Rules B-02, E-13, PM-03: in this order, whatever is there."""
    bob = world.client(user=world.add_user("bob", write=write, read=read))
    text = refusal(AccessRefused, partial(act, world.vhost, bob.actor, request_))
    if denied is None:
        assert text == ON_DEFAULT
    else:
        assert text == f"{denied} in vhost '/' refused for user 'bob'"


def test_binding_to_a_topic_takes_a_right_to_the_key(world: CoreWorld) -> None:
    """Rules B-02, PM-21: before the queue is looked for."""
    user = world.add_user("bob")
    world.users.set_topic_permissions(
        "bob", vhost="/", exchange="amq.topic", write=".*", read="^hare"
    )
    bob = world.client(user=user)
    text = refusal(
        AccessRefused, partial(bind, world.vhost, bob.actor, to_queue("amq.topic", "no", "fox"))
    )
    assert text == (
        "read access to topic 'fox' in exchange 'amq.topic' in vhost '/' refused for user 'bob'"
    )
    bob.declare("q")
    bind(world.vhost, bob.actor, to_queue("amq.topic", "q", "hare.1"))
    bind(world.vhost, bob.actor, to_queue("amq.direct", "q", "fox"))
