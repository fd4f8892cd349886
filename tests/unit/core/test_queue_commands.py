"""queue.declare, delete and purge as commands of the core (sections Q.1 to Q.6)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.core.exchange_commands import BindingRequest, bind
from broker.core.queue_commands import (
    QueueRequest,
    check_queue,
    declare_queue,
    delete_queue,
    purge_queue,
)
from broker.errors import (
    AccessRefused,
    AMQPError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from tests.helpers.core import CoreClient, CoreWorld, arguments_of, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)


@pytest.fixture
def world() -> CoreWorld:
    return CoreWorld()


@pytest.fixture
def client(world: CoreWorld) -> CoreClient:
    return world.client()


def delete(
    client: CoreClient, name: str = "q", *, if_unused: bool = False, if_empty: bool = False
) -> int:
    return delete_queue(client.vhost, client.actor, name, if_unused=if_unused, if_empty=if_empty)


def commands(client: CoreClient) -> dict[str, Callable[[], object]]:
    """Every command about the queue q, by name."""
    vhost = client.vhost
    actor = client.actor
    request = BindingRequest("amq.direct", "q", True, "k", {})
    return {
        "declare": partial(client.declare, "q", exclusive=True),
        "passive": partial(check_queue, vhost, actor, "q"),
        "delete": partial(delete, client),
        "purge": partial(purge_queue, vhost, actor, "q"),
        "bind": partial(bind, vhost, actor, request),
    }


# -- declare


def test_a_nameless_queue_is_named(client: CoreClient) -> None:
    """Rule Q-01."""
    names = {client.declare("").name for _ in range(3)}
    assert len(names) == 3
    for name in names:
        assert name.startswith("amq.gen-")
        assert len(name) == len("amq.gen-") + 22
        assert set(name[8:]) <= set(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        )


@pytest.mark.parametrize("exists", [False, True])
def test_names_of_the_brokers_own_are_reserved(client: CoreClient, exists: bool) -> None:
    """Rule Q-03: before existence; asking passively is fine."""
    name = client.declare("").name if exists else "amq.mine"
    with pytest.raises(AccessRefused) as caught:
        client.declare(name)

    assert caught.value.explanation == f"queue name '{name}' contains reserved prefix 'amq.*'"
    if exists:
        assert check_queue(client.vhost, client.actor, name).name == name


def test_declaring_the_same_again_finds_it(client: CoreClient) -> None:
    """Rule Q-14: and changes nothing of it."""
    queue = client.declare("q", durable=True, x_max_length=5, x_unknown="a")
    client.publish("q")
    again = client.declare("q", durable=True, x_max_length=5, x_unknown="b")
    assert again is queue
    assert queue.ready_count == 1
    assert queue.arguments["x-unknown"].value == "a"


@pytest.mark.parametrize(
    ("durable", "auto_delete", "arguments", "text"),
    [
        pytest.param(
            False, False, {"x-expires": 5}, "'durable' ... received 'false' but current is 'true'"
        ),
        pytest.param(
            True, True, {}, "'auto_delete' ... received 'true' but current is 'false'", id="auto"
        ),
        pytest.param(
            True, False, {"x-expires": 6}, "'x-expires' ... received '6' but current is '5'"
        ),
        pytest.param(
            True,
            False,
            {},
            "'x-expires' ... received none but current is the value '5' of type 'signedint'",
        ),
    ],
)
def test_declaring_something_else_is_refused(
    client: CoreClient, durable: bool, auto_delete: bool, arguments: dict[str, object], text: str
) -> None:
    """Rules Q-10, Q-11: the first difference is named."""
    client.declare("q", durable=True, x_expires=5)
    request = QueueRequest("q", durable, False, auto_delete, arguments_of(arguments))
    act = partial(declare_queue, client.vhost, client.actor, request)
    key, rest = text.split(" ... ")
    expected = f"inequivalent arg {key} for queue 'q' in vhost '/': {rest}"
    assert refusal(PreconditionFailed, act) == expected


@pytest.mark.parametrize("was", [False, True])
def test_exclusiveness_is_compared_first(client: CoreClient, was: bool) -> None:
    """Rule Q-31: strictly, on one's own queue too, and before the flags."""
    client.declare("q", exclusive=was, auto_delete=True)
    with pytest.raises(ResourceLocked) as caught:
        client.declare("q", exclusive=not was)

    assert caught.value.explanation == LOCKED


@pytest.mark.parametrize("durable", [False, True])
def test_an_exclusive_queue_is_never_durable(client: CoreClient, durable: bool) -> None:
    """Rule Q-07: and durable or not makes no difference."""
    queue = client.declare("q", durable=durable, exclusive=True)
    assert not queue.durable
    assert client.declare("q", durable=not durable, exclusive=True) is queue


def test_a_queue_that_cannot_be_made_is_not_made(client: CoreClient) -> None:
    with pytest.raises(PreconditionFailed):
        client.declare("q", x_expires=0)

    with pytest.raises(PreconditionFailed):
        client.declare("q", x_queue_type="foo")

    assert not client.vhost.queues


def test_a_virtual_host_holds_so_many_queues(client: CoreClient) -> None:
    """Rules Q-29b, PM-30: what exists may be declared again."""
    client.vhost.queues_max = 1
    client.declare("q")
    client.declare("q")
    with pytest.raises(PreconditionFailed) as caught:
        client.declare("second")

    assert caught.value.explanation == (
        "cannot declare queue 'second': queue limit in vhost '/' (1) is reached"
    )


# -- rights


@pytest.mark.parametrize(
    ("configure", "write", "read", "denied"),
    [
        pytest.param("", ".*", ".*", "configure access to queue 'q'", id="configure"),
        pytest.param("^q", ".*", "", "read access to queue 'q'", id="read-for-a-dlx"),
        pytest.param("^q", "^q", ".*", "write access to exchange 'dlx'", id="write-to-the-dlx"),
        pytest.param("^q$", "^dlx$", "^q$", None, id="enough"),
    ],
)
def test_declaring_takes_rights(
    world: CoreWorld, configure: str, write: str, read: str, denied: str | None
) -> None:
    """Rules PM-03, PM-10, Q-29c."""
    bob = world.client(user=world.add_user("bob", configure=configure, write=write, read=read))
    if denied is None:
        bob.declare("q", x_dead_letter_exchange="dlx")
        return

    with pytest.raises(AccessRefused) as caught:
        bob.declare("q", x_dead_letter_exchange="dlx")

    assert caught.value.explanation == f"{denied} in vhost '/' refused for user 'bob'"
    assert not world.vhost.queues


def test_rights_to_a_dlx_are_asked_of_new_queues_only(world: CoreWorld, client: CoreClient) -> None:
    """Rule Q-29c."""
    client.declare("q", x_dead_letter_exchange="dlx")
    bob = world.client(user=world.add_user("bob", configure="q", write="", read=""))
    assert bob.declare("q", x_dead_letter_exchange="dlx").name == "q"


def test_a_generated_name_needs_a_right_too(world: CoreWorld) -> None:
    """Rule PM-12."""
    bob = world.client(user=world.add_user("bob", configure="^amq\\.gen-"))
    assert bob.declare("").name.startswith("amq.gen-")
    eve = world.client(user=world.add_user("eve", configure="^eve"))
    with pytest.raises(AccessRefused, match="configure access to queue"):
        eve.declare("")


@pytest.mark.parametrize(
    ("configure", "write", "read"), [("q", "", ""), ("", "q", ""), ("", "", "q")]
)
def test_asking_for_a_queue_takes_any_right(
    world: CoreWorld, client: CoreClient, configure: str, write: str, read: str
) -> None:
    """Rules Q-41, E-31."""
    client.declare("q")
    bob = world.client(user=world.add_user("bob", configure=configure, write=write, read=read))
    assert check_queue(world.vhost, bob.actor, "q").name == "q"
    with pytest.raises(AccessRefused) as caught:
        check_queue(world.vhost, bob.actor, "other")

    assert caught.value.explanation == (
        "configure access to queue 'other' in vhost '/' refused for user 'bob'"
    )


@pytest.mark.parametrize(("command", "right"), [("delete", "configure"), ("purge", "read")])
def test_deleting_and_purging_take_rights(world: CoreWorld, command: str, right: str) -> None:
    """Rule PM-03: asked before existence."""
    bob = world.client(user=world.add_user("bob", configure="", write=".*", read=""))
    assert refusal(AccessRefused, commands(bob)[command]) == (
        f"{right} access to queue 'q' in vhost '/' refused for user 'bob'"
    )


# -- somebody else's queue


@pytest.mark.parametrize("command", ["declare", "passive", "delete", "purge", "bind"])
def test_anothers_exclusive_queue_is_locked(
    world: CoreWorld, client: CoreClient, command: str
) -> None:
    """Rule Q-30; rule Q-32: publishing is not."""
    queue = client.declare("q", exclusive=True)
    other = world.client()
    assert refusal(ResourceLocked, commands(other)[command]) == LOCKED
    other.publish("q")
    assert queue.ready_count == 1


def test_exclusive_queues_go_with_their_owner(world: CoreWorld, client: CoreClient) -> None:
    """Rule Q-33: and with no one else."""
    client.declare("mine", exclusive=True)
    client.declare("shared")
    other = world.client()
    other.declare("other", exclusive=True)
    world.vhost.delete_exclusive_queues(client)
    assert list(world.vhost.queues) == ["shared", "other"]
    other.declare("mine", exclusive=True)
    delete(other, "mine")
    world.vhost.delete_exclusive_queues(other)
    assert list(world.vhost.queues) == ["shared"]


# -- delete and purge


@pytest.mark.parametrize(
    ("command", "error"),
    [("passive", NotFound), ("purge", NotFound), ("delete", None)],
)
def test_what_is_not_there(client: CoreClient, command: str, error: type[AMQPError] | None) -> None:
    """Rules Q-34, Q-40, Q-55; deleting it is no error (rule Q-50)."""
    if error is None:
        assert delete(client) == 0
        return

    assert refusal(error, commands(client)[command]) == "no queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("has_messages", "has_consumer", "refusal"),
    [
        pytest.param(True, False, "not empty", id="not-empty"),
        pytest.param(False, True, "in use", id="in-use"),
        pytest.param(False, False, None, id="neither"),
    ],
)
def test_conditions_of_deleting(
    client: CoreClient, has_messages: bool, has_consumer: bool, refusal: str | None
) -> None:
    """Rule Q-51: unacked messages do not make it non-empty."""
    queue = client.declare("q")
    client.publish("q")
    client.get(queue)
    if has_messages:
        client.publish("q")

    if has_consumer:
        client.consume(queue)

    if refusal is None:
        assert delete(client, if_unused=True, if_empty=True) == 0
        assert not client.vhost.queues
        return

    with pytest.raises(PreconditionFailed) as caught:
        delete(client, if_unused=True, if_empty=True)

    assert caught.value.explanation == f"queue 'q' in vhost '/' {refusal}"
    assert delete(client) == int(has_messages)


def test_emptiness_is_asked_first(client: CoreClient) -> None:
    """Rule Q-51."""
    queue = client.declare("q")
    client.consume(queue, prefetch=1)
    client.publish("q")
    client.publish("q")
    with pytest.raises(PreconditionFailed, match="not empty"):
        delete(client, if_unused=True, if_empty=True)


def test_deleting_and_purging_count_what_is_ready(client: CoreClient) -> None:
    """Rules Q-50, Q-55."""
    queue = client.declare("q")
    for _ in range(3):
        client.publish("q")

    client.get(queue)
    assert purge_queue(client.vhost, client.actor, "q") == 2
    assert purge_queue(client.vhost, client.actor, "q") == 0
    client.publish("q")
    assert delete(client) == 1


def test_a_deleted_queue_takes_its_bindings_along(client: CoreClient) -> None:
    """Rule B-08."""
    client.declare("q")
    bind(client.vhost, client.actor, BindingRequest("amq.direct", "q", True, "k", {}))
    delete(client)
    assert not client.vhost.exchanges["amq.direct"].bindings
    client.declare("q")
    client.publish("k", exchange="amq.direct")
    assert client.world.queue("q").ready_count == 0
