"""The commands about users, their rights, and limits (section PM)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.auth.passwords import make_password_hash
from broker.core import limit_commands, user_commands
from broker.core.user_commands import NoSuchUser, NoSuchVirtualHost, Rights, TopicRights
from broker.errors import AccessRefused
from tests.helpers.core import CoreWorld
from tests.helpers.session import handshake, method

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.node import Node

SECRET = make_password_hash("secret", b"salt")
OTHER = make_password_hash("other", b"salt")
NOTHING = Rights("", "", "")


@pytest.fixture
def world() -> CoreWorld:
    return CoreWorld()


@pytest.fixture
def node(world: CoreWorld) -> Node:
    user_commands.put_user(world.node, "bob", SECRET, tags=["monitoring"], by="guest")
    return world.node


ON_A_USER: dict[str, Callable[..., object]] = {
    "password": partial(user_commands.set_password_hash, password_hash=OTHER),
    "tags": partial(user_commands.set_user_tags, tags=[]),
    "delete": user_commands.delete_user,
    "limits": partial(limit_commands.set_user_limits, limits={}),
    "no-limits": limit_commands.clear_user_limits,
}

IN_A_VHOST: dict[str, Callable[..., object]] = {
    "permissions": partial(user_commands.set_permissions, rights=NOTHING),
    "no-permissions": user_commands.clear_permissions,
    "topic": partial(user_commands.set_topic_permissions, rights=TopicRights("t", "", "")),
    "no-topic": user_commands.clear_topic_permissions,
}


@pytest.mark.parametrize("command", ON_A_USER.values(), ids=ON_A_USER)
def test_a_command_for_a_user_who_is_not_there_is_refused(
    node: Node, command: Callable[..., object]
) -> None:
    with pytest.raises(NoSuchUser, match="no user 'eve'"):
        command(node, name="eve", by="guest")


@pytest.mark.parametrize("command", IN_A_VHOST.values(), ids=IN_A_VHOST)
def test_rights_are_of_a_user_in_a_virtual_host(node: Node, command: Callable[..., object]) -> None:
    with pytest.raises(NoSuchUser, match="no user 'eve'"):
        command(node, "eve", vhost="/", by="guest")

    with pytest.raises(NoSuchVirtualHost, match="no vhost 'v'"):
        command(node, "bob", vhost="v", by="guest")


ON_A_VHOST: dict[str, Callable[..., object]] = {
    "limits": partial(limit_commands.set_vhost_limits, limits={}),
    "no-limits": limit_commands.clear_vhost_limits,
}


@pytest.mark.parametrize("command", ON_A_VHOST.values(), ids=ON_A_VHOST)
def test_limits_are_of_a_virtual_host_that_is_there(
    node: Node, command: Callable[..., object]
) -> None:
    with pytest.raises(NoSuchVirtualHost, match="no vhost 'v'"):
        command(node, name="v", by="guest")


def test_a_user_is_added_and_replaced(node: Node) -> None:
    """Rule PM-01: what else was set stays."""
    bob = node.users.users["bob"]
    user_commands.set_permissions(node, "bob", NOTHING, vhost="/", by="guest")
    assert (bob.password_hash, bob.tags) == (SECRET, ("monitoring",))
    assert user_commands.put_user(node, "bob", OTHER, tags=(), by="guest") is bob
    assert (bob.password_hash, bob.tags) == (OTHER, ())
    assert bob.permission("/") is not None
    user_commands.set_password_hash(node, "bob", None, by="guest")
    user_commands.set_user_tags(node, "bob", ["impersonator"], by="guest")
    assert bob.password_hash is None
    assert bob.is_impersonator


def test_permissions_hold_at_once_and_until_they_are_cleared(world: CoreWorld, node: Node) -> None:
    """Rules PM-02, PM-11: for a client that has used them before, too."""
    everything = Rights(".*", ".*", ".*")
    user_commands.set_permissions(node, "bob", everything, vhost="/", by="guest")
    bob = world.client(user=node.users.users["bob"])
    world.client().declare("q")
    bob.publish("q")
    assert world.queue("q").ready_count == 1
    assert user_commands.clear_permissions(node, "bob", vhost="/", by="guest")
    assert not user_commands.clear_permissions(node, "bob", vhost="/", by="guest")
    with pytest.raises(AccessRefused):
        bob.publish("q")


def test_a_pattern_that_does_not_compile_changes_nothing(node: Node) -> None:
    """Rules PM-02, PM-20."""
    set_permissions = partial(user_commands.set_permissions, node, "bob", vhost="/", by="guest")
    set_permissions(Rights("a", "b", "c"))
    with pytest.raises(ValueError, match="unterminated"):
        set_permissions(Rights("x", "(", "x"))

    rights = TopicRights("t", "x", "*")
    with pytest.raises(ValueError, match="nothing to repeat"):
        user_commands.set_topic_permissions(node, "bob", rights, vhost="/", by="guest")

    bob = node.users.users["bob"]
    permission = bob.permission("/")
    assert permission is not None
    assert (permission.configure, permission.write, permission.read) == ("a", "b", "c")
    assert bob.topic_permissions == {}


def test_topic_permissions_are_cleared_one_by_one_or_together(node: Node) -> None:
    """Rule PM-20."""
    clear = partial(user_commands.clear_topic_permissions, node, "bob", vhost="/", by="guest")
    bob = node.users.users["bob"]
    for exchange in "abc":
        rights = TopicRights(exchange, "", "")
        user_commands.set_topic_permissions(node, "bob", rights, vhost="/", by="guest")

    assert clear(exchange="b")
    assert not clear(exchange="b")
    assert list(bob.topic_permissions) == [("/", "a"), ("/", "c")]
    assert clear()
    assert not clear()
    assert bob.topic_permissions == {}


# -- limits


def test_user_limits_are_set_each_for_itself(node: Node) -> None:
    """Rule PM-30."""
    bob = node.users.users["bob"]
    assert limit_commands.limits_of_user(bob) == {}
    limit_commands.set_user_limits(node, "bob", {"max-connections": 0}, by="guest")
    limit_commands.set_user_limits(node, "bob", {"max-channels": 5}, by="guest")
    assert limit_commands.limits_of_user(bob) == {"max-connections": 0, "max-channels": 5}
    limit_commands.set_user_limits(node, "bob", {"max-connections": -1}, by="guest")
    assert limit_commands.limits_of_user(bob) == {"max-channels": 5}
    limit_commands.set_user_limits(node, "bob", {"max-connections": 7}, by="guest")
    limit_commands.clear_user_limits(node, "bob", ["max-channels"], by="guest")
    assert limit_commands.limits_of_user(bob) == {"max-connections": 7}
    limit_commands.clear_user_limits(node, "bob", by="guest")
    assert limit_commands.limits_of_user(bob) == {}


def test_limits_of_a_virtual_host_replace_each_other(world: CoreWorld, node: Node) -> None:
    """Rule PM-30."""
    limit_commands.set_vhost_limits(node, "/", {"max-connections": 0, "max-queues": 5}, by="guest")
    assert limit_commands.limits_of_vhost(world.vhost) == {"max-connections": 0, "max-queues": 5}
    limit_commands.set_vhost_limits(node, "/", {"max-queues": 7}, by="guest")
    assert limit_commands.limits_of_vhost(world.vhost) == {"max-queues": 7}
    limit_commands.clear_vhost_limits(node, "/", by="guest")
    assert limit_commands.limits_of_vhost(world.vhost) == {}


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"max-connections": 1, "max-hares": 1}, 'Unrecognised terms [{<<"max-hares">>,1}] in'),
        ({"max-connections": "5"}, 'max-connections should be a number, actually was <<"5">>'),
        ({"max-connections": True}, "max-connections should be a number, actually was true"),
    ],
)
def test_a_limit_that_is_none_changes_nothing(
    world: CoreWorld, node: Node, limits: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        limit_commands.set_user_limits(node, "bob", limits, by="guest")

    with pytest.raises(ValueError, match=re.escape(problem)):
        limit_commands.set_vhost_limits(node, "/", limits, by="guest")

    assert limit_commands.limits_of_user(node.users.users["bob"]) == {}
    assert limit_commands.limits_of_vhost(world.vhost) == {}


def test_clearing_a_limit_that_does_not_exist_is_refused(node: Node) -> None:
    with pytest.raises(ValueError, match=r"Unrecognised terms .*max-queues.* in user-limits"):
        limit_commands.clear_user_limits(node, "bob", ["max-queues"], by="guest")


def test_a_lower_limit_closes_nothing(world: CoreWorld, node: Node) -> None:
    """Rule PM-30: it is for what is opened from now on."""
    session = world.open(1, 2)
    limit_commands.set_user_limits(
        node, "guest", {"max-connections": 0, "max-channels": 1}, by="guest"
    )
    limit_commands.set_vhost_limits(node, "/", {"max-connections": 0}, by="guest")
    world.settle()
    assert session.ask(1, "queue.declare", queue="q").name == "queue.declare-ok"
    refused = world.connect()
    refused.feed(handshake())
    assert refused.names()[-1] == "connection.close"
    session.feed(method(3, "channel.open"))
    assert session.names() == ["connection.close"]
