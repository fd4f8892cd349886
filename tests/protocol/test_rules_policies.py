"""What policies change for clients, and when (sections PO and PM)."""

from __future__ import annotations

import pytest

from broker.core.policy import policy_from_plain
from broker.core.user_commands import delete_user
from tests.helpers.core import raw_properties
from tests.helpers.rights import ALL, BobScene
from tests.helpers.session import Session, World, assert_connection_closing, publish


def set_policy(
    world: World,
    name: str,
    pattern: str,
    definition: dict[str, object],
    *,
    is_operator: bool = False,
    **more: object,
) -> None:
    value = {"pattern": pattern, "definition": definition, **more}
    policy = policy_from_plain(name, value, is_operator=is_operator)
    world.vhost.set_policy(policy, is_operator=is_operator)


def ready(session: Session, queue: str) -> object:
    answer = session.ask(1, "queue.declare", queue=queue, passive=True)
    return answer.arguments["message_count"]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def session(world: World) -> Session:
    return world.open(1)


@pytest.mark.parametrize(
    "chosen", [{}, {"exclusive": True}, {"auto_delete": True}], ids=["plain", "exclusive", "auto"]
)
def test_a_policy_is_set_changed_and_cleared_at_once(
    world: World, session: Session, chosen: dict[str, bool]
) -> None:
    """Rules PO-11, Q-86: on queues that are there, of all kinds."""
    session.ask(1, "queue.declare", queue="q", **chosen)
    counts = []
    session.feed(publish(1, "q") * 5)
    for length_max in (3, 2, 4):
        set_policy(world, "p", "^q$", {"max-length": length_max})
        counts.append(ready(session, "q"))
        session.feed(publish(1, "q") * 5)
        counts.append(ready(session, "q"))

    world.vhost.clear_policy("p")
    session.feed(publish(1, "q") * 5)
    counts.append(ready(session, "q"))
    assert counts == [3, 3, 2, 2, 2, 4, 9]


def test_a_policy_with_a_key_that_the_type_does_not_know_leaves_the_next_one_its_place(
    world: World, session: Session
) -> None:
    """Rules PO-03, PO-08: for queues of other types it goes on counting."""
    set_policy(world, "first", "^q", {"delivery-limit": 3, "max-length": 1}, priority=5)
    set_policy(world, "second", "^q", {"max-length": 3}, priority=1)
    set_policy(world, "third", "^q", {"max-length": 7}, priority=0)
    for kind, left in (("classic", 3), ("quorum", 1)):
        arguments = {"x-queue-type": kind}
        session.ask(1, "queue.declare", queue=f"q-{kind}", durable=True, arguments=arguments)
        session.feed(publish(1, f"q-{kind}") * 9)
        assert ready(session, f"q-{kind}") == left


def test_of_arguments_policies_and_operators_the_least_number_holds(
    world: World, session: Session
) -> None:
    """Rules PO-04, PO-05, PO-12."""
    session.ask(1, "queue.declare", queue="q", arguments={"x-max-length": 5})
    set_policy(world, "p", "", {"max-length": 4})
    set_policy(world, "o", "", {"max-length": 3}, is_operator=True)
    counts = []
    for clear in (lambda: None, lambda: world.vhost.clear_policy("o", is_operator=True)):
        clear()
        session.feed(publish(1, "q") * 9)
        counts.append(ready(session, "q"))

    set_policy(world, "p", "", {"max-length": 40})
    session.feed(publish(1, "q") * 9)
    assert [*counts, ready(session, "q")] == [3, 4, 5]


def test_an_expiry_by_policy_can_be_called_off(world: World, session: Session) -> None:
    """Rules PO-11, Q-70."""
    set_policy(world, "p", "", {"expires": 1_000})
    session.ask(1, "queue.declare", queue="q")
    world.wait(0.9)
    world.vhost.clear_policy("p")
    world.wait(60.0)
    assert "q" in world.vhost.queues
    set_policy(world, "p", "", {"expires": 1_000})
    world.wait(1.0)
    assert "q" not in world.vhost.queues


def test_an_alternate_by_policy_comes_and_goes(world: World, session: Session) -> None:
    """Rules PO-12, E-73: for exchanges that have none of their own."""
    for name, arguments in (("x", {}), ("own", {"alternate-exchange": "amq.direct"})):
        session.ask(1, "exchange.declare", exchange=name, type="direct", arguments=arguments)

    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "queue.bind", queue="q", exchange="amq.fanout")
    names: list[list[str]] = []
    for step in ("before", "set", "cleared"):
        if step == "set":
            set_policy(world, "p", "^(x|own)$", {"alternate-exchange": "amq.fanout"})
        elif step == "cleared":
            world.vhost.clear_policy("p")

        for exchange in ("x", "own"):
            session.feed(publish(1, "k", exchange=exchange, mandatory=True))
            names.append(session.names())

    returned = ["basic.return"]
    assert names == [returned, returned, [], returned, returned, returned]
    assert ready(session, "q") == 1


def test_a_dead_letter_exchange_by_policy_needs_no_right(world: World) -> None:
    """Rules PO-12, Q-29c, DL-03: whoever publishes, and whoever rejects."""
    scene = BobScene()
    guest = scene.guest
    guest.ask(1, "queue.declare", queue="grave")
    guest.ask(1, "queue.bind", queue="grave", exchange="amq.fanout")
    set_policy(scene.world, "p", "^q$", {"dead-letter-exchange": "amq.fanout"})
    bob = scene.bob(("", "^amq.default$", "^q$"))
    bob.feed(publish(1, "q"))
    bob.ask(1, "basic.get", queue="q")
    bob.send(1, "basic.reject", delivery_tag=1)
    assert bob.take_bytes() == b""
    assert ready(guest, "grave") == 1


def test_a_time_to_live_by_policy_is_for_later_messages(world: World, session: Session) -> None:
    """Rules TTL-01, TTL-02, TTL-06: and the least of all counts."""
    session.ask(1, "queue.declare", queue="q")
    session.feed(publish(1, "q", b"before"))
    set_policy(world, "p", "", {"message-ttl": 1_000})
    set_policy(world, "o", "", {"message-ttl": 500}, is_operator=True)
    raw = raw_properties(expiration="60000")
    session.feed(publish(1, "q", b"after", raw))
    world.wait(0.5)
    # It stands behind one that lives.
    assert ready(session, "q") == 2
    got = [session.ask(1, "basic.get", queue="q", no_ack=True) for _ in range(2)]
    assert [(one.name, one.body) for one in got] == [
        ("basic.get-ok", b"before"),
        ("basic.get-empty", b""),
    ]


@pytest.mark.parametrize("what", ["user", "vhost"])
def test_who_is_deleted_is_disconnected(what: str) -> None:
    """Rule PM-31: others stay, and revoked rights close nothing."""
    scene = BobScene()
    bob = scene.bob(ALL)
    scene.world.users.clear_permissions("bob", vhost="/")
    scene.world.node.rights_changed()
    scene.world.settle()
    assert bob.take_bytes() == b""
    if what == "user":
        delete_user(scene.world.node, "bob", by="guest")
        text = "user 'bob' is deleted"
    else:
        scene.world.node.delete_vhost("/")
        text = "vhost '/' is deleted"

    scene.world.settle()
    assert_connection_closing(bob, 320, f"CONNECTION_FORCED - {text}")
    assert bool(scene.guest.take_bytes()) == (what == "vhost")


def test_a_virtual_host_may_be_full_of_queues(world: World, session: Session) -> None:
    """Rules PM-30, Q-29b: what is there can be declared again; streams and others count alike."""
    world.vhost.queues_max = 2
    for name, kind in (("a", "classic"), ("b", "quorum"), ("a", "classic")):
        arguments = {"x-queue-type": kind}
        answer = session.ask(1, "queue.declare", queue=name, durable=True, arguments=arguments)
        assert answer.name == "queue.declare-ok"

    session.send(1, "queue.declare", queue="c", exclusive=True)
    [close] = session.heard()
    text = "cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
    assert close.arguments["reply_text"] == f"PRECONDITION_FAILED - {text}"
    session.send(1, "channel.close-ok")
    session.ask(1, "channel.open")
    session.ask(1, "queue.delete", queue="a")
    assert session.ask(1, "queue.declare", queue="c").name == "queue.declare-ok"
