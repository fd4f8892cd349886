"""Who and what is protected stays as it is, whatever way the change comes; what was not said yet of
a protected user can be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from broker.auth.passwords import HASHING_ALGORITHM_DEFAULT, new_password_hash
from broker.core.limit_commands import clear_user_limits, set_user_limits
from broker.core.protection import Protected
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
    unprotect_user,
)
from tests.helpers.core import CoreWorld
from tests.helpers.http_api import Answer, HTTPClient, http_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.node import Node

HASH: Final = new_password_hash("pw", HASHING_ALGORITHM_DEFAULT, bytes)
ALL: Final = {"configure": ".*", "write": ".*", "read": ".*"}
LESS: Final = {**ALL, "write": "^$"}
TOPIC: Final = {"exchange": "amq.topic", "write": ".*", "read": ".*"}
LESS_TOPIC: Final = {**TOPIC, "read": "^$"}
TAGS: Final = ["administrator", "protected"]
REASON: Final = "user 'root' is protected from changes"


# -- the commands, which all ways in have in common

NEW: Final = Rights("a", "b", "c")
NEW_TOPIC: Final = TopicRights("amq.topic", "a", "b")
REFUSED: Final[dict[str, Callable[[Node], object]]] = {
    "password": lambda node: set_password_hash(node, "root", None, by=""),
    "password-and-tags": lambda node: put_user(node, "root", None, tags=TAGS, by=""),
    "tags": lambda node: set_user_tags(node, "root", ["administrator"], by=""),
    "other-tags": lambda node: set_user_tags(node, "root", ["monitoring", "protected"], by=""),
    "delete": lambda node: delete_user(node, "root", by=""),
    "limits": lambda node: set_user_limits(node, "root", {"max-connections": 0}, by=""),
    "a-first-limit": lambda node: set_user_limits(node, "root", {"max-channels": 0}, by=""),
    "no-limits": lambda node: clear_user_limits(node, "root", by=""),
    "rights": lambda node: set_permissions(node, "root", NEW, vhost="/", by=""),
    "no-rights": lambda node: clear_permissions(node, "root", vhost="/", by=""),
    "topic": lambda node: set_topic_permissions(node, "root", NEW_TOPIC, vhost="/", by=""),
    "no-topic": lambda node: clear_topic_permissions(
        node, "root", vhost="/", exchange="amq.topic", by=""
    ),
    "no-topics": lambda node: clear_topic_permissions(node, "root", vhost="/", by=""),
}
TAKEN: Final[dict[str, Callable[[Node], object]]] = {
    "the-same-again": lambda node: put_user(node, "root", HASH, tags=TAGS, by=""),
    "the-same-rights": lambda node: set_permissions(
        node, "root", Rights(".*", ".*", ".*"), vhost="/", by=""
    ),
    "rights-elsewhere": lambda node: set_permissions(node, "root", NEW, vhost="other", by=""),
    "another-topic": lambda node: set_topic_permissions(
        node, "root", NEW_TOPIC._replace(exchange="x"), vhost="/", by=""
    ),
    "the-same-limit": lambda node: set_user_limits(node, "root", {"max-connections": 9}, by=""),
    "no-limit-where-none-is": lambda node: clear_user_limits(node, "root", ["max-channels"], by=""),
}


@pytest.fixture
def node() -> Node:
    """A node with a user who has everything, and is protected."""
    node = CoreWorld().node
    node.add_vhost("other")
    put_user(node, "root", HASH, tags=["administrator"], by="")
    set_user_limits(node, "root", {"max-connections": 9}, by="")
    set_permissions(node, "root", Rights(".*", ".*", ".*"), vhost="/", by="")
    set_topic_permissions(node, "root", TopicRights("amq.topic", ".*", ".*"), vhost="/", by="")
    set_user_tags(node, "root", TAGS, by="")
    return node


def facts_of(node: Node) -> object:
    user = node.users.users["root"]
    rights = [(name, one.configure) for name, one in user.permissions.items()]
    topics = [(key, one.read) for key, one in user.topic_permissions.items()]
    limits = (user.connections_max, user.channels_max)
    return user.password_hash, user.tags, limits, rights, topics


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_that_is_said_of_a_protected_user_is_changed(name: str, node: Node) -> None:
    before = facts_of(node)
    with pytest.raises(Protected, match=REASON):
        REFUSED[name](node)

    assert facts_of(node) == before
    unprotect_user(node, "root", by="")
    REFUSED[name](node)
    assert "root" not in node.users.users or facts_of(node) != before


@pytest.mark.parametrize("name", TAKEN)
def test_what_changes_nothing_or_was_not_said_yet_is_taken(name: str, node: Node) -> None:
    TAKEN[name](node)


def test_a_protected_virtual_host_is_not_deleted_by_any_command(node: Node) -> None:
    vhost = node.vhosts["other"]
    vhost.metadata = vhost.metadata._replace(is_protected=True)
    with pytest.raises(Protected, match="it is protected from deletion"):
        node.delete_vhost("other")

    assert node.vhosts["other"] is vhost


# -- by HTTP


async def make_root(client: HTTPClient, **more: object) -> None:
    body = {"password": "pw", "tags": TAGS, "permissions": {"/": ALL}, **more}
    assert (await client.put("/users/root", body)).status == 201
    assert (await client.put("/topic-permissions/%2F/root", TOPIC)).status == 201


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/users/root", {"password": "other", "tags": TAGS}),
        ("PUT", "/users/root", {"password": "pw", "tags": "administrator"}),
        ("DELETE", "/users/root", None),
        ("POST", "/users/bulk-delete", {"users": ["guest", "root"]}),
        ("PUT", "/permissions/%2F/root", LESS),
        ("DELETE", "/permissions/%2F/root", None),
        ("PUT", "/topic-permissions/%2F/root", LESS_TOPIC),
        ("DELETE", "/topic-permissions/%2F/root", None),
        ("DELETE", "/topic-permissions/%2F/root/amq.topic", None),
        ("PUT", "/user-limits/root/max-connections", {"value": 0}),
        ("DELETE", "/user-limits/root/max-channels", None),
    ],
)
async def test_a_protected_user_is_not_changed_over_http(
    method: str, path: str, body: object
) -> None:
    async with http_broker() as client:
        await make_root(client, limits={"max-channels": 7})
        before = (await client.get("/definitions")).value
        answer = await client.ask(method, path, body)
        assert (answer.status, answer.facts["reason"]) == (400, REASON)
        assert (await client.get("/definitions")).value == before


async def test_nobody_ends_a_protection_from_elsewhere() -> None:
    async with http_broker() as client:
        await make_root(client)
        row = (await client.get("/users/root")).facts
        answer = await client.put("/users/root", {**row, "tags": ["administrator"]})
        assert (answer.status, answer.facts["reason"]) == (400, REASON)
        assert (await client.put("/users/root", row)).status == 204, "as it is"


async def test_a_protected_user_may_be_given_more() -> None:
    async with http_broker() as client:
        await make_root(client)
        await client.put("/vhosts/other")
        assert (await client.put("/permissions/other/root", ALL)).status == 201
        assert (await client.put("/permissions/other/root", ALL)).status == 204, "and once more"
        assert (await client.put("/permissions/other/root", LESS)).status == 400


@pytest.mark.parametrize(
    "rows",
    [
        {"users": [{"name": "root", "password": "other", "tags": "administrator"}]},
        {"permissions": [{"user": "root", "vhost": "/", **LESS}]},
        {"topic_permissions": [{"user": "root", "vhost": "/", **LESS_TOPIC}]},
    ],
    ids=lambda rows: next(iter(rows)),
)
async def test_a_protected_user_is_changed_by_no_definition(rows: dict[str, object]) -> None:
    async with http_broker() as client:
        await make_root(client)
        document = (await client.get("/definitions")).facts
        queues = [{"name": "q", "vhost": "/"}]
        refused: Answer = await client.post("/definitions", {**rows, "queues": queues})
        assert refused.status == 400
        section = next(iter(rows))
        assert f"{section}[0]: {REASON}" in str(refused.facts["reason"])
        assert (await client.get("/definitions")).facts == document, "and nothing else is done"
        assert (await client.post("/definitions", document)).status == 204, "as it is it may come"


async def test_the_limits_of_a_protected_user_are_changed_by_no_definition() -> None:
    async with http_broker() as client:
        await make_root(client, limits={"max-channels": 7})
        [row] = [one for one in (await client.get("/users")).rows if one["name"] == "root"]
        row["limits"] = {"max-channels": 0}
        refused = await client.post("/definitions", {"users": [row]})
        assert (refused.status, REASON in str(refused.facts["reason"])) == (400, True)


async def test_a_protected_user_comes_with_a_definition_as_a_whole() -> None:
    async with http_broker() as client:
        await make_root(client, limits={"max-channels": 7})
        document = (await client.get("/definitions")).facts

    async with http_broker() as client:
        assert (await client.post("/definitions", document)).status == 204
        assert (await client.get("/users/root")).facts["limits"] == {"max-channels": 7}
        assert (await client.get("/topic-permissions/%2F/root")).status == 200


async def test_a_protected_virtual_host_stays_so_whatever_a_definition_says() -> None:
    async with http_broker() as client:
        await client.put("/vhosts/kept", {"protected_from_deletion": True})
        metadata = {"protected_from_deletion": False, "description": "old"}
        body = {"vhosts": [{"name": "kept", "metadata": metadata}]}
        assert (await client.post("/definitions", body)).status == 204
        facts = (await client.get("/vhosts/kept")).facts
        assert facts["description"] == "old"
        assert facts["protected_from_deletion"] is True
        assert (await client.delete("/vhosts/kept")).status == 412


async def test_a_virtual_host_is_protected_by_the_configuration() -> None:
    config = {"vhosts": {"/": {}, "kept": {"protected_from_deletion": True}}}
    async with http_broker(config) as client:
        assert (await client.get("/vhosts/kept")).facts["protected_from_deletion"] is True
        assert (await client.delete("/vhosts/kept")).status == 412
        assert (await client.delete("/vhosts/%2F")).status == 204
