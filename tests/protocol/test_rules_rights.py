"""What each method needs a right for, seen from the wire (section PM)."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from tests.helpers.core import raw_properties
from tests.helpers.rights import ALL, NONE, BobScene, refused, told
from tests.helpers.session import handshake, method, publish, text_property


@pytest.fixture
def scene() -> BobScene:
    return BobScene()


# -- the matrix


class Need(NamedTuple):
    """A method with what it is about, and each right that it needs, in the order of checks."""

    name: str
    arguments: dict[str, object]
    rights: tuple[tuple[str, str, str], ...]


ALTERNATE: Final = {"alternate-exchange": "ae"}
DEAD_LETTERS: Final = {"x-dead-letter-exchange": "dlx"}

NEEDS: Final = [
    Need(
        "exchange.declare",
        {"exchange": "new", "type": "fanout"},
        (("configure", "exchange", "new"),),
    ),
    Need(
        "exchange.declare",
        {"exchange": "new", "type": "fanout", "arguments": ALTERNATE},
        (
            ("configure", "exchange", "new"),
            ("read", "exchange", "new"),
            ("write", "exchange", "ae"),
        ),
    ),
    Need(
        "exchange.declare",
        {"exchange": "x", "type": "direct"},
        (("configure", "exchange", "x"),),
    ),
    Need("exchange.delete", {"exchange": "x"}, (("configure", "exchange", "x"),)),
    Need(
        "exchange.bind",
        {"destination": "x", "source": "h"},
        (("write", "exchange", "x"), ("read", "exchange", "h")),
    ),
    Need(
        "exchange.unbind",
        {"destination": "x", "source": "h"},
        (("write", "exchange", "x"), ("read", "exchange", "h")),
    ),
    Need("queue.declare", {"queue": "new"}, (("configure", "queue", "new"),)),
    Need(
        "queue.declare",
        {"queue": "new", "arguments": DEAD_LETTERS},
        (
            ("configure", "queue", "new"),
            ("read", "queue", "new"),
            ("write", "exchange", "dlx"),
        ),
    ),
    Need("queue.declare", {"queue": "q"}, (("configure", "queue", "q"),)),
    Need("queue.delete", {"queue": "q"}, (("configure", "queue", "q"),)),
    Need("queue.purge", {"queue": "q"}, (("read", "queue", "q"),)),
    Need(
        "queue.bind",
        {"queue": "q", "exchange": "x"},
        (("write", "queue", "q"), ("read", "exchange", "x")),
    ),
    Need(
        "queue.unbind",
        {"queue": "q", "exchange": "x"},
        (("write", "queue", "q"), ("read", "exchange", "x")),
    ),
    Need("basic.get", {"queue": "q"}, (("read", "queue", "q"),)),
    Need("basic.consume", {"queue": "q"}, (("read", "queue", "q"),)),
]


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: f"{need.name}-{len(need.rights)}")
def test_a_method_needs_these_rights_in_this_order_and_no_others(
    scene: BobScene, need: Need
) -> None:
    """Rules PM-02, PM-03, PM-10, E-25, Q-29c, B-02."""
    data = method(1, need.name, **need.arguments)
    patterns = {"configure": "^$", "write": "^$", "read": "^$"}
    for right, kind, name in need.rights:
        rights = (patterns["configure"], patterns["write"], patterns["read"])
        assert scene.said(rights, data) == refused(right, kind, name)
        patterns[right] = f"^{name}$"

    rights = (patterns["configure"], patterns["write"], patterns["read"])
    answer = scene.said(rights, data)
    assert answer in (f"{need.name}-ok", "basic.get-empty")


@pytest.mark.parametrize(
    ("exchange", "shown"), [("x", "x"), ("", "amq.default"), ("nowhere", "nowhere")]
)
def test_publishing_needs_write(scene: BobScene, exchange: str, shown: str) -> None:
    """Rules P-03, PM-10: and it is asked before the exchange is looked for."""
    data = publish(1, "q", exchange=exchange)
    assert scene.said((".*", "", ".*"), data) == refused("write", "exchange", shown)
    answer = scene.said(("", f"^{shown}$", ""), data)
    missing = "NOT_FOUND - no exchange 'nowhere' in vhost '/'"
    assert answer == (missing if exchange == "nowhere" else "")


@pytest.mark.parametrize(("kind", "name"), [("exchange", "x"), ("queue", "q")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_asking_whether_it_is_there_needs_any_right(
    scene: BobScene, kind: str, name: str, place: int
) -> None:
    """Rules E-31, Q-41: without one the refusal is about configure."""
    data = method(1, f"{kind}.declare", passive=True, **{kind: name})
    assert scene.said(NONE, data) == refused("configure", kind, name)
    one = ["", "", ""]
    one[place] = f"^{name}$"
    assert scene.said((one[0], one[1], one[2]), data) == f"{kind}.declare-ok"


def test_a_queue_named_by_the_broker_is_checked_by_that_name(scene: BobScene) -> None:
    """Rule PM-12."""
    data = method(1, "queue.declare", exclusive=True)
    refusal = scene.said(("^hare", "", ""), data)
    assert refusal.startswith("ACCESS_REFUSED - configure access to queue 'amq.gen-")
    assert scene.said(("^amq\\.gen-", "", ""), data) == "queue.declare-ok"


def test_consumers_stay_when_their_right_goes(scene: BobScene) -> None:
    """Rules PM-11, PM-13: what is asked from then on is refused, on open channels too."""
    session = scene.bob(ALL)
    session.ask(1, "basic.consume", queue="q", no_ack=True, consumer_tag="c")
    scene.allow()
    scene.guest.feed(publish(1, "q"))
    [delivery] = session.heard()
    assert delivery.name == "basic.deliver"
    session.send(1, "queue.purge", queue="q")
    assert told(session.heard()[-1]) == refused("read", "queue", "q")


def test_who_claims_another_name_has_to_be_an_impersonator(scene: BobScene) -> None:
    """Rules P-10, PM-32."""
    data = publish(1, "q", b"", raw_properties(user_id="guest"))
    text = "PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was 'bob'"
    assert scene.said(ALL, data) == text
    scene.world.users.users["bob"].tags = ("impersonator",)
    assert scene.said(ALL, data) == ""


@pytest.mark.parametrize("queue", ["q", "nowhere"])
def test_binding_to_a_topic_needs_the_key(scene: BobScene, queue: str) -> None:
    """Rules PM-20, PM-21, B-02: before the queue is looked for."""
    scene.world.users.set_permissions("bob", vhost="/", configure="", write="", read="")
    scene.world.users.set_topic_permissions(
        "bob", vhost="/", exchange="t", write="^w", read="^{username}\\."
    )
    data = method(1, "queue.bind", queue=queue, exchange="t", routing_key="eve.k")
    text = "read access to topic 'eve.k' in exchange 't' in vhost '/' refused for user 'bob'"
    assert scene.said(ALL, data) == f"ACCESS_REFUSED - {text}"
    data = method(1, "queue.bind", queue=queue, exchange="t", routing_key="bob.k")
    missing = "NOT_FOUND - no queue 'nowhere' in vhost '/'"
    assert scene.said(ALL, data) == (missing if queue == "nowhere" else "queue.bind-ok")
    for exchange in ("x", "t"):
        answer = scene.said(ALL, publish(1, "k", exchange=exchange))
        text = "write access to topic 'k' in exchange 't' in vhost '/' refused for user 'bob'"
        assert answer == (f"ACCESS_REFUSED - {text}" if exchange == "t" else "")


@pytest.mark.parametrize("is_capable", [True, False])
def test_another_secret_is_the_time_to_look_at_consumers_again(
    scene: BobScene, is_capable: bool
) -> None:
    """Rules C-73, C-74: who may read no more is stopped, and told if that is understood."""
    scene.allow(read="^(q|r)$", write="^amq.default$")
    scene.guest.ask(1, "queue.declare", queue="r")
    capabilities = ["consumer_cancel_notify"] if is_capable else []
    greeting = handshake(user="bob", password="bob", capabilities=capabilities)
    bob = scene.world.open(1, 2, 3, greeting=greeting)
    bob.ask(1, "basic.consume", queue="q", consumer_tag="stays", no_ack=True)
    bob.ask(2, "basic.consume", queue="r", consumer_tag="goes")
    bob.ask(3, "basic.consume", queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True)
    scene.guest.feed(publish(1, "r", b"unacked"))
    assert bob.names() == ["basic.deliver"]
    scene.allow(read="^q$", write="^amq.default$")
    bob.send(0, "connection.update-secret", new_secret="n", reason="r")
    update, *notices = bob.heard()
    assert update.name == "connection.update-secret-ok"
    assert [one.arguments["consumer_tag"] for one in notices] == ["goes"] * is_capable
    scene.guest.feed(publish(1, "r") + publish(1, "q"))
    bob.feed(publish(3, "q", b"", text_property(9, "amq.rabbitmq.reply-to")))
    assert [one.arguments["consumer_tag"] for one in bob.heard()] == ["stays", "stays"]
    bob.send(2, "basic.ack", delivery_tag=1)
    assert bob.take_bytes() == b""
    assert scene.world.vhost.queues["r"].ready_count == 1
